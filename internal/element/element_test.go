package element

import (
	"errors"
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/half"
)

// to converts values of one Go type to another.
func to[D, S any](t *testing.T, values ...S) ([]D, error) {
	t.Helper()
	require.True(t, Convertible(Of[D](), Of[S]()), "%v from %v", Of[D](), Of[S]())
	dst := make([]D, len(values))
	return dst, Convert(Bytes(dst), Of[D](), Bytes(values), Of[S]())
}

func converted[D, S any](t *testing.T, values ...S) []D {
	t.Helper()
	dst, err := to[D](t, values...)
	require.NoError(t, err)
	return dst
}

func TestOf(t *testing.T) {
	type token int32
	type weight half.BFloat16
	assert.Equal(t, dtype.Int32, Of[token]())
	assert.Equal(t, dtype.Uint16, Of[weight](), "a type of one's own has the underlying type's")
	assert.Equal(t, dtype.BFloat16, Of[half.BFloat16]())
	assert.Equal(t, dtype.Float16, Of[half.Float16]())
	assert.Equal(t, dtype.Int64, Of[int]())
	assert.Equal(t, dtype.Undefined, Of[string]())
	assert.Equal(t, dtype.Undefined, Of[struct{ int32 }]())
	assert.Empty(t, Bytes([]int32(nil)))
	assert.Equal(t, []byte{1, 0, 2, 0}, Bytes([]uint16{1, 2}))
}

func TestFloats(t *testing.T) {
	inf := math.Inf(1)
	once := 1 + 0x1p-11 + 0x1p-40 // rounded to float32 this is a midpoint of float16
	assert.Equal(t, []float32{1.5, float32(inf), 1}, converted[float32](t, 1.5, 1e300, 1+0x1p-25))
	assert.Equal(t, []half.Float16{0x3c01, 0x3c00, 0x7c00, 0x8000}, converted[half.Float16](t, once, 1+0x1p-11, 65520, math.Copysign(0, -1)))
	assert.Equal(t, []half.BFloat16{0x3f80, 0xff80, 0x7f80}, converted[half.BFloat16](t, 1, -inf, math.MaxFloat64))
	assert.Equal(t, []half.BFloat16{0x3f80, 0x3f82}, converted[half.BFloat16](t, half.Float16FromFloat32(1), half.Float16FromFloat32(1+0x1p-6)))
	assert.Equal(t, []float64{-2.5, inf}, converted[float64](t, half.BFloat16(0xc020), 0x7f80))
	assert.True(t, math.IsNaN(float64(converted[half.Float16](t, float32(math.NaN()))[0].Float32())))
	assert.Equal(t, []complex64{1 + 2i}, converted[complex64](t, complex128(1+2i)))
	assert.Equal(t, []complex128{-3i}, converted[complex128](t, complex64(-3i)))
}

// TestFastConversions compares the conversions that have loops of their own with the conversion
// through float64, for every 16-bit value and for float32 values around each.
func TestFastConversions(t *testing.T) {
	for _, short := range []dtype.Type{dtype.Float16, dtype.BFloat16} {
		raw := make([]byte, 2<<16)
		for i := range 1 << 16 {
			raw[2*i], raw[2*i+1] = byte(i), byte(i>>8)
		}
		fast, slow := make([]byte, 4<<16), make([]byte, 4<<16)
		require.NoError(t, Convert(fast, dtype.Float32, raw, short))
		convertFloats(slow, dtype.Float32, raw, short)
		wide := make([]float64, 1<<16)
		for i := range fast {
			if Floats(wide[:1], fast[i/4*4:], dtype.Float32); !math.IsNaN(wide[0]) {
				require.Equal(t, slow[i], fast[i], "%v %#x", short, i/4)
			}
		}
		Floats(wide, fast, dtype.Float32)
		for _, scale := range []float64{1, 1.0003, 0.9998} {
			var values []float32
			for _, v := range wide {
				if !math.IsNaN(v) {
					values = append(values, float32(v*scale))
				}
			}
			fast, slow := make([]byte, 2*len(values)), make([]byte, 2*len(values))
			require.NoError(t, Convert(fast, short, Bytes(values), dtype.Float32))
			convertFloats(slow, short, Bytes(values), dtype.Float32)
			require.Equal(t, slow, fast)
		}
	}
}

// TestIntegers converts the bounds of every integer type to every other one.
func TestIntegers(t *testing.T) {
	types := []dtype.Type{dtype.Int8, dtype.Int16, dtype.Int32, dtype.Int64, dtype.Uint8, dtype.Uint16, dtype.Uint32, dtype.Uint64}
	limits := func(dt dtype.Type) (low, high *big.Int) {
		one := big.NewInt(1)
		if dt.String()[0] == 'u' {
			return big.NewInt(0), new(big.Int).Sub(new(big.Int).Lsh(one, uint(dt.Bits())), one)
		}
		high = new(big.Int).Lsh(one, uint(dt.Bits()-1))
		return new(big.Int).Neg(high), new(big.Int).Sub(high, one)
	}
	bytesOf := func(v *big.Int, dt dtype.Type) []byte {
		raw := make([]byte, dt.Size())
		word := new(big.Int).And(v, new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), uint(dt.Bits())), big.NewInt(1)))
		for i, b := range word.FillBytes(make([]byte, dt.Size())) {
			raw[len(raw)-1-i] = b
		}
		return raw
	}
	for _, from := range types {
		low, high := limits(from)
		for _, into := range types {
			least, most := limits(into)
			for _, v := range []*big.Int{low, high, least, most, new(big.Int).Sub(least, big.NewInt(1)), new(big.Int).Add(most, big.NewInt(1)), big.NewInt(7)} {
				if v.Cmp(low) < 0 || v.Cmp(high) > 0 {
					continue
				}
				src := append(bytesOf(big.NewInt(1), from), bytesOf(v, from)...)
				dst := make([]byte, 2*into.Size())
				err := Convert(dst, into, src, from)
				if v.Cmp(least) < 0 || v.Cmp(most) > 0 {
					e, ok := errors.AsType[*RangeError](err)
					require.True(t, ok, "%v of %v as %v: %v", v, from, into, err)
					require.Equal(t, RangeError{1, v.String(), into}, *e)
					continue
				}
				require.NoError(t, err)
				require.Equal(t, append(bytesOf(big.NewInt(1), into), bytesOf(v, into)...), dst, "%v of %v as %v", v, from, into)
			}
		}
	}
	long := make([]int64, 3*block+1)
	long[2*block+5] = 300
	_, err := to[uint8](t, long...)
	require.EqualError(t, err, "element 1029, 300, exceeds uint8")
}

func TestBools(t *testing.T) {
	raw := []byte{0, 1, 2, 255}
	dst := make([]byte, 4)
	require.NoError(t, Convert(dst, dtype.Bool, raw, dtype.Bool))
	assert.Equal(t, []byte{0, 1, 1, 1}, dst)
	wide := make([]int32, 4)
	require.NoError(t, Convert(Bytes(wide), dtype.Int32, raw, dtype.Bool))
	assert.Equal(t, []int32{0, 1, 1, 1}, wide)
	assert.False(t, Convertible(dtype.Bool, dtype.Uint8))
}

// TestEveryPair checks that Convert supports every Convertible pair and preserves 0 and 1.
func TestEveryPair(t *testing.T) {
	one := map[dtype.Type][]byte{
		dtype.Float64: Bytes([]float64{1}), dtype.Float32: Bytes([]float32{1}), dtype.Float16: {0, 0x3c}, dtype.BFloat16: {0x80, 0x3f},
		dtype.Float8E5M2: {0x3c}, dtype.Float8E4M3: {0x38}, dtype.Float8E8M0: {127}, dtype.Complex64: Bytes([]complex64{1}),
		dtype.Complex128: Bytes([]complex128{1}), dtype.Complex32: {0, 0x3c, 0, 0}, dtype.HiFloat8: {8}, dtype.Bool: {1}, dtype.Int4: {1},
		dtype.Int8: {1}, dtype.Uint8: {1}, dtype.Int16: {1, 0}, dtype.Uint16: {1, 0}, dtype.Int32: {1, 0, 0, 0}, dtype.Uint32: {1, 0, 0, 0},
		dtype.Int64: {1, 0, 0, 0, 0, 0, 0, 0}, dtype.Uint64: {1, 0, 0, 0, 0, 0, 0, 0},
	}
	pairs := 0
	for to, want := range one {
		for from, src := range one {
			if !Convertible(to, from) {
				continue
			}
			pairs++
			dst := make([]byte, to.Size())
			require.NoError(t, Convert(dst, to, src, from), "%v from %v", to, from)
			require.Equal(t, want, dst, "%v from %v", to, from)
		}
	}
	// Pairs: 4 float types from 7, and three 8-bit float types from themselves; 8 integer types
	// from 9; bool from bool; 2 complex types from each other and themselves; complex32 and
	// hifloat8 from themselves.
	assert.Equal(t, 4*7+3+8*9+1+4+2, pairs)
	assert.False(t, Convertible(dtype.Int4, dtype.Int4), "no whole bytes")
}

func BenchmarkConvert(b *testing.B) {
	for _, c := range []struct{ to, from dtype.Type }{
		{dtype.Float32, dtype.BFloat16}, {dtype.Float32, dtype.Float16}, {dtype.BFloat16, dtype.Float32}, {dtype.Float16, dtype.Float32},
		{dtype.BFloat16, dtype.Float16}, {dtype.Float32, dtype.Float64}, {dtype.Int32, dtype.Int64},
	} {
		b.Run(c.from.String()+" to "+c.to.String(), func(b *testing.B) {
			const n = 1 << 18
			src, dst := make([]byte, n*c.from.Size()), make([]byte, n*c.to.Size())
			b.SetBytes(int64(len(src)))
			b.ReportAllocs()
			for b.Loop() {
				if err := Convert(dst, c.to, src, c.from); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

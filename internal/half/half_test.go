package half

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// value is the definition of a binary floating-point format, in float64 where every 16-bit
// value is exact: the oracle the bit tricks are checked against.
func value(bits uint16, expBits, fracBits int) float64 {
	exp := int(bits>>fracBits) & (1<<expBits - 1)
	frac := float64(bits & (1<<fracBits - 1))
	bias := 1<<(expBits-1) - 1
	sign := 1.0
	if bits&signMask != 0 {
		sign = -1
	}
	switch {
	case exp == 1<<expBits-1 && frac == 0:
		return math.Inf(int(sign))
	case exp == 1<<expBits-1:
		return math.NaN()
	case exp == 0:
		return sign * math.Ldexp(frac, 1-bias-fracBits)
	}
	return sign * math.Ldexp(frac+math.Ldexp(1, fracBits), exp-bias-fracBits)
}

// format describes one of the two types to the tests that cover both.
type format struct {
	name              string
	expBits, fracBits int
	encode            func(float32) uint16
	decode            func(uint16) float32
}

var formats = []format{
	{"Float16", 5, 10, func(f float32) uint16 { return uint16(Float16FromFloat32(f)) }, func(b uint16) float32 { return Float16(b).Float32() }},
	{"BFloat16", 8, 7, func(f float32) uint16 { return uint16(BFloat16FromFloat32(f)) }, func(b uint16) float32 { return BFloat16(b).Float32() }},
}

func (f format) value(bits uint16) float64 { return value(bits, f.expBits, f.fracBits) }
func (f format) inf() uint16               { return (1<<f.expBits - 1) << f.fracBits }

func TestEveryValue(t *testing.T) {
	for _, f := range formats {
		t.Run(f.name, func(t *testing.T) {
			for i := range 1 << 16 {
				bits := uint16(i)
				want, got := f.value(bits), f.decode(bits)
				if math.IsNaN(want) {
					require.True(t, math.IsNaN(float64(got)), "%#04x: %v", bits, got)
					quiet := uint16(1) << (f.fracBits - 1)
					require.Equal(t, bits|quiet, f.encode(got), "NaN %#04x lost sign or payload", bits)
					continue
				}
				if want != float64(got) || math.Signbit(want) != math.Signbit(float64(got)) {
					t.Fatalf("%#04x is %v, not %v", bits, want, got)
				}
				if back := f.encode(got); back != bits {
					t.Fatalf("round trip of %#04x gave %#04x", bits, back)
				}
			}
		})
	}
}

// TestRounding looks at each gap between neighbours: the midpoint goes to the even one, and
// the float32 values next to the midpoint to the nearer one. The last gap is the one to
// infinity, whose midpoint overflows.
func TestRounding(t *testing.T) {
	for _, f := range formats {
		t.Run(f.name, func(t *testing.T) {
			for lo := range f.inf() {
				hi := lo + 1
				above := f.value(hi)
				if hi == f.inf() {
					above = 2*f.value(lo) - f.value(lo-1)
				}
				mid := (f.value(lo) + above) / 2
				tie := float32(mid)
				if mid != float64(tie) {
					t.Fatalf("the midpoint above %#04x is not a float32", lo)
				}
				even := lo + lo&1
				for _, c := range []struct {
					in   float32
					want uint16
				}{
					{math.Nextafter32(tie, 0), lo},
					{tie, even},
					{math.Nextafter32(tie, float32(math.Inf(1))), hi},
				} {
					if got := f.encode(c.in); got != c.want {
						t.Fatalf("%v above %#04x gave %#04x, not %#04x", c.in, lo, got, c.want)
					}
					if got := f.encode(-c.in); got != c.want|signMask {
						t.Fatalf("%v above %#04x gave %#04x, not %#04x", -c.in, lo, got, c.want|signMask)
					}
				}
			}
		})
	}
}

// TestRoundingOnce looks at the float64 values next to each midpoint, which float32 does not
// distinguish from it.
func TestRoundingOnce(t *testing.T) {
	encode := map[string]func(float64) uint16{
		"Float16":  func(f float64) uint16 { return uint16(Float16FromFloat64(f)) },
		"BFloat16": func(f float64) uint16 { return uint16(BFloat16FromFloat64(f)) },
	}
	for _, f := range formats {
		t.Run(f.name, func(t *testing.T) {
			encode := encode[f.name]
			for lo := range f.inf() {
				hi := lo + 1
				above := f.value(hi)
				if hi == f.inf() {
					above = 2*f.value(lo) - f.value(lo-1)
				}
				mid := (f.value(lo) + above) / 2
				for _, c := range []struct {
					in   float64
					want uint16
				}{{f.value(lo), lo}, {math.Nextafter(mid, 0), lo}, {mid, lo + lo&1}, {math.Nextafter(mid, math.Inf(1)), hi}} {
					if got := encode(c.in); got != c.want {
						t.Fatalf("%v above %#04x gave %#04x, not %#04x", c.in, lo, got, c.want)
					}
					if got := encode(-c.in); got != c.want|signMask {
						t.Fatalf("%v above %#04x gave %#04x, not %#04x", -c.in, lo, got, c.want|signMask)
					}
				}
			}
			for in, want := range map[float64]uint16{0: 0, math.SmallestNonzeroFloat64: 0, math.MaxFloat64: f.inf(), math.Inf(1): f.inf()} {
				assert.Equal(t, want, encode(in), in)
				assert.Equal(t, want|signMask, encode(math.Copysign(in, -1)), -in)
			}
			assert.True(t, math.IsNaN(float64(f.decode(encode(math.NaN())))))
		})
	}
}

func TestExtremes(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, f := range formats {
		assert.Equal(t, f.inf(), f.encode(inf), f.name)
		assert.Equal(t, f.inf(), f.encode(math.MaxFloat32), f.name)
		assert.Equal(t, f.inf()|signMask, f.encode(-inf), f.name)
		assert.Equal(t, uint16(0), f.encode(math.SmallestNonzeroFloat32), f.name)
		assert.Equal(t, uint16(signMask), f.encode(-math.SmallestNonzeroFloat32), f.name)
		// A NaN whose payload lies in the dropped bits alone must not turn into an infinity.
		for _, bits := range []uint32{0x7f800001, 0xff800001, 0x7fc00000, 0xffffffff} {
			got := f.decode(f.encode(math.Float32frombits(bits)))
			assert.True(t, math.IsNaN(float64(got)), "%s of NaN %#08x gave %v", f.name, bits, got)
			assert.Equal(t, bits>>31 == 1, math.Signbit(float64(got)), "%s sign of NaN %#08x", f.name, bits)
		}
	}
	assert.Equal(t, Float16(0x7bff), Float16FromFloat32(65519.996))
	assert.Equal(t, Float16(0x7c00), Float16FromFloat32(65520))
}

func FuzzNearest(f *testing.F) {
	for _, bits := range []uint32{0, 1, 0x33000000, 0x33000001, 0x387fffff, 0x38800000, 0x477fefff, 0x477ff000, 0x7f7fffff, 0x80000001} {
		f.Add(bits)
	}
	f.Fuzz(func(t *testing.T, bits uint32) {
		in := math.Float32frombits(bits)
		if math.IsNaN(float64(in)) || math.IsInf(float64(in), 0) {
			return
		}
		for _, fm := range formats {
			got := fm.encode(in)
			if got&^signMask == fm.inf() {
				continue // TestRounding covers the border of overflow
			}
			distance := math.Abs(fm.value(got) - float64(in))
			for _, next := range []uint16{got - 1, got + 1} {
				if v := fm.value(next); !math.IsNaN(v) && math.Abs(v-float64(in)) < distance {
					t.Fatalf("%s of %v is %#04x, but %#04x is nearer", fm.name, in, got, next)
				}
			}
		}
	})
}

func TestSlices(t *testing.T) {
	t.Run("Float16", testSlice[Float16])
	t.Run("BFloat16", testSlice[BFloat16])
}

func testSlice[T Half](t *testing.T) {
	for _, n := range []int{0, 1, 7, 64, 1001} {
		src := make([]float32, n)
		for i := range src {
			src[i] = float32(i) - 3.25
		}
		enc := make([]T, n)
		require.Equal(t, n, Encode(enc, src))
		dec := make([]float32, n)
		require.Equal(t, n, Decode(dec, enc))
		for i, v := range dec {
			require.InDelta(t, src[i], v, math.Abs(float64(src[i]))/256+1e-9, "element %d of %d", i, n)
		}
	}
	long, short := make([]T, 5), []float32{1, 2}
	assert.Equal(t, 2, Encode(long, short))
	assert.Equal(t, []T{0, 0, 0}, long[2:], "elements past the source must stay")
	assert.Equal(t, 2, Decode(short, long))
	assert.Equal(t, 2, Encode(long[:2], []float32{1, 2, 3}))
}

func TestString(t *testing.T) {
	assert.Equal(t, "0.099975586", Float16FromFloat32(0.1).String())
	assert.Equal(t, "-Inf", BFloat16(0xff80).String())
}

func BenchmarkEncodeFloat16(b *testing.B) { benchmarkEncode[Float16](b) }

func BenchmarkEncodeBFloat16(b *testing.B) { benchmarkEncode[BFloat16](b) }

func benchmarkEncode[T Half](b *testing.B) {
	src, dst := make([]float32, 1<<16), make([]T, 1<<16)
	for i := range src {
		src[i] = float32(i) * 0.37
	}
	b.SetBytes(4 << 16)
	b.ReportAllocs()
	for b.Loop() {
		Encode(dst, src)
	}
}

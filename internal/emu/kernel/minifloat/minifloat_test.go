package minifloat

import (
	"math"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// The least and the largest numbers of each type, and its numbers of codes with fractions near one.
func TestFormats(t *testing.T) {
	for d, want := range map[dtype.Type]struct{ least, next, most float64 }{
		dtype.HiFloat8: {0x1p-22, 1.125, 32768}, dtype.Float8E5M2: {0x1p-16, 1.25, 57344}, dtype.Float8E4M3: {0x1p-9, 1.125, 448},
		dtype.Float6E3M2: {0.0625, 1.25, 28}, dtype.Float6E2M3: {0.125, 1.125, 7.5}, dtype.Float4E2M1: {0.5, 1.5, 6}, dtype.Float4E1M2: {0.25, 1.25, 1.75},
		dtype.Float8E8M0: {0x1p-126, 2, 0x1p127},
	} {
		f := formats[d]
		assert.Equal(t, want.least, f.positive[1], d)
		assert.Equal(t, want.most, f.positive[len(f.positive)-1], d)
		one := slices.Index(f.positive, 1)
		assert.Equal(t, want.next, f.positive[one+1], d)
		for code, v := range Values(d) {
			if !math.IsNaN(v) && !math.IsInf(v, 0) {
				for _, r := range []Rounding{Even, Away, Down} {
					assert.Equal(t, code, f.code(v, r), "%v %g", d, v)
				}
			}
		}
		assert.Equal(t, len(f.positive)-1, slices.Index(f.codes, f.code(math.Inf(1), Even)), "%v saturates", d)
	}
	assert.Nil(t, Values(dtype.Float16))
	assert.Equal(t, 0, formats[dtype.Float8E4M3].code(math.NaN(), Even))
	assert.Equal(t, 255, formats[dtype.Float8E8M0].code(math.NaN(), Even))
}

func TestRounding(t *testing.T) {
	for _, c := range []struct {
		d    dtype.Type
		x    float64
		want [3]float64 // Even, Away, Down
	}{
		{dtype.Float4E2M1, 2.5, [3]float64{2, 3, 2}}, {dtype.Float4E2M1, 3.5, [3]float64{4, 4, 3}}, {dtype.Float4E2M1, -2.5, [3]float64{-2, -3, -3}},
		{dtype.Float4E2M1, 5.1, [3]float64{6, 6, 4}}, {dtype.Float4E2M1, -7, [3]float64{-6, -6, -6}}, {dtype.Float4E1M2, 0.125, [3]float64{0, 0.25, 0}},
		{dtype.Float8E4M3, 17, [3]float64{16, 18, 16}}, {dtype.Float8E4M3, 1e9, [3]float64{448, 448, 448}}, {dtype.Float8E5M2, 0x1p-17, [3]float64{0, 0x1p-16, 0}},
		{dtype.HiFloat8, 1.0625, [3]float64{1, 1.125, 1}}, {dtype.HiFloat8, 3 * 0x1p-23, [3]float64{0x1p-22, 0x1p-21, 0x1p-22}},
	} {
		for r, want := range c.want {
			got := formats[c.d].values[formats[c.d].code(c.x, Rounding(r))]
			if c.d == dtype.HiFloat8 && Rounding(r) == Even {
				continue // the device has no such rounding of HiFloat8
			}
			assert.Equal(t, want, got, "%v %g %d", c.d, c.x, r)
		}
	}
	assert.True(t, math.Signbit(formats[dtype.Float8E4M3].values[formats[dtype.Float8E4M3].code(-1e-9, Even)]))
}

// Elements of four bits share bytes, the first in the low half, in any order of dimensions.
func TestViews(t *testing.T) {
	bytes := make([]byte, 3)
	v := kernel.View{Data: unsafe.Pointer(&bytes[0]), DType: dtype.Float4E2M1, Shape: []int64{3, 2}, Strides: []int64{1, 3}}
	x := []float64{1, -6, 0.5, 0, 3, 2}
	require.NoError(t, Write(v, x, Even))
	assert.Equal(t, []byte{0x12, 0xf5, 0x40}, bytes)
	got, err := Read(v)
	require.NoError(t, err)
	assert.Equal(t, x, got)
	wide, release := kernel.Temporary(2)
	defer release()
	require.NoError(t, Write(wide, []float64{5, 0.5}, Even))
	got, err = Read(wide)
	require.NoError(t, err)
	assert.Equal(t, []float64{5, 0.5}, got)
}

// Scales that the device computes from bits, at the edges of the exponents.
func TestBlock(t *testing.T) {
	for _, c := range []struct {
		s             Scaling
		most          float64
		scale, factor float64
	}{
		{Scaling{Type: dtype.Float8E4M3}, 1, 0x1p-8, 256}, {Scaling{Type: dtype.Float8E4M3}, 1.99, 0x1p-8, 256}, {Scaling{Type: dtype.Float8E5M2}, 3, 0x1p-14, 0x1p14},
		{Scaling{Type: dtype.Float8E4M3}, 0, 0, 0}, {Scaling{Type: dtype.Float8E4M3}, 0x1p-119, 0, 0}, {Scaling{Type: dtype.Float8E4M3}, 0x1p-118, 0x1p-126, 0x1p126},
		{Scaling{Type: dtype.Float4E1M2}, 0x1p127, 0x1p127, 0x1p-127},
		{Scaling{Type: dtype.Float8E4M3, Algorithm: 1}, 448, 1, 1}, {Scaling{Type: dtype.Float8E4M3, Algorithm: 1}, 449, 2, 0.5}, {Scaling{Type: dtype.Float8E4M3, Algorithm: 1}, 0, 0x1p-127, 0x1p127},
		{Scaling{Type: dtype.Float4E2M1, Algorithm: 2}, 6, 1, 1}, {Scaling{Type: dtype.Float4E2M1, Algorithm: 2}, 6.03125, 2, 0.5}, {Scaling{Type: dtype.Float4E2M1, Algorithm: 2, Most: 7}, 7, 1, 1},
		{Scaling{Type: dtype.Float4E2M1, Algorithm: 2, Most: 7}, 7.03125, 2, 0.5}, {Scaling{Type: dtype.Float4E2M1, Algorithm: 2, Most: 8}, 8, 1, 1}, {Scaling{Type: dtype.Float4E2M1, Algorithm: 2, Most: 8}, 8.5, 2, 0.5},
		{Scaling{Type: dtype.Float4E1M2, Algorithm: 2}, 1.75, 1, 1}, {Scaling{Type: dtype.Float4E1M2, Algorithm: 2}, 1.76, 2, 0.5}, {Scaling{Type: dtype.Float4E1M2, Algorithm: 2, Most: 1.875}, 1.875, 1, 1},
		{Scaling{Type: dtype.Float8E4M3, Algorithm: 1, Least: 448}, 1, 1, 1}, {Scaling{Type: dtype.Float8E4M3, Algorithm: 1, Least: 448}, 0, 1, 1}, {Scaling{Type: dtype.Float8E4M3, Algorithm: 1, Least: 448, Zeros: true}, 0, 0, 0},
	} {
		scale, factor := c.s.Block([]float64{-c.most, c.most / 2})
		assert.Equal(t, [2]float64{c.scale, c.factor}, [2]float64{scale, factor}, "%+v %g", c.s, c.most)
	}
	scale, factor := Scaling{Type: dtype.Float8E4M3}.Block([]float64{1, math.Inf(-1)})
	assert.True(t, math.IsNaN(scale) && math.IsNaN(factor))
	scale, factor = Scaling{Type: dtype.Float4E2M1, Algorithm: 2}.Block([]float64{math.MaxFloat32})
	assert.True(t, math.IsNaN(scale) && math.IsNaN(factor), "infinite in bfloat16")
}

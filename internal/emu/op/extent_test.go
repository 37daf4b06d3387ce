package op

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
)

// nothingMapped is memory that must not be asked for.
type nothingMapped struct{ Memory }

// Sizes that overflow are refused in phase one, before a rule or the operator calculates with them.
func TestImpossibleTensorsAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		x    Tensor
		text string
	}{
		"size":        {Tensor{Shape: []int64{1<<62 + 1}, Strides: []int64{1}}, "more than 2^48 elements"},
		"product":     {Tensor{Shape: []int64{1 << 32, 1 << 32}, Strides: []int64{1 << 32, 1}}, "more than 2^48 elements"},
		"repeated":    {Tensor{Shape: []int64{1 << 32, 1 << 32}, Strides: []int64{0, 0}}, "more than 2^48 elements"},
		"negative":    {Tensor{Shape: []int64{-1}, Strides: []int64{1}}, "negative dimension"},
		"zero behind": {Tensor{Shape: []int64{0, math.MaxInt64}, Strides: []int64{1, 1}}, "more than 2^48 elements"},
		"stride":      {Tensor{Shape: []int64{3}, Strides: []int64{math.MaxInt64}}, "reaches more than"},
		"backwards":   {Tensor{Shape: []int64{2}, Strides: []int64{math.MinInt64}}, "reaches more than"},
		"offset":      {Tensor{Shape: []int64{1}, Strides: []int64{1}, Offset: math.MinInt64}, "reaches more than"},
		"sum":         {Tensor{Shape: []int64{2, 2}, Strides: []int64{1 << 48, 1}}, "reaches more than"},
		"no storage":  {Tensor{Shape: []int64{16, 16}, Strides: []int64{16, 1}, Format: dtype.FractalNZ}, "no storage shape"},
		"empty view":  {Tensor{Shape: []int64{0}, Strides: []int64{1}, Format: dtype.FractalNZ}, "no storage shape"},
		"storage":     {Tensor{Shape: []int64{16, 16}, Strides: []int64{16, 1}, Format: dtype.FractalNZ, Storage: []int64{1 << 40, 1 << 40}}, "storage of more than"},
	} {
		t.Run(name, func(t *testing.T) {
			x := c.x
			if x.DType = dtype.Float32; x.Format == 0 {
				x.Format = dtype.ND
			}
			o := Find("Abs")
			prepared := false
			_, err := NewExecutor(func(*Call) (Run, error) {
				prepared = true
				return func(*Exec) error { return nil }, nil
			}, NewCall(o, []any{&x, tensorOf(dtype.Float32, 1)}, Env{}))
			var refusal *Error
			require.True(t, errors.As(err, &refusal), "want a refusal, got %v", err)
			assert.Equal(t, int32(InvalidParam), refusal.Code)
			assert.Contains(t, refusal.Text, c.text)
			assert.False(t, prepared)
			require.ErrorContains(t, x.bind(nothingMapped{}), c.text)
		})
	}
	for _, x := range []*Tensor{
		tensorOf(dtype.Float32, 1<<48), tensorOf(dtype.Float32, 1<<62, 0), tensorOf(dtype.Float32),
		{Shape: []int64{0, 4}, Strides: []int64{math.MaxInt64, math.MaxInt64}, Format: dtype.ND},
		{Shape: []int64{1}, Strides: []int64{math.MinInt64}, Format: dtype.ND},
		{Shape: []int64{4}, Strides: []int64{-1}, Offset: 3, Format: dtype.ND},
	} {
		assert.NoError(t, x.checkExtent(), "%v", x)
	}
}

func FuzzExtent(f *testing.F) {
	f.Add(int64(3), int64(4), int64(4), int64(1), int64(0))
	f.Add(int64(1)<<62+1, int64(1), int64(1), int64(1), int64(0))
	f.Add(int64(2), int64(2), int64(-1), int64(math.MinInt64), int64(7))
	f.Add(int64(3), int64(14), int64(4), int64(-47), int64(-53)) // all before the address
	f.Fuzz(func(t *testing.T, d0, d1, s0, s1, offset int64) {
		x := Tensor{Shape: []int64{d0, d1}, Strides: []int64{s0, s1}, Offset: offset, Format: dtype.ND, DType: dtype.Complex128}
		if x.checkExtent() != nil {
			return
		}
		lo, hi, ok := x.span()
		if want := d0 != 0 && d1 != 0; ok != want || !ok {
			require.Equal(t, want, ok)
			return
		}
		// Every corner lies between the bounds, by arithmetic that does not overflow.
		for _, corner := range []float64{float64(offset), float64(offset) + float64(d0-1)*float64(s0), float64(offset) + float64(d1-1)*float64(s1), float64(offset) + float64(d0-1)*float64(s0) + float64(d1-1)*float64(s1)} {
			require.True(t, float64(lo) <= corner && corner < float64(hi), "%v: %v is not in [%d, %d)", slices.Concat(x.Shape, x.Strides), corner, lo, hi)
		}
		require.Equal(t, []int64{lo, hi}, []int64{lo * 128 / 128, hi * 128 / 128}, "the number of bits overflows")
	})
}

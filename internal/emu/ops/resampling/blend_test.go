package resampling

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// Blends are exact, with a rounding to float16 after each step.
func TestBlends(t *testing.T) {
	half := func(v float64) float64 { return kerneltest.Round(dtype.Float16, v) }
	mix := func(front, back, share float64) float64 {
		return half(half(back-half(back*share)) + half(front*share))
	}
	for _, channels := range []int64{1, 3} {
		for _, l := range kerneltest.Layouts {
			shape, places := []int64{3, 5, channels}, []int64{3, 5, 1}
			var front, back, alpha, share []float64
			for i := range 15 * channels {
				front, back = append(front, float64(i*91%256)), append(back, float64(i*57%256))
			}
			for i := range 15 {
				alpha, share = append(alpha, float64(i*73%256)), append(share, half(float64(i)/14))
			}
			in := func(d dtype.Type, shape []int64, v []float64) *op.Tensor {
				return optest.TensorIn(t, d, l, shape, v...)
			}
			for _, d := range []dtype.Type{dtype.Uint8, dtype.Float16} {
				out := optest.Tensor(t, d, shape)
				optest.RunOn(t, acceptance.Ascend310P, "BackgroundReplace", optest.Args{"bkg": in(d, shape, back), "src": in(d, shape, front), "mask": in(dtype.Float16, places, share), "out": out})
				for i, got := range optest.Values(out) {
					want := mix(front[i], back[i], share[int64(i)/channels])
					if d == dtype.Uint8 {
						want = math.RoundToEven(want)
					}
					require.Equal(t, want, got)
				}
			}
			out := optest.Tensor(t, dtype.Uint8, shape)
			optest.RunOn(t, acceptance.Ascend310P, "BlendImagesCustom", optest.Args{"rgb": in(dtype.Uint8, shape, front), "frame": in(dtype.Uint8, shape, back), "alpha": in(dtype.Uint8, places, alpha), "out": out})
			for i, got := range optest.Values(out) {
				require.Equal(t, math.RoundToEven(mix(front[i], back[i], half(alpha[int64(i)/channels]*half(1./255)))), got)
			}
			optest.RunOn(t, acceptance.Ascend310P, "MrgbaCustom", optest.Args{"rgb": in(dtype.Uint8, shape, front), "alpha": in(dtype.Uint8, places, alpha), "out": out})
			for i, got := range optest.Values(out) {
				require.Equal(t, math.Floor(half(front[i]*half(alpha[int64(i)/channels]*half(1./255)))), got)
			}
		}
	}
	u := dtype.Uint8
	a := optest.Args{"rgb": optest.Tensor(t, u, []int64{2, 2, 3}, 1), "alpha": optest.Tensor(t, u, []int64{2, 2, 1}, 1), "out": optest.Tensor(t, u, []int64{2, 2, 3})}
	optest.Refused(t, op.NullPointer, "MrgbaCustom", a.With(optest.Args{"alpha": nil}), "alpha is null")
	optest.Refused(t, op.InvalidParam, "MrgbaCustom", a.With(optest.Args{"rgb": optest.Tensor(t, dtype.Int8, []int64{2, 2, 3}, 1)}), "dtype")
	_, err := optest.PrepareIn(t, op.Env{Chip: acceptance.Ascend310P}, "MrgbaCustom", a.With(optest.Args{"alpha": optest.Tensor(t, u, []int64{2, 2, 3}, 1)}))
	require.ErrorContains(t, err, "one for each place")
}

package nn

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

func TestAmpUpdateScale(t *testing.T) {
	for _, d := range transformerTypes {
		one := func(d dtype.Type, v ...float64) *Tensor { return tensor(t, d, []int64{1}, v...) }
		for _, c := range []struct{ scale, tracker, found, wantScale, wantTracker float64 }{
			{8, 1, 0, 8, 2},                   // counts
			{8, 2, 0, 16, 0},                  // grows
			{8, 2, 1, 2, 0},                   // falls back
			{8, 0, math.Inf(1), 2, 0},         // whatever is found
			{largest[d], 2, 0, largest[d], 0}, // grows beyond what there is
			{largest[d] / 4, 2, 0, largest[d] / 2, 0},
		} {
			scale, tracker := one(d), one(dtype.Int32)
			a := args{
				"currentScale": one(d, c.scale), "growthTracker": one(dtype.Int32, c.tracker), "foundInf": one(d, c.found),
				"growthFactor": 2.0, "backoffFactor": 0.25, "growthInterval": 3, "updatedScale": scale, "updatedGrowthTracker": tracker,
			}
			run(t, "AmpUpdateScale", a)
			assert.Equal(t, []float64{kerneltest.Round(d, c.wantScale), c.wantTracker}, append(values(scale), values(tracker)...), "%v %v", d, c)
			refused(t, tilingRefused, "AmpUpdateScale", a.with(args{"growthInterval": 0}), "growthInterval is 0")
			refused(t, tilingRefused, "AmpUpdateScale", a.with(args{"foundInf": tensor(t, d, []int64{2}, 0)}), "one element")
			refused(t, invalidParam, "AmpUpdateScale", a.with(args{"updatedScale": one(dtype.Int32)}), "dtypes differ")
			refused(t, nullPointer, "AmpUpdateScale", a.with(args{"foundInf": nil}), "foundInf is null")
		}
	}
}

func TestUnscale(t *testing.T) {
	for _, d := range transformerTypes {
		for _, l := range kerneltest.Layouts {
			for _, bad := range []float64{0, math.Inf(1), math.Inf(-1), math.NaN()} {
				grads := []*Tensor{filled(t, 1, d, l, []int64{5, 3}), tensorIn(t, d, l, []int64{2, 2}, 1, bad, 3), filled(t, 2, d, l, []int64{0, 2})}
				first := values(grads[0])
				found, inverse := tensor(t, dtype.Float32, []int64{1}, 0), tensor(t, dtype.Float32, []int64{}, 0.5)
				a := args{"scaledGrads": grads, "foundInf": found, "invScale": inverse}
				run(t, "ForeachNonFiniteCheckAndUnscale", a)
				want := 0.0
				if bad != 0 {
					want = 1
				}
				assert.Equal(t, want, values(found)[0], "%v %v %g", d, l, bad)
				for i, v := range values(grads[0]) {
					assert.InDelta(t, first[i]/2, v, 1e-7)
				}
				assert.Equal(t, 0.5, values(grads[1])[0])
				refused(t, tilingRefused, "ForeachNonFiniteCheckAndUnscale", a.with(args{"scaledGrads": []*Tensor{}}), "0 tensors")
				refused(t, tilingRefused, "ForeachNonFiniteCheckAndUnscale", a.with(args{"invScale": tensor(t, dtype.Float32, []int64{2}, 1)}), "one element")
				mixed := []*Tensor{tensor(t, dtype.Float32, []int64{1}, 1), tensor(t, dtype.Float16, []int64{1}, 1)}
				refused(t, tilingRefused, "ForeachNonFiniteCheckAndUnscale", a.with(args{"scaledGrads": mixed}), "dtypes differ")
				refused(t, invalidParam, "ForeachNonFiniteCheckAndUnscale", a.with(args{"scaledGrads": []*Tensor{tensor(t, dtype.Int32, []int64{1}, 1)}}), "int32")
				refused(t, nullPointer, "ForeachNonFiniteCheckAndUnscale", a.with(args{"scaledGrads": nil}), "scaledGrads is null")
			}
		}
	}
	// What was found before stays.
	found := tensor(t, dtype.Float32, []int64{1}, 1)
	run(t, "ForeachNonFiniteCheckAndUnscale", args{"scaledGrads": []*Tensor{tensor(t, dtype.Float32, []int64{1}, 1)}, "foundInf": found, "invScale": tensor(t, dtype.Float32, []int64{1}, 1)})
	assert.Equal(t, 1.0, values(found)[0])
}

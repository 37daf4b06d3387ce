package optimizer

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestAmpUpdateScale(t *testing.T) {
	for _, d := range op.FloatTypes {
		_, most := d.Range()
		one := func(d dtype.Type, v ...float64) *op.Tensor { return optest.Tensor(t, d, []int64{1}, v...) }
		for _, c := range []struct{ scale, tracker, found, wantScale, wantTracker float64 }{
			{8, 1, 0, 8, 2},           // counts a finite step
			{8, 2, 0, 16, 0},          // grows
			{8, 2, 1, 2, 0},           // backs off
			{8, 0, math.Inf(1), 2, 0}, // any nonzero value, even infinity, counts as found
			{most, 2, 0, most, 0},     // does not grow beyond the largest finite value
			{most / 4, 2, 0, most / 2, 0},
		} {
			scale, tracker := one(d), one(dtype.Int32)
			a := optest.Args{
				"currentScale": one(d, c.scale), "growthTracker": one(dtype.Int32, c.tracker), "foundInf": one(d, c.found),
				"growthFactor": 2.0, "backoffFactor": 0.25, "growthInterval": 3, "updatedScale": scale, "updatedGrowthTracker": tracker,
			}
			optest.Run(t, "AmpUpdateScale", a)
			assert.Equal(t, []float64{kerneltest.Round(d, c.wantScale), c.wantTracker}, append(optest.Values(scale), optest.Values(tracker)...), "%v %v", d, c)
			optest.Refused(t, op.TilingRefused, "AmpUpdateScale", a.With(optest.Args{"growthInterval": 0}), "growthInterval is 0")
			optest.Refused(t, op.TilingRefused, "AmpUpdateScale", a.With(optest.Args{"foundInf": optest.Tensor(t, d, []int64{2}, 0)}), "one element")
			optest.Refused(t, op.InvalidParam, "AmpUpdateScale", a.With(optest.Args{"updatedScale": one(dtype.Int32)}), "dtypes differ")
			optest.Refused(t, op.NullPointer, "AmpUpdateScale", a.With(optest.Args{"foundInf": nil}), "foundInf is null")
		}
	}
}

func TestUnscale(t *testing.T) {
	for _, d := range op.FloatTypes {
		for _, l := range kerneltest.Layouts {
			for _, bad := range []float64{0, math.Inf(1), math.Inf(-1), math.NaN()} {
				grads := []*op.Tensor{optest.Filled(t, 1, d, l, []int64{5, 3}), optest.TensorIn(t, d, l, []int64{2, 2}, 1, bad, 3), optest.Filled(t, 2, d, l, []int64{0, 2})}
				first := optest.Values(grads[0])
				found, inverse := optest.Tensor(t, dtype.Float32, []int64{1}, 0), optest.Tensor(t, dtype.Float32, []int64{}, 0.5)
				a := optest.Args{"scaledGrads": grads, "foundInf": found, "invScale": inverse}
				optest.Run(t, "ForeachNonFiniteCheckAndUnscale", a)
				want := 0.0
				if bad != 0 {
					want = 1
				}
				assert.Equal(t, want, optest.Values(found)[0], "%v %v %g", d, l, bad)
				for i, v := range optest.Values(grads[0]) {
					assert.InDelta(t, first[i]/2, v, 1e-7)
				}
				assert.Equal(t, 0.5, optest.Values(grads[1])[0])
				optest.Refused(t, op.TilingRefused, "ForeachNonFiniteCheckAndUnscale", a.With(optest.Args{"scaledGrads": []*op.Tensor{}}), "0 tensors")
				optest.Refused(t, op.TilingRefused, "ForeachNonFiniteCheckAndUnscale", a.With(optest.Args{"invScale": optest.Tensor(t, dtype.Float32, []int64{2}, 1)}), "one element")
				mixed := []*op.Tensor{optest.Tensor(t, dtype.Float32, []int64{1}, 1), optest.Tensor(t, dtype.Float16, []int64{1}, 1)}
				optest.Refused(t, op.TilingRefused, "ForeachNonFiniteCheckAndUnscale", a.With(optest.Args{"scaledGrads": mixed}), "dtypes differ")
				optest.Refused(t, op.InvalidParam, "ForeachNonFiniteCheckAndUnscale", a.With(optest.Args{"scaledGrads": []*op.Tensor{optest.Tensor(t, dtype.Int32, []int64{1}, 1)}}), "int32")
				optest.Refused(t, op.NullPointer, "ForeachNonFiniteCheckAndUnscale", a.With(optest.Args{"scaledGrads": nil}), "scaledGrads is null")
			}
		}
	}
	// A value found earlier is kept.
	found := optest.Tensor(t, dtype.Float32, []int64{1}, 1)
	optest.Run(t, "ForeachNonFiniteCheckAndUnscale", optest.Args{"scaledGrads": []*op.Tensor{optest.Tensor(t, dtype.Float32, []int64{1}, 1)}, "foundInf": found, "invScale": optest.Tensor(t, dtype.Float32, []int64{1}, 1)})
	assert.Equal(t, 1.0, optest.Values(found)[0])
}

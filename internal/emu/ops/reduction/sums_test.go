package reduction

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestReduceLogSum(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Float32, dtype.Float16} {
		for _, l := range kerneltest.Layouts {
			x := optest.TensorIn(t, d, l, []int64{2, 3, 2}, 1, 2, .5, 4, 3, .25)
			xs := optest.Values(x)
			for _, c := range []struct {
				axes  []int64
				keep  bool
				shape []int64
				place func(i int) int
			}{
				{[]int64{1}, false, []int64{2, 2}, func(i int) int { return i/6*2 + i%2 }},
				{[]int64{-1, 0}, true, []int64{1, 3, 1}, func(i int) int { return i / 2 % 3 }},
				{[]int64{}, false, []int64{}, func(int) int { return 0 }},
			} {
				out, want := optest.TensorIn(t, d, l, c.shape), make([]float64, optest.Elements(c.shape))
				for i, v := range xs {
					want[c.place(i)] += v
				}
				for i := range want {
					want[i] = math.Log(want[i])
				}
				optest.Run(t, "ReduceLogSum", optest.Args{"data": x, "axes": c.axes, "keepDims": c.keep, "reduce": out})
				optest.CloseTo(t, fmt.Sprintf("%v %v over %v", d, l, c.axes), want, optest.Values(out), 2*optest.ResultLimit(d))
			}
			same := optest.TensorIn(t, d, l, x.Shape)
			optest.Run(t, "ReduceLogSum", optest.Args{"data": x, "axes": []int64{}, "noopWithEmptyAxes": true, "reduce": same})
			assert.Equal(t, xs, optest.Values(same))
		}
	}
	x, out := optest.Tensor(t, dtype.Float32, []int64{0, 2}), optest.Tensor(t, dtype.Float32, []int64{2})
	optest.Run(t, "ReduceLogSum", optest.Args{"data": x, "axes": []int64{0}, "reduce": out})
	assert.True(t, math.IsInf(optest.Values(out)[0], -1))
	optest.Refused(t, op.InvalidParam, "ReduceLogSum", optest.Args{"data": x, "axes": []int64{0, -2}, "reduce": out}, "twice")
	optest.Refused(t, op.InvalidParam, "ReduceLogSum", optest.Args{"data": x, "axes": []int64{2}, "reduce": out}, "out of range")
	optest.Refused(t, op.InvalidParam, "ReduceLogSum", optest.Args{"data": x, "axes": []int64{1}, "reduce": out}, "reduce float32[2]")
}

package activation

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// preluDefinition multiplies negative elements by the weight of their channel. place is the number
// of elements of a channel.
func preluDefinition(x, weight []float64, place int) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		if y[i] = v; v <= 0 {
			y[i] = v * weight[i/place%len(weight)]
		}
	}
	return y
}

func TestPrelu(t *testing.T) {
	for _, d := range op.FloatTypes {
		for _, l := range kerneltest.Layouts {
			for _, c := range []struct{ shape, weight []int64 }{
				{[]int64{2, 3, 5}, []int64{3}}, {[]int64{2, 3}, []int64{3}}, {[]int64{7}, []int64{1}}, {[]int64{2, 3, 5}, []int64{1}},
				{[]int64{2, 4, 3, 2}, []int64{1, 4, 1, 1}}, {[]int64{2, 4, 3, 2}, []int64{2, 2}}, {[]int64{2, 4, 3, 2}, []int64{1, 1, 1}}, {[]int64{}, []int64{1}},
			} {
				what := fmt.Sprintf("%v %v %v, weight %v", d, l, c.shape, c.weight)
				place := 1
				if len(c.shape) > 2 {
					place = int(optest.Elements(c.shape[2:]))
				}
				x, dy, weight := optest.Filled(t, 1, d, l, c.shape), optest.Filled(t, 2, d, l, c.shape), optest.Filled(t, 3, d, kerneltest.Contiguous, c.weight)
				y, dx, dweight := optest.TensorIn(t, d, l, c.shape), optest.TensorIn(t, d, l, c.shape), optest.Tensor(t, d, c.weight)
				if n := optest.Elements(c.weight); n > 1 {
					dweight = optest.Tensor(t, d, []int64{n})
				}
				xs, ws, g := optest.Values(x), optest.Values(weight), optest.Values(dy)
				optest.Run(t, "Prelu", optest.Args{"self": x, "weight": weight, "out": y})
				optest.CloseTo(t, what, preluDefinition(xs, ws, place), optest.Values(y), optest.ResultLimit(d))
				optest.Run(t, "PreluBackward", optest.Args{"gradOutput": dy, "self": x, "weight": weight, "gradInput": dx, "gradWeight": dweight})
				optest.CloseTo(t, "dx of "+what, optest.Gradient(func(x []float64) []float64 { return preluDefinition(x, ws, place) }, g, xs), optest.Values(dx), 2*optest.ResultLimit(d))
				optest.CloseTo(t, "dweight of "+what, optest.Gradient(func(w []float64) []float64 { return preluDefinition(xs, w, place) }, g, ws), optest.Values(dweight), 2*optest.ResultLimit(d))
			}
		}
	}
	f := dtype.Float32
	none, weight, dweight := optest.Tensor(t, f, []int64{0, 3}), optest.Tensor(t, f, []int64{3}, 1), optest.Tensor(t, f, []int64{3}, 9)
	optest.Run(t, "Prelu", optest.Args{"self": none, "weight": weight, "out": none})
	optest.Run(t, "PreluBackward", optest.Args{"gradOutput": none, "self": none, "weight": weight, "gradInput": none, "gradWeight": dweight})
	assert.Equal(t, []float64{0, 0, 0}, optest.Values(dweight))
	x := optest.Tensor(t, f, []int64{2, 4}, 1)
	optest.Refused(t, op.InvalidParam, "Prelu", optest.Args{"self": x, "weight": weight, "out": x}, "weight float32[3]", "4")
	optest.Refused(t, op.InvalidParam, "Prelu", optest.Args{"self": x, "weight": optest.Tensor(t, dtype.Int8, []int64{4}, 1), "out": x}, "int8")
	optest.Refused(t, op.NullPointer, "Prelu", optest.Args{"self": x, "out": x}, "weight is null")
	optest.Refused(t, op.InvalidParam, "PreluBackward", optest.Args{"gradOutput": weight, "self": x, "weight": optest.Tensor(t, f, []int64{1}, 1), "gradInput": x, "gradWeight": dweight}, "shapes differ")
}

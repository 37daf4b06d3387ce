package nn

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// preluDefinition scales negative elements by the weight of their channel; place is the
// number of elements of a channel.
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
	for _, d := range transformerTypes {
		for _, l := range kerneltest.Layouts {
			for _, c := range []struct{ shape, weight []int64 }{
				{[]int64{2, 3, 5}, []int64{3}}, {[]int64{2, 3}, []int64{3}}, {[]int64{7}, []int64{1}}, {[]int64{2, 3, 5}, []int64{1}},
				{[]int64{2, 4, 3, 2}, []int64{1, 4, 1, 1}}, {[]int64{}, []int64{1}},
			} {
				what := fmt.Sprintf("%v %v %v, weight %v", d, l, c.shape, c.weight)
				place := 1
				if len(c.shape) > 2 {
					place = int(elements(c.shape[2:]))
				}
				x, dy, weight := filled(t, 1, d, l, c.shape), filled(t, 2, d, l, c.shape), filled(t, 3, d, kerneltest.Contiguous, c.weight)
				y, dx, dweight := tensorIn(t, d, l, c.shape), tensorIn(t, d, l, c.shape), tensor(t, d, c.weight)
				xs, ws, g := values(x), values(weight), values(dy)
				run(t, "Prelu", args{"self": x, "weight": weight, "out": y})
				closeTo(t, what, preluDefinition(xs, ws, place), values(y), resultLimit(d))
				run(t, "PreluBackward", args{"gradOutput": dy, "self": x, "weight": weight, "gradInput": dx, "gradWeight": dweight})
				closeTo(t, "dx of "+what, gradient(func(x []float64) []float64 { return preluDefinition(x, ws, place) }, g, xs), values(dx), 2*resultLimit(d))
				closeTo(t, "dweight of "+what, gradient(func(w []float64) []float64 { return preluDefinition(xs, w, place) }, g, ws), values(dweight), 2*resultLimit(d))
			}
		}
	}
	f := dtype.Float32
	none, weight, dweight := tensor(t, f, []int64{0, 3}), tensor(t, f, []int64{3}, 1), tensor(t, f, []int64{3}, 9)
	run(t, "Prelu", args{"self": none, "weight": weight, "out": none})
	run(t, "PreluBackward", args{"gradOutput": none, "self": none, "weight": weight, "gradInput": none, "gradWeight": dweight})
	assert.Equal(t, []float64{0, 0, 0}, values(dweight))
	x := tensor(t, f, []int64{2, 4}, 1)
	refused(t, invalidParam, "Prelu", args{"self": x, "weight": weight, "out": x}, "weight float32[3]", "4")
	refused(t, invalidParam, "Prelu", args{"self": x, "weight": tensor(t, dtype.Int8, []int64{4}, 1), "out": x}, "int8")
	refused(t, nullPointer, "Prelu", args{"self": x, "out": x}, "weight is null")
	refused(t, invalidParam, "PreluBackward", args{"gradOutput": weight, "self": x, "weight": tensor(t, f, []int64{1}, 1), "gradInput": x, "gradWeight": dweight}, "shapes differ")
}

package convolution

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// cubeMathType rounds the float32 factors of convolutions and of their gradients.
func TestCubeMathType(t *testing.T) {
	const fine = 1 + 1.0/(1<<11) + 1.0/(1<<13)
	one := func(value float64) any { return optest.Tensor(t, dtype.Float32, []int64{1, 1, 1, 1}, value) }
	for mode, want := range map[int][2]float64{0: {fine, 1e5}, 1: {1 + 1.0/(1<<11), 1e5}, 2: {1 + 1.0/(1<<10), math.Inf(1)}, 3: {1 + 1.0/(1<<11), 1e5}} {
		for i, value := range []float64{fine, 1e5} {
			geometry := optest.Args{"stride": []int64{1, 1}, "padding": []int64{0, 0}, "dilation": []int64{1, 1}, "groups": 1, "outputPadding": []int64{0, 0}, "cubeMathType": mode}
			out := optest.Tensor(t, dtype.Float32, []int64{1, 1, 1, 1})
			optest.Run(t, "Convolution", geometry.With(optest.Args{"input": one(value), "weight": one(1), "output": out}))
			assert.Equal(t, []float64{want[i]}, optest.Values(out), "mode %d of %v", mode, value)

			dx, dw, db := optest.Tensor(t, dtype.Float32, []int64{1, 1, 1, 1}), optest.Tensor(t, dtype.Float32, []int64{1, 1, 1, 1}), optest.Tensor(t, dtype.Float32, []int64{1})
			optest.Run(t, "ConvolutionBackward", geometry.With(optest.Args{
				"gradOutput": one(1), "input": one(value), "weight": one(value), "biasSizes": []int64{1}, "outputMask": []bool{true, true, true},
				"gradInput": dx, "gradWeight": dw, "gradBias": db,
			}))
			assert.Equal(t, []float64{want[i]}, optest.Values(dx), "dx, mode %d of %v", mode, value)
			assert.Equal(t, []float64{want[i]}, optest.Values(dw), "dw, mode %d of %v", mode, value)
		}
	}
}

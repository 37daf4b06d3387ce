package loss

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestSoftmaxCrossEntropy(t *testing.T) {
	for _, d := range op.FloatTypes {
		for _, l := range kerneltest.Layouts {
			for _, shape := range [][]int64{{1, 1}, {3, 5}, {2, 67}, {0, 4}} {
				what := fmt.Sprintf("%v %v %v", d, l, shape)
				x, labels, loss, dx := optest.Filled(t, 1, d, l, shape), optest.Filled(t, 2, d, l, shape), optest.TensorIn(t, d, l, shape[:1]), optest.TensorIn(t, d, l, shape)
				optest.Run(t, "SoftmaxCrossEntropyWithLogits", optest.Args{"features": x, "labels": labels, "loss": loss, "backprop": dx})
				p := optest.Softmax(optest.Values(x), int(shape[1]))
				want, grad := make([]float64, shape[0]), make([]float64, len(p))
				for i, y := range optest.Values(labels) {
					want[i/int(shape[1])] -= y * math.Log(p[i])
					grad[i] = p[i] - y
				}
				optest.CloseTo(t, what, want, optest.Values(loss), 3*optest.ResultLimit(d))
				optest.CloseTo(t, "gradient of "+what, grad, optest.Values(dx), optest.ResultLimit(d))
			}
		}
	}
	x := optest.Tensor(t, dtype.Float32, []int64{2, 3}, 1)
	optest.Refused(t, op.InvalidParam, "SoftmaxCrossEntropyWithLogits", optest.Args{"features": x, "labels": x, "loss": x, "backprop": x}, "loss float32[2,3]")
	optest.Refused(t, op.NullPointer, "SoftmaxCrossEntropyWithLogits", optest.Args{"features": x, "loss": x, "backprop": x}, "labels is null")
}

func TestMultilabelMargin(t *testing.T) {
	for _, d := range op.FloatTypes {
		for _, l := range kerneltest.Layouts {
			x := optest.Filled(t, 1, d, l, []int64{2, 4})
			target := optest.TensorIn(t, dtype.Int64, l, []int64{2, 4}, 3, 0, -1, 1, -1, 2, 2, 2)
			mask := optest.TensorIn(t, d, l, []int64{2, 4})
			xs := optest.Values(x)
			row := 0.0
			for _, label := range []int{3, 0} {
				for _, other := range []int{1, 2} {
					row += max(0, 1-xs[label]+xs[other]) / 4
				}
			}
			for reduction, want := range map[int][]float64{0: {row, 0}, 1: {row / 2}, 2: {row}} {
				out := optest.Tensor(t, d, []int64{int64(len(want))})
				a := optest.Args{"self": x, "target": target, "reduction": reduction, "out": out, "isTarget": mask}
				optest.Run(t, "MultilabelMarginLoss", a)
				optest.CloseTo(t, fmt.Sprintf("%v %v reduction %d", d, l, reduction), want, optest.Values(out), 2*optest.ResultLimit(d))
				assert.Equal(t, []float64{1, 0, 0, 1, 0, 0, 0, 0}, optest.Values(mask))
				require.ErrorContains(t, optest.Execute(t, "MultilabelMarginLoss", a.With(optest.Args{"target": optest.Tensor(t, dtype.Int32, []int64{2, 4}, 4)})), "label 4 is out of range")
				optest.Refused(t, op.InvalidParam, "MultilabelMarginLoss", a.With(optest.Args{"isTarget": target}), "isTarget")
				optest.Refused(t, op.InvalidParam, "MultilabelMarginLoss", a.With(optest.Args{"reduction": 3}), "reduction 3")
			}
		}
	}
}

package nn

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

func TestSoftmaxCrossEntropy(t *testing.T) {
	for _, d := range transformerTypes {
		for _, l := range kerneltest.Layouts {
			for _, shape := range [][]int64{{1, 1}, {3, 5}, {2, 67}, {0, 4}} {
				what := fmt.Sprintf("%v %v %v", d, l, shape)
				x, labels, loss, dx := filled(t, 1, d, l, shape), filled(t, 2, d, l, shape), tensorIn(t, d, l, shape[:1]), tensorIn(t, d, l, shape)
				run(t, "SoftmaxCrossEntropyWithLogits", args{"features": x, "labels": labels, "loss": loss, "backprop": dx})
				p := rowSoftmax(values(x), int(shape[1]))
				want, grad := make([]float64, shape[0]), make([]float64, len(p))
				for i, y := range values(labels) {
					want[i/int(shape[1])] -= y * math.Log(p[i])
					grad[i] = p[i] - y
				}
				closeTo(t, what, want, values(loss), 3*resultLimit(d))
				closeTo(t, "gradient of "+what, grad, values(dx), resultLimit(d))
			}
		}
	}
	x := tensor(t, dtype.Float32, []int64{2, 3}, 1)
	refused(t, invalidParam, "SoftmaxCrossEntropyWithLogits", args{"features": x, "labels": x, "loss": x, "backprop": x}, "loss float32[2,3]")
	refused(t, nullPointer, "SoftmaxCrossEntropyWithLogits", args{"features": x, "loss": x, "backprop": x}, "labels is null")
}

func TestMultilabelMargin(t *testing.T) {
	for _, d := range transformerTypes {
		for _, l := range kerneltest.Layouts {
			x := filled(t, 1, d, l, []int64{2, 4})
			target := tensorIn(t, dtype.Int64, l, []int64{2, 4}, 3, 0, -1, 1, -1, 2, 2, 2)
			mask := tensorIn(t, d, l, []int64{2, 4})
			xs := values(x)
			row := 0.0
			for _, label := range []int{3, 0} {
				for _, other := range []int{1, 2} {
					row += max(0, 1-xs[label]+xs[other]) / 4
				}
			}
			for reduction, want := range map[int][]float64{0: {row, 0}, 1: {row / 2}, 2: {row}} {
				out := tensor(t, d, []int64{int64(len(want))})
				a := args{"self": x, "target": target, "reduction": reduction, "out": out, "isTarget": mask}
				run(t, "MultilabelMarginLoss", a)
				closeTo(t, fmt.Sprintf("%v %v reduction %d", d, l, reduction), want, values(out), 2*resultLimit(d))
				assert.Equal(t, []float64{1, 0, 0, 1, 0, 0, 0, 0}, values(mask))
				require.ErrorContains(t, execute(t, "MultilabelMarginLoss", a.with(args{"target": tensor(t, dtype.Int32, []int64{2, 4}, 4)})), "label 4 is out of range")
				refused(t, invalidParam, "MultilabelMarginLoss", a.with(args{"isTarget": target}), "isTarget")
				refused(t, invalidParam, "MultilabelMarginLoss", a.with(args{"reduction": 3}), "reduction 3")
			}
		}
	}
}

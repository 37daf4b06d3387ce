package recurrent

import (
	"fmt"
	"math"
	"testing"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func segsumDefinition(x []float64, n int) (y []float64) {
	for r := 0; r < len(x); r += n {
		for i := range n {
			for j := range n {
				sum := 0.0
				for k := j + 1; k <= i; k++ {
					sum += x[r+k]
				}
				if j > i {
					sum = math.Inf(-1)
				}
				y = append(y, math.Exp(sum))
			}
		}
	}
	return y
}

func TestExpSegsum(t *testing.T) {
	for _, d := range op.FloatTypes {
		for _, l := range kerneltest.Layouts {
			for _, s := range [][]int64{{1, 1, 1}, {2, 3, 5}, {1, 2, 1, 7}, {2, 0, 3}} {
				what, n := fmt.Sprintf("%v %v %v", d, l, s), int(s[len(s)-1])
				square := append(append([]int64{}, s...), s[len(s)-1])
				x, y := optest.Filled(t, 1, d, l, s), optest.TensorIn(t, d, l, square)
				optest.Run(t, "ExpSegsum", optest.Args{"self": x, "out": y})
				optest.CloseTo(t, what, segsumDefinition(optest.Values(x), n), optest.Values(y), 2*optest.ResultLimit(d))
				if d != dtype.Float32 {
					continue // the gradient reads the rounded forward result
				}
				dy, dx := optest.Filled(t, 2, d, l, square), optest.TensorIn(t, d, l, s)
				optest.Run(t, "ExpSegsumBackward", optest.Args{"gradOutput": dy, "gradSelf": y, "gradInput": dx})
				optest.CloseTo(t, what, optest.Gradient(func(v []float64) []float64 { return segsumDefinition(v, n) }, optest.Values(dy), optest.Values(x)), optest.Values(dx), 1e-5)
			}
		}
	}
	f := dtype.Float32
	optest.Refused(t, op.InvalidParam, "ExpSegsum", optest.Args{"self": optest.Tensor(t, f, []int64{2, 3}, 1), "out": optest.Tensor(t, f, []int64{2, 3, 3})}, "dimensions")
	optest.Refused(t, op.InvalidParam, "ExpSegsum", optest.Args{"self": optest.Tensor(t, f, []int64{1, 2, 3}, 1), "out": optest.Tensor(t, f, []int64{1, 2, 3, 2})}, "a matrix for each sequence")
	optest.Refused(t, op.NullPointer, "ExpSegsum", optest.Args{"self": optest.Tensor(t, f, []int64{1, 2, 3}, 1)}, "out is null")
}

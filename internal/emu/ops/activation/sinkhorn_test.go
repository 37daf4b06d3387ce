package activation

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

// The result is exp(cost) with rows and columns scaled so that all row sums and all column sums are
// equal.
func TestSinkhorn(t *testing.T) {
	for _, d := range op.FloatTypes {
		for _, l := range kerneltest.Layouts {
			for _, s := range [][]int64{{1, 1}, {4, 3}, {2, 9}} {
				what := fmt.Sprintf("%v %v %v", d, l, s)
				cost, p := optest.Filled(t, 1, d, l, s), optest.TensorIn(t, d, l, s)
				optest.Run(t, "Sinkhorn", optest.Args{"cost": cost, "tol": optest.Scalar(float32(1e-5)), "p": p})
				rows, cols := int(s[0]), int(s[1])
				v, x := optest.Values(p), optest.Values(cost)
				for i := range rows {
					sum := 0.0
					for j := range cols {
						sum += v[i*cols+j]
						ratio := math.Log(v[i*cols+j]*v[0]/(v[i*cols]*v[j])) - (x[i*cols+j] + x[0] - x[i*cols] - x[j])
						assert.InDelta(t, 0, ratio, max(8*optest.ResultLimit(d), 1e-4), what)
					}
					assert.InDelta(t, 1/float64(rows), sum, max(4*optest.ResultLimit(d), 1e-4), what)
				}
				for j := range cols {
					sum := 0.0
					for i := range rows {
						sum += v[i*cols+j]
					}
					assert.InDelta(t, 1/float64(cols), sum, max(4*optest.ResultLimit(d), 1e-4), what)
				}
			}
		}
	}
	f := dtype.Float32
	x := optest.Tensor(t, f, []int64{0, 3})
	optest.Run(t, "Sinkhorn", optest.Args{"cost": x, "p": x})
	optest.Run(t, "Sinkhorn", optest.Args{"cost": x, "p": x, "tol": optest.Scalar(0.0)}) // no kernel runs
	full := optest.Tensor(t, f, []int64{2, 3}, 1)
	optest.Refused(t, op.InvalidParam, "Sinkhorn", optest.Args{"cost": full, "p": full, "tol": optest.Scalar(0.0)}, "tol is 0")
	optest.Refused(t, op.InvalidParam, "Sinkhorn", optest.Args{"cost": optest.Tensor(t, f, []int64{3}, 1), "p": full}, "dimensions")
	optest.Refused(t, op.NullPointer, "Sinkhorn", optest.Args{"cost": x}, "p is null")
}

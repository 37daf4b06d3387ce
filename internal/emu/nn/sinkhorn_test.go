package nn

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// A plan is exp(cost) with scaled rows and columns whose sums are even.
func TestSinkhorn(t *testing.T) {
	for _, d := range transformerTypes {
		for _, l := range kerneltest.Layouts {
			for _, s := range [][]int64{{1, 1}, {4, 3}, {2, 9}} {
				what := fmt.Sprintf("%v %v %v", d, l, s)
				cost, p := filled(t, 1, d, l, s), tensorIn(t, d, l, s)
				run(t, "Sinkhorn", args{"cost": cost, "tol": scalar(float32(1e-5)), "p": p})
				rows, cols := int(s[0]), int(s[1])
				v, x := values(p), values(cost)
				for i := range rows {
					sum := 0.0
					for j := range cols {
						sum += v[i*cols+j]
						ratio := math.Log(v[i*cols+j]*v[0]/(v[i*cols]*v[j])) - (x[i*cols+j] + x[0] - x[i*cols] - x[j])
						assert.InDelta(t, 0, ratio, max(8*resultLimit(d), 1e-4), what)
					}
					assert.InDelta(t, 1/float64(rows), sum, max(4*resultLimit(d), 1e-4), what)
				}
				for j := range cols {
					sum := 0.0
					for i := range rows {
						sum += v[i*cols+j]
					}
					assert.InDelta(t, 1/float64(cols), sum, max(4*resultLimit(d), 1e-4), what)
				}
			}
		}
	}
	f := dtype.Float32
	x := tensor(t, f, []int64{0, 3})
	run(t, "Sinkhorn", args{"cost": x, "p": x})
	refused(t, invalidParam, "Sinkhorn", args{"cost": x, "p": x, "tol": scalar(0.0)}, "tol is 0")
	refused(t, invalidParam, "Sinkhorn", args{"cost": tensor(t, f, []int64{3}, 1), "p": x}, "dimensions")
	refused(t, nullPointer, "Sinkhorn", args{"cost": x}, "p is null")
}

package nn

import (
	"fmt"
	"math"
	"testing"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
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
	for _, d := range transformerTypes {
		for _, l := range kerneltest.Layouts {
			for _, s := range [][]int64{{1, 1, 1}, {2, 3, 5}, {1, 2, 1, 7}, {2, 0, 3}} {
				what, n := fmt.Sprintf("%v %v %v", d, l, s), int(s[len(s)-1])
				square := append(append([]int64{}, s...), s[len(s)-1])
				x, y := filled(t, 1, d, l, s), tensorIn(t, d, l, square)
				run(t, "ExpSegsum", args{"self": x, "out": y})
				closeTo(t, what, segsumDefinition(values(x), n), values(y), 2*resultLimit(d))
				if d != dtype.Float32 {
					continue // the gradient reads the rounded result
				}
				dy, dx := filled(t, 2, d, l, square), tensorIn(t, d, l, s)
				run(t, "ExpSegsumBackward", args{"gradOutput": dy, "gradSelf": y, "gradInput": dx})
				closeTo(t, what, gradient(func(v []float64) []float64 { return segsumDefinition(v, n) }, values(dy), values(x)), values(dx), 1e-5)
			}
		}
	}
	f := dtype.Float32
	refused(t, invalidParam, "ExpSegsum", args{"self": tensor(t, f, []int64{2, 3}, 1), "out": tensor(t, f, []int64{2, 3, 3})}, "dimensions")
	refused(t, invalidParam, "ExpSegsum", args{"self": tensor(t, f, []int64{1, 2, 3}, 1), "out": tensor(t, f, []int64{1, 2, 3, 2})}, "a matrix for each sequence")
	refused(t, nullPointer, "ExpSegsum", args{"self": tensor(t, f, []int64{1, 2, 3}, 1)}, "out is null")
}

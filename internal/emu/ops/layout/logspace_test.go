package layout

import (
	"fmt"
	"math"
	"testing"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestLogSpace(t *testing.T) {
	for _, d := range op.FloatTypes {
		for _, l := range kerneltest.Layouts {
			for _, n := range []int64{0, 1, 2, 7} {
				out := optest.TensorIn(t, d, l, []int64{n})
				optest.Run(t, "LogSpace", optest.Args{"start": optest.Scalar(-1.0), "end": optest.Scalar(2), "steps": n, "base": 3.0, "result": out})
				var want []float64
				for i := range n {
					want = append(want, math.Pow(3, -1+3*float64(i)/float64(max(n-1, 1))))
				}
				optest.CloseTo(t, fmt.Sprintf("%v %v %d", d, l, n), want, optest.Values(out), 2*optest.ResultLimit(d))
			}
		}
	}
	out := optest.Tensor(t, dtype.Float32, []int64{3})
	optest.Refused(t, op.InvalidParam, "LogSpace", optest.Args{"start": optest.Scalar(0), "end": optest.Scalar(1), "steps": 4, "base": 2.0, "result": out}, "one element per step")
	optest.Refused(t, op.NoStep, "LogSpace", optest.Args{"start": optest.Scalar(0), "steps": 3, "base": 2.0, "result": out}, "end is null")
}

package nn

import (
	"fmt"
	"math"
	"testing"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

func TestLogSpace(t *testing.T) {
	for _, d := range transformerTypes {
		for _, l := range kerneltest.Layouts {
			for _, n := range []int64{0, 1, 2, 7} {
				out := tensorIn(t, d, l, []int64{n})
				run(t, "LogSpace", args{"start": scalar(-1.0), "end": scalar(2), "steps": n, "base": 3.0, "result": out})
				var want []float64
				for i := range n {
					want = append(want, math.Pow(3, -1+3*float64(i)/float64(max(n-1, 1))))
				}
				closeTo(t, fmt.Sprintf("%v %v %d", d, l, n), want, values(out), 2*resultLimit(d))
			}
		}
	}
	out := tensor(t, dtype.Float32, []int64{3})
	refused(t, invalidParam, "LogSpace", args{"start": scalar(0), "end": scalar(1), "steps": 4, "base": 2.0, "result": out}, "one element per step")
	refused(t, nullPointer, "LogSpace", args{"start": scalar(0), "steps": 3, "base": 2.0, "result": out}, "end is null")
}

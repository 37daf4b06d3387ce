package nn

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

func TestPrecisionCompare(t *testing.T) {
	for _, d := range transformerTypes {
		for _, l := range kerneltest.Layouts {
			for _, shape := range [][]int64{{}, {3, 5}, {0}} {
				x, y, out := tensorIn(t, d, l, shape, 1, 2, 3), tensorIn(t, d, l, shape, 1, 2, 3), tensor(t, dtype.Uint32, []int64{}, 9)
				run(t, "PrecisionCompare", args{"golden": x, "realdata": y, "out": out})
				assert.Equal(t, []float64{0}, values(out), "%v %v %v", d, l, shape)
				if len(shape) == 2 {
					run(t, "PrecisionCompare", args{"golden": x, "realdata": tensorIn(t, d, l, shape, 1, 2, 3, 4), "out": out})
					assert.Equal(t, []float64{1}, values(out), "%v %v %v", d, l, shape)
				}
			}
		}
	}
	x := tensor(t, dtype.Float32, []int64{2}, 1)
	refused(t, invalidParam, "PrecisionCompare", args{"golden": x, "realdata": x, "out": tensor(t, dtype.Uint32, []int64{1})}, "without dimensions")
	refused(t, invalidParam, "PrecisionCompare", args{"golden": x, "realdata": x, "out": tensor(t, dtype.Int32, []int64{})}, "out int32")
}

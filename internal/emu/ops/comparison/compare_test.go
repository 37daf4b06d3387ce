package comparison

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestPrecisionCompare(t *testing.T) {
	for _, d := range op.FloatTypes {
		for _, l := range kerneltest.Layouts {
			for _, shape := range [][]int64{{}, {3, 5}, {0}} {
				x, y, out := optest.TensorIn(t, d, l, shape, 1, 2, 3), optest.TensorIn(t, d, l, shape, 1, 2, 3), optest.Tensor(t, dtype.Uint32, []int64{}, 9)
				optest.Run(t, "PrecisionCompare", optest.Args{"golden": x, "realdata": y, "out": out})
				assert.Equal(t, []float64{0}, optest.Values(out), "%v %v %v", d, l, shape)
				if len(shape) == 2 {
					optest.Run(t, "PrecisionCompare", optest.Args{"golden": x, "realdata": optest.TensorIn(t, d, l, shape, 1, 2, 3, 4), "out": out})
					assert.Equal(t, []float64{1}, optest.Values(out), "%v %v %v", d, l, shape)
				}
			}
		}
	}
	x := optest.Tensor(t, dtype.Float32, []int64{2}, 1)
	optest.Refused(t, op.InvalidParam, "PrecisionCompare", optest.Args{"golden": x, "realdata": x, "out": optest.Tensor(t, dtype.Uint32, []int64{1})}, "without dimensions")
	optest.Refused(t, op.InvalidParam, "PrecisionCompare", optest.Args{"golden": x, "realdata": x, "out": optest.Tensor(t, dtype.Int32, []int64{})}, "out int32")
}

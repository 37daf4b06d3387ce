package linalg

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestTrace(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Int8, dtype.Int32, dtype.Bool} {
		for _, l := range kerneltest.Layouts {
			for _, shape := range [][]int64{{3, 5}, {4, 4}, {1, 1}, {0, 3}} {
				m, want := optest.Numbers(t, d, l, shape...), 0.0
				for i, v := range optest.Values(m) {
					if int64(i)/max(shape[1], 1) == int64(i)%max(shape[1], 1) {
						want += v
					}
				}
				out := optest.Tensor(t, d, []int64{})
				if !d.IsFloat() {
					out = optest.Tensor(t, dtype.Int64, []int64{})
				}
				optest.Run(t, "Trace", optest.Args{"self": m, "out": out})
				assert.Equal(t, []float64{want}, optest.Values(out), "%v %v %v", d, l, shape)
			}
		}
	}
	optest.Refused(t, op.InvalidParam, "Trace", optest.Args{"self": optest.Tensor(t, dtype.Int32, []int64{2, 2}, 1), "out": optest.Tensor(t, dtype.Int32, []int64{})}, "out int32")
}

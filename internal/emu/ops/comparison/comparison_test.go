package comparison

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestEqual(t *testing.T) {
	x, same := optest.Tensor(t, dtype.Float16, []int64{2, 2}, 1, 2, 3, 4), optest.Tensor(t, dtype.Bool, []int64{1})
	for want, other := range map[float64]*op.Tensor{
		1: optest.TensorIn(t, dtype.Float16, kerneltest.Transposed, []int64{2, 2}, 1, 2, 3, 4), 0: optest.Tensor(t, dtype.Float16, []int64{2, 2}, 1, 2, 3, 5),
	} {
		optest.Run(t, "Equal", optest.Args{"self": x, "other": other, "out": same})
		assert.Equal(t, []float64{want}, optest.Values(same))
	}
	optest.Run(t, "Equal", optest.Args{"self": x, "other": optest.Tensor(t, dtype.Float16, []int64{4}, 1), "out": same})
	assert.Equal(t, []float64{0}, optest.Values(same))
	optest.Refused(t, op.InvalidParam, "Equal", optest.Args{"self": x, "other": x, "out": x}, "out float16")
}

func TestComparisons(t *testing.T) {
	optest.VerifyPointwise(t, comparisons)
	flags := optest.Tensor(t, dtype.Bool, []int64{4})
	optest.Run(t, "GtScalar", optest.Args{"self": optest.Tensor(t, dtype.Float32, []int64{4}, .5, 1, 1.5, 2), "other": optest.Scalar(1.25), "out": flags})
	assert.Equal(t, []float64{0, 0, 1, 1}, optest.Values(flags))
}

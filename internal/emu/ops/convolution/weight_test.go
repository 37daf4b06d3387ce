package convolution

import (
	"testing"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// Only the Ascend310P supports the operator. Other chips refuse it with the first reason that
// applies.
func TestTransConvolutionWeightRefuses(t *testing.T) {
	const name = "TransConvolutionWeight"
	a := optest.Args{"weightIn": optest.Tensor(t, dtype.Float16, []int64{2, 4, 3, 3}, 1), "weightOut": optest.Tensor(t, dtype.Float16, []int64{2, 4, 3, 3}), "groups": 1}
	optest.Refused(t, op.NullPointer, name, a.With(optest.Args{"weightIn": nil}), "weightIn is null")
	optest.Refused(t, op.NullPointer, name, a.With(optest.Args{"weightOut": nil}), "weightOut is null")
	optest.Refused(t, op.InvalidParam, name, a.With(optest.Args{"weightIn": optest.Tensor(t, dtype.Float16, []int64{2, 4, 9}, 1)}), "4 dimensions")
	optest.Refused(t, op.InvalidParam, name, a.With(optest.Args{"transposed": true}), "transposed is true")
	optest.Refused(t, op.InvalidParam, name, a.With(optest.Args{"groups": 0}), "groups is 0")
	optest.Refused(t, op.InvalidParam, name, a, "Ascend310P", "float16[2,4,3,3]")
}

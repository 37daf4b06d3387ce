//go:build emu && linux && cgo

package rowscale

import (
	"fmt"
	"slices"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/aclnn/emu"
	"github.com/goascend/cann/aclnn/half"
)

func init() {
	if err := emu.Register(&RowScaleParams{}, prepare); err != nil {
		panic(err) // two packages emulate the operator
	}
}

// prepare checks the arguments, as phase one of the operator does.
func prepare(c *emu.Call) (emu.Run, error) {
	x, scale, bias, out := c.Tensor("x"), c.Tensor("scale"), c.Optional("biasOptional"), c.Tensor("out")
	factor := float32(c.Float("factor"))
	if len(x.Shape()) != 2 {
		return nil, fmt.Errorf("%v must have two dimensions", x)
	}
	if !slices.Contains([]aclnn.DType{aclnn.Float32, aclnn.Float16, aclnn.BFloat16}, x.DType()) {
		return nil, fmt.Errorf("%v must have elements of float32, float16 or bfloat16", x)
	}
	rows := x.Shape()[:1]
	for _, t := range []struct {
		*emu.Tensor
		shape []int64
	}{{scale, rows}, {bias, rows}, {out, x.Shape()}} {
		if t.Tensor != nil && (!slices.Equal(t.Shape(), t.shape) || t.DType() != x.DType()) {
			return nil, fmt.Errorf("%v must have shape %v and the elements of %v", t, t.shape, x)
		}
	}
	return func([]byte) error {
		switch x.DType() {
		case aclnn.Float16:
			return compute(x, scale, bias, out, factor, half.Float16.Float32, half.Float16FromFloat32)
		case aclnn.BFloat16:
			return compute(x, scale, bias, out, factor, half.BFloat16.Float32, half.BFloat16FromFloat32)
		}
		same := func(v float32) float32 { return v }
		return compute(x, scale, bias, out, factor, same, same)
	}, nil
}

// compute works on one type of elements, and rounds once.
func compute[T float32 | half.Float16 | half.BFloat16](x, scale, bias, out *emu.Tensor, factor float32, wide func(T) float32, narrow func(float32) T) error {
	values, err := emu.Load[T](x)
	if err != nil {
		return err
	}
	scales, err := emu.Load[T](scale)
	if err != nil {
		return err
	}
	shifts := make([]T, len(scales))
	if bias != nil {
		if shifts, err = emu.Load[T](bias); err != nil {
			return err
		}
	}
	columns := int(x.Shape()[1])
	for i, v := range values {
		row := i / columns
		values[i] = narrow(wide(v)*wide(scales[row])*factor + wide(shifts[row]))
	}
	return emu.Store(out, values)
}

package optest

import (
	"encoding/json"
	"fmt"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
)

// AcceptedCall records a call that a test made and that succeeded. It has the arguments by C name,
// without the tensors' data; null and zero arguments are left out.
type AcceptedCall struct {
	Operator string
	Args     map[string]json.RawMessage
}

// descriptor describes a tensor without its data.
type descriptor struct {
	DType   dtype.Type
	Format  dtype.Format
	Shape   []int64
	Strides []int64 `json:",omitempty"` // only if the tensor is not dense
	Storage []int64 `json:",omitempty"` // only if it differs from the shape
}

// empty returns the number of tensors without elements.
func (a AcceptedCall) empty() (n int) {
	args, err := a.arguments(op.Find(a.Operator))
	if err != nil {
		return 0
	}
	for _, arg := range args {
		switch x := arg.(type) {
		case *op.Tensor:
			if x.Len() == 0 {
				n++
			}
		case []*op.Tensor:
			for _, t := range x {
				if t.Len() == 0 {
					n++
				}
			}
		}
	}
	return n
}

// accept returns the record of a call.
func accept(c *op.Call) (AcceptedCall, error) {
	a := AcceptedCall{Operator: c.Op.Name, Args: map[string]json.RawMessage{}}
	for i, p := range c.Op.Params {
		v := c.Args()[i]
		switch v {
		case nil, int64(0), float64(0), false:
			continue
		}
		switch x := v.(type) {
		case *op.Tensor:
			v = describe(x)
		case []*op.Tensor:
			list := make([]descriptor, len(x))
			for k, t := range x {
				list[k] = describe(t)
			}
			v = list
		}
		text, err := json.Marshal(v)
		if err != nil {
			return a, fmt.Errorf("aclnn%s: %s: %w", c.Op.Name, p.Name, err)
		}
		a.Args[p.Name] = text
	}
	return a, nil
}

func describe(t *op.Tensor) descriptor {
	d := descriptor{DType: t.DType, Format: t.Format, Shape: t.Shape}
	if !t.Contiguous() {
		d.Strides = t.Strides
	}
	if !op.SameShape(t.Storage, t.Shape) {
		d.Storage = t.Storage
	}
	return d
}

func (d descriptor) tensor() *op.Tensor {
	t := &op.Tensor{Shape: d.Shape, Strides: d.Strides, DType: d.DType, Format: d.Format, Storage: d.Storage}
	if t.Strides == nil {
		t.Strides = op.ContiguousStrides(t.Shape)
	}
	if t.Storage == nil {
		t.Storage = t.Shape
	}
	return t
}

// arguments returns the arguments of the call in the form that op.NewCall takes.
func (a AcceptedCall) arguments(op *op.Operator) ([]any, error) {
	args := make([]any, len(op.Params))
	for i, p := range op.Params {
		v, err := argumentOf(p.Class, a.Args[p.Name])
		if err != nil {
			return nil, fmt.Errorf("aclnn%s: %s: %w", op.Name, p.Name, err)
		}
		args[i] = v
	}
	return args, nil
}

func argumentOf(class op.Class, text json.RawMessage) (any, error) {
	switch class {
	case op.IntClass, op.PointerClass:
		return value[int64](text)
	case op.BoolClass:
		return value[bool](text)
	case op.DoubleClass, op.FloatClass:
		return value[float64](text)
	}
	if text == nil {
		return nil, nil
	}
	switch class {
	case op.TensorClass:
		d, err := value[descriptor](text)
		return d.tensor(), err
	case op.TensorListClass:
		list, err := value[[]descriptor](text)
		tensors := make([]*op.Tensor, len(list))
		for k, d := range list {
			tensors[k] = d.tensor()
		}
		return tensors, err
	case op.ScalarClass:
		return value[*op.Scalar](text)
	case op.ScalarListClass:
		return value[[]*op.Scalar](text)
	case op.IntArrayClass:
		return value[[]int64](text)
	case op.FloatArrayClass:
		return value[[]float32](text)
	case op.BoolArrayClass:
		return value[[]bool](text)
	}
	return value[string](text)
}

// value parses an argument. It returns zero if there is no text.
func value[T any](text json.RawMessage) (v T, err error) {
	if text != nil {
		err = json.Unmarshal(text, &v)
	}
	return v, err
}

package nn

import (
	"encoding/json"
	"fmt"

	"github.com/goascend/cann/internal/dtype"
)

// acceptedCall is a call of an operator that a test made and that computed: its arguments
// by C name, without data. Nulls and zeros are left out.
type acceptedCall struct {
	Operator string
	Args     map[string]json.RawMessage
}

// descriptor is a tensor without data.
type descriptor struct {
	DType   dtype.Type
	Format  dtype.Format
	Shape   []int64
	Strides []int64 `json:",omitempty"` // of a tensor that is not dense
	Storage []int64 `json:",omitempty"` // where it is not the shape
}

// empty counts the tensors without elements.
func (a acceptedCall) empty() (n int) {
	args, err := a.arguments(find(a.Operator))
	if err != nil {
		return 0
	}
	for _, arg := range args {
		switch x := arg.(type) {
		case *Tensor:
			if x.Len() == 0 {
				n++
			}
		case []*Tensor:
			for _, t := range x {
				if t.Len() == 0 {
					n++
				}
			}
		}
	}
	return n
}

// accept describes a call.
func accept(c *Call) (acceptedCall, error) {
	a := acceptedCall{Operator: c.op.name, Args: map[string]json.RawMessage{}}
	for i, p := range c.op.params {
		v := c.args[i]
		switch v {
		case nil, int64(0), float64(0), false:
			continue
		}
		switch x := v.(type) {
		case *Tensor:
			v = describe(x)
		case []*Tensor:
			list := make([]descriptor, len(x))
			for k, t := range x {
				list[k] = describe(t)
			}
			v = list
		}
		text, err := json.Marshal(v)
		if err != nil {
			return a, fmt.Errorf("aclnn%s: %s: %w", c.op.name, p.name, err)
		}
		a.Args[p.name] = text
	}
	return a, nil
}

func describe(t *Tensor) descriptor {
	d := descriptor{DType: t.DType, Format: t.Format, Shape: t.Shape}
	if !t.Contiguous() {
		d.Strides = t.Strides
	}
	if !SameShape(t.Storage, t.Shape) {
		d.Storage = t.Storage
	}
	return d
}

func (d descriptor) tensor() *Tensor {
	t := &Tensor{Shape: d.Shape, Strides: d.Strides, DType: d.DType, Format: d.Format, Storage: d.Storage}
	if t.Strides == nil {
		t.Strides = ContiguousStrides(t.Shape)
	}
	if t.Storage == nil {
		t.Storage = t.Shape
	}
	return t
}

// arguments are what decode would make of the call.
func (a acceptedCall) arguments(op *operator) ([]any, error) {
	args := make([]any, len(op.params))
	for i, p := range op.params {
		v, err := argumentOf(p.class, a.Args[p.name])
		if err != nil {
			return nil, fmt.Errorf("aclnn%s: %s: %w", op.name, p.name, err)
		}
		args[i] = v
	}
	return args, nil
}

func argumentOf(class class, text json.RawMessage) (any, error) {
	switch class {
	case intClass, pointerClass:
		return value[int64](text)
	case boolClass:
		return value[bool](text)
	case doubleClass, floatClass:
		return value[float64](text)
	}
	if text == nil {
		return nil, nil
	}
	switch class {
	case tensorClass:
		d, err := value[descriptor](text)
		return d.tensor(), err
	case tensorListClass:
		list, err := value[[]descriptor](text)
		tensors := make([]*Tensor, len(list))
		for k, d := range list {
			tensors[k] = d.tensor()
		}
		return tensors, err
	case scalarClass:
		return value[*Scalar](text)
	case scalarListClass:
		return value[[]*Scalar](text)
	case intArrayClass:
		return value[[]int64](text)
	case floatArrayClass:
		return value[[]float32](text)
	case boolArrayClass:
		return value[[]bool](text)
	}
	return value[string](text)
}

// value parses an argument; none is zero.
func value[T any](text json.RawMessage) (v T, err error) {
	if text != nil {
		err = json.Unmarshal(text, &v)
	}
	return v, err
}

package nn

import (
	"fmt"
	"math"
	"slices"

	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/rt"
)

// decode converts the words of phase one to arguments in the form that op.NewCall takes.
func (l *Library) decode(o *op.Operator, words []uint64) ([]any, error) {
	args := make([]any, len(o.Params))
	for i, p := range o.Params {
		a, err := l.argument(p.Class, words[i])
		if err != nil {
			return nil, &op.Error{Code: op.InvalidParam, Text: fmt.Sprintf("aclnn%s: %s %v", o.Name, p.Name, err)}
		}
		args[i] = a
	}
	return args, nil
}

// argument converts one word to an argument. The caller puts the parameter's name in front of the
// error text.
func (l *Library) argument(class op.Class, w uint64) (any, error) {
	switch class {
	case op.IntClass, op.PointerClass:
		return int64(w), nil
	case op.BoolClass:
		return w&0xff != 0, nil
	case op.DoubleClass:
		return math.Float64frombits(w), nil
	case op.FloatClass:
		return float64(math.Float32frombits(uint32(w))), nil
	}
	if w == 0 {
		return nil, nil
	}
	if class == op.StringClass {
		return rt.CString(w), nil
	}
	a, err := l.object(class, l.rt.Handles.Get(w))
	if err == nil && a == nil {
		err = fmt.Errorf("(%#x) is not a live aclnn object of its type; was it destroyed?", w)
	}
	return a, err
}

// object converts a live object to an argument. It returns nil if the object is of another class.
func (l *Library) object(class op.Class, object any) (any, error) {
	switch o := object.(type) {
	case *op.Tensor:
		if class == op.TensorClass {
			return o, nil
		}
	case *tensorList:
		if class == op.TensorListClass {
			return l.members(o), nil
		}
	case *op.Scalar:
		if class == op.ScalarClass {
			return o, valued(o)
		}
	case *scalarList:
		if class == op.ScalarListClass {
			return o.values, valued(o.values...)
		}
	case *intArray:
		if class == op.IntArrayClass {
			return o.values, nil
		}
	case *floatArray:
		if class == op.FloatArrayClass {
			return o.values, nil
		}
	case *boolArray:
		if class == op.BoolArrayClass {
			return o.values, nil
		}
	}
	return nil, nil
}

// members returns the tensors of a list, or nil if one of them was destroyed.
func (l *Library) members(list *tensorList) any {
	out := make([]*op.Tensor, len(list.members))
	for k, h := range list.members {
		t, ok := l.rt.Handles.Get(h).(*op.Tensor)
		if !ok {
			return nil
		}
		out[k] = t
	}
	return out
}

// valued refuses scalars whose type the emulator cannot read.
func valued(scalars ...*op.Scalar) error {
	if k := slices.Index(scalars, nil); k >= 0 {
		return fmt.Errorf("is a list whose member %d is null", k)
	}
	if k := slices.IndexFunc(scalars, func(s *op.Scalar) bool { return !s.HasValue() }); k >= 0 {
		return fmt.Errorf("is a scalar of type %v, which the emulator does not know", scalars[k].DType)
	}
	return nil
}

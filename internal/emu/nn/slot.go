package nn

import (
	"fmt"
	"slices"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/rt"
)

// addressUnit is the alignment of the addresses of tensors. Kernels that get others read or write
// beside them on the device.
const addressUnit = 32

// slot is a place in the argument list of an NNOPBASE executor: a tensor, or something that occupies
// a place without having an address that can be set.
type slot struct {
	param  op.Param
	tensor *op.Tensor // nil for an absent tensor, a scalar or an array
}

// side is which arguments an address setter counts.
type side int

const (
	inputs side = iota
	outputs
)

// slots returns the places of the inputs or outputs. Members of lists have places of their own, and
// so have absent tensors. Scalars and arrays are inputs if a tensor follows that is one; those behind
// the inputs are attributes.
func slots(c *op.Call, s side) (all []slot) {
	last := -1
	for i, p := range c.Op.Params {
		if of(p, s) {
			last = i
		}
	}
	for i, p := range c.Op.Params[:last+1] {
		switch p.Class {
		case op.TensorClass, op.TensorListClass:
			if of(p, s) {
				all = appendSlots(all, p, c.Args()[i])
			}
		case op.ScalarClass, op.ScalarListClass, op.IntArrayClass, op.FloatArrayClass, op.BoolArrayClass:
			if s == inputs {
				all = append(all, slot{param: p})
			}
		}
	}
	return all
}

func appendSlots(all []slot, p op.Param, arg any) []slot {
	switch x := arg.(type) {
	case *op.Tensor:
		return append(all, slot{p, x})
	case []*op.Tensor:
		for _, t := range x {
			all = append(all, slot{p, t})
		}
		return all
	}
	return append(all, slot{param: p})
}

// of reports whether a parameter is a tensor of a side. What is updated in place is an input.
func of(p op.Param, s side) bool {
	return (p.Class == op.TensorClass || p.Class == op.TensorListClass) && (p.Use == op.Written) == (s == outputs)
}

// retarget gives a tensor of the call another address. An NNOPBASE executor goes by the place; others
// change whatever tensors are the object that the program passes.
func (x *prepared) retarget(places []slot, index uint64, object *op.Tensor, addr uintptr) error {
	if addr%addressUnit != 0 {
		return x.refuse(op.InvalidParam, "the address %#x is not a multiple of %d", addr, addressUnit)
	}
	object.Addr = uint64(addr)
	if !x.Call.Op.Individual {
		x.Call.Retarget(object)
		return nil
	}
	switch {
	case index >= uint64(len(places)):
		return x.refuse(op.InvalidParam, "index %d is out of range, there are %d tensors, scalars and arrays", index, len(places))
	case places[index].tensor == nil:
		return x.refuse(op.InvalidParam, "index %d is %s, which has no address that can be changed", index, places[index].param.Name)
	}
	places[index].tensor.Addr = uint64(addr)
	return nil
}

func (x *prepared) refuse(code int32, format string, args ...any) error {
	return &op.Error{Code: code, Text: fmt.Sprintf("%v: %s", x.Call, fmt.Sprintf(format, args...))}
}

// setAddr changes the address of the tensor at a place.
func (l *Library) setAddr(x *prepared, places []slot, index uint64, tensor rt.Handle, addr uintptr) error {
	t, ok := rt.Lookup[*op.Tensor](&l.rt.Handles, tensor)
	if !ok {
		return x.refuse(int32(abi.ACLNN_ERR_INNER_NULLPTR), "%#x is not a live aclTensor", tensor)
	}
	return x.retarget(places, index, t, addr)
}

// setDynamicAddr changes the address of a member of the list that is parameter irIndex of its side.
func (l *Library) setDynamicAddr(x *prepared, places []slot, irIndex, relativeIndex uint64, tensors rt.Handle, addr uintptr) error {
	list, ok := rt.Lookup[*tensorList](&l.rt.Handles, tensors)
	if !ok {
		return x.refuse(int32(abi.ACLNN_ERR_INNER_NULLPTR), "%#x is not a live aclTensorList", tensors)
	}
	if relativeIndex >= uint64(len(list.members)) {
		return x.refuse(op.InvalidParam, "there is no member %d in a list of %d", relativeIndex, len(list.members))
	}
	t, ok := rt.Lookup[*op.Tensor](&l.rt.Handles, list.members[relativeIndex])
	if !ok {
		return x.refuse(int32(abi.ACLNN_ERR_INNER_NULLPTR), "member %d of the list is no live aclTensor", relativeIndex)
	}
	first := firstOf(places, irIndex)
	if x.Call.Op.Individual && (first < 0 || uint64(first)+relativeIndex >= uint64(len(places)) || places[uint64(first)+relativeIndex].param.Name != places[first].param.Name) {
		return x.refuse(op.InvalidParam, "there is no tensor list %d with a member %d", irIndex, relativeIndex)
	}
	return x.retarget(places, uint64(max(first, 0))+relativeIndex, t, addr)
}

// firstOf returns the first place of a parameter, which is counted among those that have places, or -1.
func firstOf(places []slot, irIndex uint64) int {
	var names []string
	for i, s := range places {
		if !slices.Contains(names, s.param.Name) {
			if uint64(len(names)) == irIndex {
				return i
			}
			names = append(names, s.param.Name)
		}
	}
	return -1
}

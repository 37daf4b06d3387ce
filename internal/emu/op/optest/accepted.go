package optest

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/rt"
)

// AcceptedCall records a call that a test made and that succeeded. It has the arguments by C name;
// null and zero arguments are left out.
type AcceptedCall struct {
	Operator string
	Args     recordedArgs
	Peers    []recordedArgs               `json:",omitempty"` // arguments of ranks 1, 2, …
	Groups   []map[string]op.Communicator `json:",omitempty"` // by rank; without it a call has one rank
}

type recordedArgs map[string]json.RawMessage

// descriptor describes a tensor. Values are the elements of a tensor that the operator reads, by
// their place in memory. They repeat.
type descriptor struct {
	DType   dtype.Type
	Format  dtype.Format
	Shape   []int64
	Strides []int64   `json:",omitempty"` // only if the tensor is not dense
	Storage []int64   `json:",omitempty"` // only if it differs from the shape
	Values  []float64 `json:",omitempty"`
}

// elements returns the number of elements of the tensors on one rank.
func (a AcceptedCall) elements() (n int64) {
	args, err := a.Args.decode(op.Find(a.Operator))
	if err != nil {
		return 0
	}
	for _, arg := range args {
		for _, d := range descriptors(arg) {
			n += op.Count(d.Shape)
		}
	}
	return n
}

// weak returns the number of tensors that show little of what an operator does: those without
// elements, and those with one element.
func (a AcceptedCall) weak() (n int) {
	args, err := a.Args.decode(op.Find(a.Operator))
	if err != nil {
		return 0
	}
	for _, arg := range args {
		for _, d := range descriptors(arg) {
			switch op.Count(d.Shape) {
			case 0:
				n += 100
			case 1:
				n++
			}
		}
	}
	return n
}

// descriptors returns the tensors of an argument.
func descriptors(arg any) []*descriptor {
	switch x := arg.(type) {
	case *descriptor:
		return []*descriptor{x}
	case []*descriptor:
		return x
	}
	return nil
}

// accept returns the record of a call, which has a part on each rank of groups.
func accept(calls []*op.Call, groups []map[string]op.Communicator) (a AcceptedCall, err error) {
	a = AcceptedCall{Operator: calls[0].Op.Name, Groups: groups}
	if a.Args, err = encode(calls[0]); err != nil {
		return a, err
	}
	for _, c := range calls[1:] {
		peer, err := encode(c)
		if err != nil {
			return a, err
		}
		a.Peers = append(a.Peers, peer)
	}
	return a, nil
}

// encode returns the record of a call's arguments.
func encode(c *op.Call) (recordedArgs, error) {
	args := make(recordedArgs)
	for i, p := range c.Op.Params {
		v := c.Args()[i]
		switch v {
		case nil, int64(0), float64(0), false:
			continue
		}
		var err error
		switch x := v.(type) {
		case *op.Tensor:
			v, err = describe(x, p.Use)
		case []*op.Tensor:
			list := make([]descriptor, len(x))
			for k, t := range x {
				if list[k], err = describe(t, p.Use); err != nil {
					break
				}
			}
			v = list
		}
		if err != nil {
			return nil, fmt.Errorf("aclnn%s: %s: %w", c.Op.Name, p.Name, err)
		}
		text, err := json.Marshal(v)
		if err != nil {
			return nil, fmt.Errorf("aclnn%s: %s: %w", c.Op.Name, p.Name, err)
		}
		args[p.Name] = text
	}
	return args, nil
}

func describe(t *op.Tensor, use op.Use) (d descriptor, err error) {
	d = descriptor{DType: t.DType, Format: t.Format, Shape: t.Shape}
	if !t.Contiguous() {
		d.Strides = t.Strides
	}
	if !op.SameShape(t.Storage, t.Shape) {
		d.Storage = t.Storage
	}
	if use != op.Written {
		d.Values, err = d.read(t)
	}
	return d, err
}

// mostValues is how many values of a floating-point tensor are recorded, and mostWhole how many of
// another tensor, whose values often depend on each other. Bytes are data more often, so that the
// first mostBytes represent a large tensor.
const mostValues, mostWhole, mostBytes = 24, 2048, 64

// read returns the values of a tensor. It rounds numbers to few digits, which keeps records small.
func (d descriptor) read(t *op.Tensor) ([]float64, error) {
	first, n := d.extent()
	size := int64(t.DType.Bits())
	base := unsafe.Add(rt.Pointer(t.Addr), (t.Offset-first)*size/8)
	if op.IsPrivate(t.Format) {
		base = rt.Pointer(t.Addr)
	}
	fraction := precision(t.DType) > 0
	var v []float64
	for _, i := range d.places(first, n) {
		if fraction && len(v) == mostValues {
			break
		}
		x := real(get(t.DType, base, i))
		if fraction {
			switch {
			case math.IsNaN(x):
				x = 0
			case math.IsInf(x, 0):
				x = math.Copysign(1e5, x)
			}
			x, _ = strconv.ParseFloat(strconv.FormatFloat(x, 'g', 3, 64), 64) // cannot fail
		}
		v = append(v, x)
	}
	v = period(v)
	if len(v) > mostWhole && t.DType.Bits() <= 8 {
		v = v[:mostBytes]
	}
	if len(v) > mostWhole {
		return nil, fmt.Errorf("%v has too many values for a record", t)
	}
	return v, nil
}

// period returns the shortest beginning of v that repeats to give v.
func period(v []float64) []float64 {
	for n := 1; n < len(v); n++ {
		if slices.Equal(v[n:], v[:len(v)-n]) {
			return v[:n]
		}
	}
	return v
}

// strides returns the strides of the tensor.
func (d descriptor) strides() []int64 {
	if d.Strides != nil {
		return d.Strides
	}
	return op.ContiguousStrides(d.Shape)
}

// storage returns the storage shape of the tensor.
func (d descriptor) storage() []int64 {
	if d.Storage != nil {
		return d.Storage
	}
	return d.Shape
}

// extent returns the place of the first element in the memory of a tensor, and the number of places.
func (d descriptor) extent() (first, n int64) {
	if op.IsPrivate(d.Format) {
		return 0, op.Count(d.storage())
	}
	if op.Count(d.Shape) == 0 {
		return 0, 0
	}
	last := int64(0)
	for i, stride := range d.strides() {
		if s := stride * (d.Shape[i] - 1); s < 0 {
			first -= s
		} else {
			last += s
		}
	}
	return first, first + last + 1
}

// places returns the places of the elements: all of a storage that permutes them, in row-major
// order otherwise.
func (d descriptor) places(first, n int64) []int64 {
	if op.IsPrivate(d.Format) {
		all := make([]int64, n)
		for i := range all {
			all[i] = int64(i)
		}
		return all
	}
	all := make([]int64, 0, op.Count(d.Shape))
	strides := d.strides()
	Walk(d.Shape, func(at []int64) {
		i := first
		for k, x := range at {
			i += x * strides[k]
		}
		all = append(all, i)
	})
	return all
}

// decode returns the arguments in the form that op.NewCall takes, but with a descriptor for each
// tensor.
func (a recordedArgs) decode(o *op.Operator) ([]any, error) {
	args := make([]any, len(o.Params))
	for i, p := range o.Params {
		v, err := argumentOf(p.Class, a[p.Name])
		if err != nil {
			return nil, fmt.Errorf("aclnn%s: %s: %w", o.Name, p.Name, err)
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
		return value[*descriptor](text)
	case op.TensorListClass:
		return value[[]*descriptor](text)
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

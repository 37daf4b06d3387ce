package nn

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unsafe"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/rt"
)

// Codes of phase one (aclnnStatus).
const (
	nullPointer  = int32(abi.ACLNN_ERR_PARAM_NULLPTR)
	invalidParam = int32(abi.ACLNN_ERR_PARAM_INVALID)
)

// Error is a refusal of phase one.
type Error struct {
	Code int32
	Text string
}

func (e *Error) Error() string { return fmt.Sprintf("%d: %s", e.Code, e.Text) }

// Call is one phase-one call: the arguments, decoded by the operator's table entry.
//
// The accessors keep the first error and return harmless values after it, so a Prepare
// reads its arguments, states its conditions and asks Err once.
type Call struct {
	op        *operator
	args      []any // by parameter; *Tensor, []*Tensor, *Scalar, …; nil when null
	tensors   []*Tensor
	views     []view  // other looks at tensors, and parts of the workspace
	stages    []stage // of phase two, before the Run
	join      func(group string) (Communicator, error)
	joined    map[string]Communicator
	links     *links // that the process tests
	workspace int64
	err       error
	launchErr error
}

// Exec is one phase-two call.
type Exec struct {
	workspace unsafe.Pointer
}

// Workspace is the scratch memory that Call.Workspace asked for.
func (x *Exec) Workspace() unsafe.Pointer { return x.workspace }

// Name is the operator's C name.
func (c *Call) Name() string { return "aclnn" + c.op.name }

// Err is the first error met.
func (c *Call) Err() error { return c.err }

// Fail records an error unless there is one already.
func (c *Call) Fail(code int32, format string, args ...any) {
	if c.err == nil {
		c.err = &Error{Code: code, Text: c.Name() + ": " + fmt.Sprintf(format, args...)}
	}
}

// FailLaunch records an error that phase one keeps to itself and phase two returns, as
// operators do that drop the status of their tiling.
func (c *Call) FailLaunch(code int32, format string, args ...any) {
	if c.launchErr == nil {
		c.launchErr = &Error{Code: code, Text: c.Name() + ": " + fmt.Sprintf(format, args...)}
	}
}

// Invalid is Fail with 161002 (parameter invalid).
func (c *Call) Invalid(format string, args ...any) { c.Fail(invalidParam, format, args...) }

// Workspace asks for n bytes of scratch device memory.
func (c *Call) Workspace(n int64) { c.workspace += n }

// arg returns the decoded argument; a name or type that the C declaration does not have is
// a mistake in the operator's code, not in the call.
func arg[T any](c *Call, name string) (v T) {
	if a := c.args[c.index(name)]; a != nil {
		return a.(T)
	}
	return v
}

func (c *Call) index(name string) int {
	i := slices.IndexFunc(c.op.params, func(p param) bool { return p.name == name })
	if i < 0 {
		panic(fmt.Sprintf("%s has no parameter %q", c.Name(), name))
	}
	return i
}

// Has reports whether the C declaration has a parameter of that name: operators of one
// family differ in some.
func (c *Call) Has(name string) bool {
	return slices.ContainsFunc(c.op.params, func(p param) bool { return p.name == name })
}

// absent stands in for a required argument that is null, after the error was recorded.
var absent = Tensor{DType: dtype.Float32, Format: dtype.ND}

// Tensor is a required tensor: null is refused with 161001.
func (c *Call) Tensor(name string) *Tensor {
	t := arg[*Tensor](c, name)
	if t == nil {
		c.Fail(nullPointer, "%s is null", name)
		return &absent
	}
	return t
}

// Optional is a tensor that may be null.
func (c *Call) Optional(name string) *Tensor { return arg[*Tensor](c, name) }

// Tensors is a tensor list; null is an empty list. Members are never nil.
func (c *Call) Tensors(name string) []*Tensor { return arg[[]*Tensor](c, name) }

// Scalar is a required scalar.
func (c *Call) Scalar(name string) *Scalar {
	s := arg[*Scalar](c, name)
	if s == nil {
		c.Fail(nullPointer, "%s is null", name)
		return &Scalar{}
	}
	return s
}

// OptionalScalar is a scalar that may be null.
func (c *Call) OptionalScalar(name string) *Scalar { return arg[*Scalar](c, name) }

// Scalars is a scalar list; null is an empty list.
func (c *Call) Scalars(name string) []*Scalar { return arg[[]*Scalar](c, name) }

// Ints is an aclIntArray; null is nil.
func (c *Call) Ints(name string) []int64 { return arg[[]int64](c, name) }

// Floats is an aclFloatArray; null is nil.
func (c *Call) Floats(name string) []float32 { return arg[[]float32](c, name) }

// Bools is an aclBoolArray; null is nil.
func (c *Call) Bools(name string) []bool { return arg[[]bool](c, name) }

// Int is an integer or enum argument.
func (c *Call) Int(name string) int64 { return arg[int64](c, name) }

// Float is a double or float argument.
func (c *Call) Float(name string) float64 { return arg[float64](c, name) }

// Bool is a bool argument.
func (c *Call) Bool(name string) bool { return arg[bool](c, name) }

// Text is a C string argument; null is "".
func (c *Call) Text(name string) string { return arg[string](c, name) }

// RequiredText is a C string argument; null is refused with 161001.
func (c *Call) RequiredText(name string) string {
	if c.args[c.index(name)] == nil {
		c.Fail(nullPointer, "%s is null", name)
	}
	return c.Text(name)
}

// SameShape refuses tensors whose shapes differ from the first one's.
func (c *Call) SameShape(first *Tensor, others ...*Tensor) {
	for _, t := range others {
		if !slices.Equal(first.Shape, t.Shape) {
			c.Invalid("shapes differ: %v and %v; they must be equal", first, t)
		}
	}
}

// SameDType refuses tensors whose dtypes differ from the first one's.
func (c *Call) SameDType(first *Tensor, others ...*Tensor) {
	for _, t := range others {
		if t.DType != first.DType {
			c.Invalid("dtypes differ: %v and %v; they must be equal", first, t)
		}
	}
}

// Same is SameShape and SameDType.
func (c *Call) Same(first *Tensor, others ...*Tensor) {
	c.SameShape(first, others...)
	c.SameDType(first, others...)
}

// DType refuses a tensor whose dtype is not among those allowed.
func (c *Call) DType(t *Tensor, allowed ...dtype.Type) {
	if !slices.Contains(allowed, t.DType) {
		c.Invalid("%v has a dtype that is not supported; use one of %v", t, allowed)
	}
}

// Shape refuses a tensor whose shape is not want; what says where want comes from.
func (c *Call) Shape(t *Tensor, want []int64, what string) {
	if !slices.Equal(t.Shape, want) {
		c.Invalid("%v must have shape %s (%s)", t, dims(want), what)
	}
}

// Rank refuses a tensor with fewer than lo or more than hi dimensions.
func (c *Call) Rank(t *Tensor, lo, hi int) {
	if t.Rank() < lo || t.Rank() > hi {
		c.Invalid("%v has %d dimensions; %d to %d are supported", t, t.Rank(), lo, hi)
	}
}

// Axis normalises a dimension index that may be negative and refuses one out of range.
func (c *Call) Axis(t *Tensor, axis int64) int {
	n := int64(max(t.Rank(), 1))
	if axis < -n || axis >= n {
		c.Invalid("dimension %d is out of range for %v; use %d to %d", axis, t, -n, n-1)
		return 0
	}
	if axis < 0 {
		axis += n
	}
	return int(axis)
}

// String lists the call with its arguments, for error texts.
func (c *Call) String() string {
	var parts []string
	for _, t := range c.tensors {
		parts = append(parts, t.String())
	}
	return c.Name() + "(" + strings.Join(parts, ", ") + ")"
}

// decode turns the words of phase one into arguments.
func (l *Library) decode(op *operator, words []uint64) (*Call, error) {
	c := &Call{op: op, args: make([]any, len(op.params))}
	for i, p := range op.params {
		if err := l.decodeArg(c, i, p, words[i]); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (l *Library) decodeArg(c *Call, i int, p param, w uint64) error {
	stale := func() error {
		return &Error{Code: invalidParam, Text: fmt.Sprintf("%s: %s (%#x) is not a live aclnn object of its type; was it destroyed?", c.Name(), p.name, w)}
	}
	switch p.class {
	case intClass, pointerClass:
		c.args[i] = int64(w)
		return nil
	case boolClass:
		c.args[i] = w&0xff != 0
		return nil
	case doubleClass:
		c.args[i] = math.Float64frombits(w)
		return nil
	case floatClass:
		c.args[i] = float64(math.Float32frombits(uint32(w)))
		return nil
	case stringClass:
		if w != 0 {
			c.args[i] = rt.CString(w)
		}
		return nil
	}
	if w == 0 {
		return nil
	}
	noValue := func(s *Scalar) error {
		return &Error{Code: invalidParam, Text: fmt.Sprintf("%s: %s is a scalar of type %v, which the emulator does not know", c.Name(), p.name, s.DType)}
	}
	obj := l.rt.Handles.Get(w)
	switch p.class {
	case tensorClass:
		t, ok := obj.(*Tensor)
		if !ok {
			return stale()
		}
		c.args[i] = c.capture(t, p.name)
	case tensorListClass:
		list, ok := obj.(*tensorList)
		if !ok {
			return stale()
		}
		out := make([]*Tensor, len(list.members))
		for k, h := range list.members {
			t, ok := l.rt.Handles.Get(h).(*Tensor)
			if !ok {
				return stale()
			}
			out[k] = c.capture(t, fmt.Sprintf("%s[%d]", p.name, k))
		}
		c.args[i] = out
	case scalarClass:
		s, ok := obj.(*Scalar)
		if !ok {
			return stale()
		}
		if !s.hasValue() {
			return noValue(s)
		}
		c.args[i] = s
	case scalarListClass:
		list, ok := obj.(*scalarList)
		if !ok {
			return stale()
		}
		if k := slices.IndexFunc(list.values, func(s *Scalar) bool { return !s.hasValue() }); k >= 0 {
			return noValue(list.values[k])
		}
		c.args[i] = list.values
	case intArrayClass:
		a, ok := obj.(*intArray)
		if !ok {
			return stale()
		}
		c.args[i] = a.values
	case floatArrayClass:
		a, ok := obj.(*floatArray)
		if !ok {
			return stale()
		}
		c.args[i] = a.values
	case boolArrayClass:
		a, ok := obj.(*boolArray)
		if !ok {
			return stale()
		}
		c.args[i] = a.values
	}
	return nil
}

// capture adds a copy of t to the tensors whose memory phase two resolves.
func (c *Call) capture(t *Tensor, name string) *Tensor {
	t = t.clone(name)
	c.tensors = append(c.tensors, t)
	return t
}

// again is the call with fresh copies of its tensors, for an executor that runs repeatedly
// while the addresses of the originals change.
func (c *Call) again() *Call {
	n := &Call{op: c.op, args: slices.Clone(c.args), joined: c.joined, links: c.links}
	for i, a := range n.args {
		switch a := a.(type) {
		case *Tensor:
			n.args[i] = n.capture(a, a.name)
		case []*Tensor:
			out := make([]*Tensor, len(a))
			for k, t := range a {
				out[k] = n.capture(t, t.name)
			}
			n.args[i] = out
		}
	}
	return n
}

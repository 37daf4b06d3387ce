package aclnn

import (
	"strings"
	"sync"
	"unsafe"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/cshim"
	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/bridge"
)

// Operator is an entry of the generated operator table. Generated code declares one per
// operator as static data.
type Operator struct {
	Symbol  string // C name of phase two
	Library string // where CANN has it
	Since   string // first release of CANN that has it, "unreleased" if only newer sources do, or "custom"
	Foreign string // releases, separated by spaces, that have other C parameters under the symbol: a call there is refused
	Params  string // C parameter names, separated by spaces; CANN's own operators leave them to the table of the interface
	Slots   string // what each parameter is, for Executor.Bind; see cshim.Operator

	once sync.Once
	op   cshim.Operator

	paramsOnce sync.Once
	names      string
}

// params returns the C parameter names.
func (o *Operator) params() string {
	o.paramsOnce.Do(func() {
		if o.names = o.Params; o.names == "" {
			o.names = abi.ParamNames(o.Symbol)
		}
	})
	return o.names
}

// Name returns the symbol without CANN's prefix: Add for aclnnAdd. That of a nil operator is empty.
func (o *Operator) Name() string {
	if o == nil {
		return ""
	}
	return strings.TrimPrefix(strings.TrimPrefix(o.Symbol, "acl"), "nn")
}

// From returns where the operator comes from, in words: "since CANN 9.0.0", "in no release of CANN yet" or "of a
// custom operator package".
func (o *Operator) From() string {
	if o == nil {
		return ""
	}
	switch o.Since {
	case abi.Unreleased:
		return "in no release of CANN yet"
	case abi.Custom:
		return "of a custom operator package"
	}
	return "since CANN " + o.Since
}

// Available reports whether this CANN installation has the operator: nil,
// *cshim.SymbolError, *cshim.LibraryError, or *cshim.FormError where it has other parameters. An operator that is nil or has no symbol is
// acl.ErrInvalidArgument.
func (o *Operator) Available() error {
	if err := o.named(); err != nil {
		return err
	}
	return o.symbols().Available()
}

func (o *Operator) named() error {
	if o == nil || o.Symbol == "" {
		return refuse(acl.ErrInvalidArgument, "the operator is nil or has no symbol")
	}
	return nil
}

func (o *Operator) symbols() *cshim.Operator {
	o.once.Do(func() { o.op.Symbol, o.op.Slots, o.op.Foreign = o.Symbol, o.Slots, o.Foreign })
	return &o.op
}

// Params are the arguments of one operator; the generated …Params structs implement it.
type Params interface {
	Operator() *Operator
	Encode(c *Call)
}

// Call is one launch in the making. Generated code makes it with NewCall, adds the
// arguments in C order, and launches; custom bindings do the same.
type Call struct {
	launch cshim.Launch
	st     bridge.Queue
	user   *bridge.User
	op     *Operator
	err    error
	used   []memory // of tensors that the stream had not used last: kept from being collected
}

var calls = sync.Pool{New: func() any { return new(Call) }}

// NewCall starts a launch of op on st. Launch must follow and ends the call; it returns the error
// of a wrong stream or argument.
func NewCall(st *acl.Stream, op *Operator) *Call {
	c := calls.Get().(*Call)
	unnamed := op.named()
	if unnamed != nil {
		op = &nameless
	}
	c.op = op
	c.launch.Reset(op.symbols())
	c.st, c.user, c.err = bridge.StreamOf(st)
	if c.err == nil {
		c.err = unnamed
	}
	return c
}

// nameless takes the arguments of a call whose operator is nil or has no symbol.
var nameless = Operator{Symbol: "aclnn"}

// Launch queues the call on the stream, and ends it.
func (c *Call) Launch() error {
	if c == nil || c.op == nil {
		return refuse(acl.ErrInvalidArgument, "the call was not made by NewCall, or was launched already")
	}
	err := c.err
	if err == nil {
		err = c.st.Launch(&c.launch)
	}
	if err != nil {
		err = c.failure(err)
	} else if observe := c.user.Observer.Load(); observe != nil {
		(*observe)(c.op.Name(), c.op.params(), &c.launch)
	}
	c.free()
	return err
}

func (c *Call) free() {
	c.st, c.user, c.op, c.err = nil, nil, nil, nil
	if len(c.used) > 0 {
		clear(c.used)
		c.used = c.used[:0]
	}
	calls.Put(c)
}

// check keeps the first error of an argument. Package acl is asked whether the stream may use the
// memory, unless the stream was the last to use it.
func (c *Call) check(t *Tensor) {
	if t.err != nil || t.mem.last == nil || t.mem.last.Load() != c.user {
		c.admit(t)
	}
}

func (c *Call) admit(t *Tensor) {
	switch {
	case c.err != nil:
	case t.err != nil:
		c.err = t.err
	case t.mem.last == nil:
		c.err = refuse(acl.ErrInvalidArgument, "%v has no memory; New, Wrap or FromSlice make tensors that have", t)
	default:
		c.err = c.st.Use(bridge.MemoryOf(t.mem.buf))
		c.used = append(c.used, t.mem)
	}
}

// Tensor adds a tensor; nil is an absent one.
func (c *Call) Tensor(t *Tensor) {
	if t == nil {
		c.launch.Null()
		return
	}
	// This is check, written out for the most frequent argument.
	if t.err != nil || t.mem.last == nil || t.mem.last.Load() != c.user {
		c.admit(t)
	}
	c.launch.Tensor(&t.desc)
}

// Channels adds a tensor of which the operator demands a format that follows from the number of
// dimensions. A tensor in ND with 3, 4 or 5 of them is described in the given format, or stays in
// ND where that is -1. Tensor.As describes one in another format.
func (c *Call) Channels(t *Tensor, three, four, five Format) {
	if t == nil || t.Format() != ND || t.Rank() < 3 || t.Rank() > 5 {
		c.Tensor(t)
		return
	}
	f := [...]Format{three, four, five}[t.Rank()-3]
	if f < 0 {
		f = ND
	}
	c.check(t)
	d := t.desc
	d.Format = int16(f)
	c.launch.Tensor(&d)
}

// Tensors adds a tensor list; nil is an absent one. A nil member is refused.
func (c *Call) Tensors(list []*Tensor) {
	if list == nil {
		c.launch.Null()
		return
	}
	c.launch.Tensors(len(list))
	for _, t := range list {
		if t == nil {
			t = &nilMember
		}
		c.check(t)
		c.launch.Member(&t.desc)
	}
}

var nilMember = Tensor{err: errNilMember}

// Scalar adds a scalar; the zero Scalar is an absent one.
func (c *Call) Scalar(s Scalar) {
	if s.state != present {
		if c.err == nil {
			c.err = s.Err()
		}
		c.launch.Null()
		return
	}
	c.launch.Scalar(int32(s.dtype), s.value)
}

// Scalars adds a scalar list; nil is an absent one. A zero Scalar in it is refused.
func (c *Call) Scalars(list []Scalar) {
	if list == nil {
		c.launch.Null()
		return
	}
	c.launch.Scalars(len(list))
	for _, s := range list {
		if s.state != present && c.err == nil {
			if c.err = s.Err(); s.state == absent {
				c.err = errNilMember
			}
		}
		c.launch.ScalarMember(int32(s.dtype), s.value)
	}
}

// Ints adds an aclIntArray; nil is an absent one, an empty slice an empty array.
func (c *Call) Ints(v []int64) {
	if v == nil {
		c.launch.Null()
		return
	}
	c.launch.Ints(v)
}

// Floats adds an aclFloatArray; nil is an absent one.
func (c *Call) Floats(v []float32) {
	if v == nil {
		c.launch.Null()
		return
	}
	c.launch.Floats(v)
}

// Bools adds an aclBoolArray; nil is an absent one.
func (c *Call) Bools(v []bool) {
	if v == nil {
		c.launch.Null()
		return
	}
	c.launch.Bools(v)
}

// Str adds a C string.
func (c *Call) Str(s string) { c.launch.Text(s) }

// Group adds the name of a communicator, which must then outlive a graph that contains the call.
func (c *Call) Group(name string) {
	if c.st != nil {
		c.st.HoldGroup(name)
	}
	c.launch.Text(name)
}

// OptStr adds a C string that may be absent: "" is a null pointer.
func (c *Call) OptStr(s string) {
	if s == "" {
		c.launch.Null()
		return
	}
	c.launch.Text(s)
}

// Int64 adds an integer or enum of any width.
func (c *Call) Int64(v int64) { c.launch.Int(v) }

// Bool adds a bool.
func (c *Call) Bool(v bool) {
	var w int64
	if v {
		w = 1
	}
	c.launch.Int(w)
}

// Float64 adds a double.
func (c *Call) Float64(v float64) { c.launch.Double(v) }

// Float32 adds a float.
func (c *Call) Float32(v float32) { c.launch.Float(v) }

// Pointer adds a raw C pointer; it must not point into Go memory.
func (c *Call) Pointer(p unsafe.Pointer) { c.launch.Int(int64(uintptr(p))) }

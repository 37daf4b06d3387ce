package op

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/emu/rt/sanitize"
)

// Error is the error with which phase one refuses a call.
type Error struct {
	Code      int32
	Text      string
	ID        string // with which CANN's text begins; "" for that of the code
	vacuous   bool   // only because a tensor is empty
	undefined bool   // because CANN's check calculates what C leaves undefined
}

func (e *Error) Error() string { return fmt.Sprintf("%d: %s", e.Code, e.Text) }

// Call is one call of phase one with its decoded arguments.
//
// The accessors record the first error and return harmless values after it. So a Prepare function
// can read its arguments, check its conditions, and ask for Err once.
type Call struct {
	Op        *Operator
	chip      acceptance.Chip
	args      []any // by parameter; *Tensor, []*Tensor, *Scalar, …; nil when null
	tensors   []*Tensor
	copies    []Tensor // memory for tensors that are not captured yet
	views     []view   // tensors over the memory of others, and tensors in the workspace
	stages    []Stage  // executed on the stream before the Run
	join      func(group string) (Communicator, error)
	joined    map[string]Communicator
	Links     *Links // link flags, which the ranks of the process share
	cores     Cores
	older     bool
	tiled     bool
	plain     bool // see Env
	workspace int64
	accesses  accesses
	seen      uint64 // the parameters that anything looked at, a bit for each
	prepared  bool   // phase one is over
	err       error
	unjoined  error // a group has no communicator
	launchErr error

	handlesOverlap bool
	place          map[*Tensor]int                 // in lists of which the computation handles overlap, from 1; nil without such lists
	once           bool                            // see Once
	follow         func(x *Exec) []sanitize.Access // see Follow
	rewrites       string                          // see Rewrites
}

// Env holds the parts of the library that a call uses.
type Env struct {
	Join      func(group string) (Communicator, error) // returns this rank's communicator of a group
	Links     *Links
	Older     bool            // the library is that of CANN 8.1
	Cores     Cores           // of the chip; zeros are those of the 910B1
	Chip      acceptance.Chip // whose rules the call must satisfy; 0 is the 910B
	PlainCube bool            // products of float32 are not rounded, whatever cubeMathType says
	Tiled     bool            // the call must satisfy the sizes of the chip's tiling too, which tests of the computation do not
}

// Cores are the numbers of cores of a chip.
type Cores struct{ Cube, Vector int64 }

// Cores returns the numbers of cores of the chip.
func (c *Call) Cores() Cores { return c.cores }

// NewCall returns a call of an operator. args has one value for each parameter: *Tensor, []*Tensor,
// *Scalar, []*Scalar, []int64, []float32, []bool and string, which are nil for a null pointer of C,
// and int64, bool and float64. The call copies the tensors, so later changes to the originals do
// not affect it.
func NewCall(o *Operator, args []any, env Env) *Call {
	c := &Call{Op: o, chip: cmp.Or(env.Chip, acceptance.Ascend910B), args: slices.Clone(args), join: env.Join, Links: env.Links, cores: cmp.Or(env.Cores, Cores{24, 48}), older: env.Older, tiled: env.Tiled, plain: env.PlainCube}
	n := 0
	for _, a := range args {
		switch a := a.(type) {
		case *Tensor:
			n++
		case []*Tensor:
			n += len(a)
		}
	}
	c.tensors, c.copies = make([]*Tensor, 0, n), make([]Tensor, n)
	for i, p := range o.Params {
		switch a := args[i].(type) {
		case *Tensor:
			c.args[i] = c.capture(a, p.Name, p.Use)
		case []*Tensor:
			list := make([]*Tensor, len(a))
			for k, t := range a {
				list[k] = c.capture(t, fmt.Sprintf("%s[%d]", p.Name, k), p.Use)
			}
			c.args[i] = list
		}
	}
	return c
}

// Exec is one call of phase two.
type Exec struct {
	workspace unsafe.Pointer
	memory    Memory
}

// Workspace returns the scratch memory that Call.Workspace requested.
func (x *Exec) Workspace() unsafe.Pointer { return x.workspace }

// Name returns the operator's C name.
func (c *Call) Name() string { return "aclnn" + c.Op.Name }

// Err returns the first recorded error, or nil. CANN refuses null arguments before it looks for the communicator of a
// group, and everything else after it.
func (c *Call) Err() error {
	if c.unjoined != nil && !c.foundNull() {
		return c.unjoined
	}
	return c.err
}

// foundNull reports whether the recorded error is a null argument.
func (c *Call) foundNull() bool {
	e, ok := c.err.(*Error)
	return ok && e.Code == NullPointer
}

// Fail records an error, unless one is already recorded that comes first.
func (c *Call) Fail(code int32, format string, args ...any) {
	if c.err == nil || c.unjoined != nil && code == NullPointer && !c.foundNull() {
		c.err = &Error{Code: code, Text: c.Name() + ": " + fmt.Sprintf(format, args...)}
	}
}

// Vacuous is like Invalid, for tensors that the operator refuses only because they are empty. It does
// not count where CANN's sources let such a call do nothing.
func (c *Call) Vacuous(format string, args ...any) {
	if c.err == nil {
		c.err = &Error{Code: InvalidParam, Text: c.Name() + ": " + fmt.Sprintf(format, args...), vacuous: true}
	}
}

// Once reports whether the executor of the call cannot be rebound: what the call did depends on more
// than its arguments, or it gave tensors of the program another shape or format.
func (c *Call) Once() bool { return c.once || len(c.joined) > 0 }

// ServeOnce keeps the executor of the call from being rebound. Operators call it whose phase one may
// depend on more than the arguments.
func (c *Call) ServeOnce() { c.once = true }

// LaunchErr returns the error that phase two reports for a call that phase one accepted.
func (c *Call) LaunchErr() error { return c.launchErr }

// Args returns the arguments in the order of the parameters. Their tensors are the call's copies.
func (c *Call) Args() []any { return c.args }

// AllTensors returns the tensors among the arguments, including the members of lists.
func (c *Call) AllTensors() []*Tensor { return c.tensors }

// Stages returns the steps that phase two executes before the Run.
func (c *Call) Stages() []Stage { return c.stages }

// WorkspaceSize returns the size of the requested scratch memory in bytes.
func (c *Call) WorkspaceSize() int64 { return c.workspace }

// FailLaunch records an error that phase two returns although phase one succeeds. Some operators of
// CANN ignore the status of their tiling in phase one.
func (c *Call) FailLaunch(code int32, format string, args ...any) {
	if c.launchErr == nil {
		c.launchErr = &Error{Code: code, Text: c.Name() + ": " + fmt.Sprintf(format, args...)}
	}
}

// Invalid is like Fail with 161002 (parameter invalid).
func (c *Call) Invalid(format string, args ...any) { c.Fail(InvalidParam, format, args...) }

// Older reports whether the library is that of CANN 8.1, whose kernels take fewer combinations.
func (c *Call) Older() bool { return c.older }

// Chip returns the chip whose rules the call must satisfy.
func (c *Call) Chip() acceptance.Chip { return c.chip }

// Tiled reports whether the call must also satisfy the sizes that the chip's tiling takes.
func (c *Call) Tiled() bool { return c.tiled }

// Workspace requests n more bytes of scratch device memory.
func (c *Call) Workspace(n int64) { c.workspace += n }

// Retarget gives the call's copies of a tensor the address that the tensor has now.
func (c *Call) Retarget(object *Tensor) {
	for _, t := range c.tensors {
		if t.object == object {
			t.Addr = object.Addr
		}
	}
}

// String returns the call with its tensors for error texts.
func (c *Call) String() string {
	var parts []string
	for _, t := range c.tensors {
		parts = append(parts, t.String())
	}
	return c.Name() + "(" + strings.Join(parts, ", ") + ")"
}

// capture adds a copy of a tensor to those whose memory phase two resolves. Later changes of the
// program's tensor do not affect it.
func (c *Call) capture(object *Tensor, name string, use Use) *Tensor {
	t := &c.copies[0]
	c.copies = c.copies[1:]
	*t = *object
	t.Name, t.object, t.call, t.use = name, object, c, use
	c.tensors = append(c.tensors, t)
	if err := t.checkExtent(); err != nil {
		c.Invalid("%v %v", t, err)
	}
	return t
}

// again returns the call with fresh copies of its tensors. Repeatable executors need it because the
// addresses of the original tensors may change between two runs.
func (c *Call) again() *Call {
	n := NewCall(c.Op, c.args, Env{Links: c.Links, Older: c.older, Chip: c.chip, Cores: c.cores, PlainCube: c.plain})
	n.joined = c.joined
	return n
}

package check

import (
	"fmt"
	"slices"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/internal/class"
)

// ErrInvalid says that arguments were refused before anything was launched. It is re-exported as
// ops.ErrInvalid and matches acl.ErrInvalidArgument.
var ErrInvalid = class.Of(class.ErrInvalidArgument, "ops: invalid argument")

// Floats are the element types that operators compute in.
var Floats = []aclnn.DType{aclnn.Float32, aclnn.Float16, aclnn.BFloat16}

// Indices are the element types of ids and labels.
var Indices = []aclnn.DType{aclnn.Int32, aclnn.Int64}

// Args checks the arguments of an operator and keeps the first fault in Err; later checks do
// nothing.
type Args struct{ Err error }

// Fail records a fault, which matches ErrInvalid, unless one is recorded already.
func (c *Args) Fail(format string, args ...any) {
	if c.Err == nil {
		c.Err = fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
	}
}

// Invalid returns an ErrInvalid with a one-sentence message.
func Invalid(format string, args ...any) error {
	var c Args
	c.Fail(format, args...)
	return c.Err
}

// OK reports whether no fault was found so far.
func (c *Args) OK() bool { return c.Err == nil }

// Tensor checks that a required tensor is not nil, is valid, has ND format and one of the dtypes.
// The tensor may be used only if this check passed.
func (c *Args) Tensor(name string, t *aclnn.Tensor, dtypes ...aclnn.DType) {
	switch {
	case c.Err != nil:
	case t == nil:
		c.Fail("%s is nil", name)
	case t.Err() != nil:
		c.Fail("%s: %v", name, t.Err())
	case t.Format() != aclnn.ND:
		c.Fail("%s is %v; convert it to ND", name, t)
	case !slices.Contains(dtypes, t.DType()):
		c.Fail("%s is %v; its dtype must be one of %v", name, t, slices.Clone(dtypes))
	}
}

// Optional is Tensor for a tensor that may be nil; it reports whether the tensor is present and
// valid.
func (c *Args) Optional(name string, t *aclnn.Tensor, dtypes ...aclnn.DType) bool {
	if t == nil {
		return false
	}
	c.Tensor(name, t, dtypes...)
	return c.Err == nil
}

// Shape checks the dimensions of a tensor.
func (c *Args) Shape(name string, t *aclnn.Tensor, want ...int64) {
	if c.Err != nil {
		return
	}
	same := t.Rank() == len(want)
	for i := 0; same && i < len(want); i++ {
		same = t.Dim(i) == want[i]
	}
	if !same {
		c.Fail("%s is %v; its shape must be %v", name, t, slices.Clone(want))
	}
}

// Like checks that a tensor has the shape of another.
func (c *Args) Like(name string, t *aclnn.Tensor, other string, o *aclnn.Tensor) {
	c.Rows(name, t, other, o)
	if c.Err == nil && t.Rank() > 0 && t.Dim(-1) != o.Dim(-1) {
		c.Fail("%s is %v and %s %v; their shapes must be equal", name, t, other, o)
	}
}

// Same checks, as Tensor does, a tensor that must have the dtype and the shape of another.
func (c *Args) Same(name string, t *aclnn.Tensor, other string, o *aclnn.Tensor) {
	if c.Err == nil {
		c.Tensor(name, t, o.DType())
		c.Like(name, t, other, o)
	}
}

// Rows checks that two tensors have the same shape except for the last dimension.
func (c *Args) Rows(name string, t *aclnn.Tensor, other string, o *aclnn.Tensor) {
	if c.Err != nil {
		return
	}
	same := t.Rank() == o.Rank()
	for i := 0; same && i < t.Rank()-1; i++ {
		same = t.Dim(i) == o.Dim(i)
	}
	if !same {
		c.Fail("%s is %v and %s %v; their shapes do not fit", name, t, other, o)
	}
}

// Contiguous checks that a tensor is contiguous, for operators that access plain rows.
func (c *Args) Contiguous(name string, t *aclnn.Tensor) {
	if c.Err == nil && !t.Contiguous() {
		c.Fail("%s is %v; it must be contiguous", name, t)
	}
}

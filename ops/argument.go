package ops

import (
	"fmt"
	"slices"

	"github.com/goascend/cann/aclnn"
)

// floats are the element types that the operators of this package compute in.
var floats = []aclnn.DType{aclnn.Float32, aclnn.Float16, aclnn.BFloat16}

// indices are the element types of ids and labels.
var indices = []aclnn.DType{aclnn.Int32, aclnn.Int64}

// check collects the first fault of an operator's arguments.
type check struct{ err error }

func (c *check) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
	}
}

// invalid refuses arguments with one sentence.
func invalid(format string, args ...any) error {
	var c check
	c.fail(format, args...)
	return c.err
}

// ok reports whether nothing was wrong so far.
func (c *check) ok() bool { return c.err == nil }

// tensor checks that a required tensor is there, valid, in ND format, and of one of the
// dtypes. Only after it may the tensor be looked at.
func (c *check) tensor(name string, t *aclnn.Tensor, dtypes ...aclnn.DType) {
	switch {
	case c.err != nil:
	case t == nil:
		c.fail("%s is nil", name)
	case t.Err() != nil:
		c.fail("%s: %v", name, t.Err())
	case t.Format() != aclnn.ND:
		c.fail("%s is %v; convert it to ND", name, t)
	case !slices.Contains(dtypes, t.DType()):
		c.fail("%s is %v; its dtype must be one of %v", name, t, slices.Clone(dtypes))
	}
}

// optional is tensor for one that may be nil; it reports whether it is there and good.
func (c *check) optional(name string, t *aclnn.Tensor, dtypes ...aclnn.DType) bool {
	if t == nil {
		return false
	}
	c.tensor(name, t, dtypes...)
	return c.err == nil
}

// shape checks the dimensions of a tensor.
func (c *check) shape(name string, t *aclnn.Tensor, want ...int64) {
	if c.err != nil {
		return
	}
	same := t.Rank() == len(want)
	for i := 0; same && i < len(want); i++ {
		same = t.Dim(i) == want[i]
	}
	if !same {
		c.fail("%s is %v; its shape must be %v", name, t, slices.Clone(want))
	}
}

// like checks that a tensor has the shape of another.
func (c *check) like(name string, t *aclnn.Tensor, other string, o *aclnn.Tensor) {
	c.rows(name, t, other, o)
	if c.err == nil && t.Rank() > 0 && t.Dim(-1) != o.Dim(-1) {
		c.fail("%s is %v and %s %v; their shapes must be equal", name, t, other, o)
	}
}

// rows checks that two tensors have the same shape but for the last dimension.
func (c *check) rows(name string, t *aclnn.Tensor, other string, o *aclnn.Tensor) {
	if c.err != nil {
		return
	}
	same := t.Rank() == o.Rank()
	for i := 0; same && i < t.Rank()-1; i++ {
		same = t.Dim(i) == o.Dim(i)
	}
	if !same {
		c.fail("%s is %v and %s %v; their shapes do not fit", name, t, other, o)
	}
}

// contiguous checks that an operator that writes or reads plain rows can do so.
func (c *check) contiguous(name string, t *aclnn.Tensor) {
	if c.err == nil && !t.Contiguous() {
		c.fail("%s is %v; it must be contiguous", name, t)
	}
}

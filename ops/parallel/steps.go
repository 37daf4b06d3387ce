package parallel

import (
	"fmt"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/internal/check"
)

// given returns an ErrInvalid if a call lacks one of the things that it cannot do without: the layer, the
// stream, the arguments.
func given[P, A any](what string, layer *P, st *acl.Stream, a *A) error {
	var c check.Args
	switch {
	case layer == nil:
		c.Fail("the layer was not made")
	case st == nil:
		c.Fail("the stream is nil")
	case a == nil:
		c.Fail("the arguments are nil")
	default:
		return nil
	}
	return fmt.Errorf("%s: %w", what, c.Err)
}

// float casts t to float32, the dtype in which gradients and losses are summed.
func float(s *aclnn.Scope, t *aclnn.Tensor) *aclnn.Tensor { return s.Cast(t, aclnn.Float32) }

// add computes x += alpha·y.
func add(s *aclnn.Scope, x, y *aclnn.Tensor, alpha float64) {
	aclnn.Launch(s, aclnn.InplaceAdd, aclnn.InplaceAddParams{Self: x, Other: y, Alpha: aclnn.Float(alpha)})
}

// scale computes x *= v.
func scale(s *aclnn.Scope, x *aclnn.Tensor, v float64) {
	aclnn.Launch(s, aclnn.InplaceMuls, aclnn.InplaceMulsParams{Self: x, Other: aclnn.Float(v)})
}

// elements returns the number of elements of a shape.
func elements(shape []int64) int64 {
	n := int64(1)
	for _, d := range shape {
		n *= d
	}
	return n
}

package parallel

import (
	"context"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
)

// run queues an operator of package ops on the stream of the scope.
func run[A any, K comparable](ctx context.Context, s *aclnn.Scope, o *ops.Op[A, K], a *A) {
	s.Do(func() error { return o.Run(ctx, s.Stream, a) })
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

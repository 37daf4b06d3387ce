package ops

import (
	"context"
	"errors"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
)

// steps is a scope for the launches of a composite kernel, with methods for arithmetic.
type steps struct {
	aclnn.Scope

	flops int64 // of the matrix products; tests compare them with formulas
}

// compose runs the launches and frees their scratch tensors, in stream order.
func compose(st *acl.Stream, body func(s *steps)) error {
	s := steps{Scope: aclnn.Scope{Stream: st}}
	body(&s)
	return errors.Join(s.Err(), s.Close())
}

// launch queues one operator.
func launch[P any](s *steps, operator func(*acl.Stream, P) error, p P) {
	aclnn.Launch(&s.Scope, operator, p)
}

// Queue queues an operator of the registry in a scope, as aclnn.Launch queues one of aclnn: not if the scope
// has failed. The operator's error is the scope's.
func Queue[A any, K comparable](ctx context.Context, s *aclnn.Scope, o *Op[A, K], a *A) {
	s.Do(func() error { return o.Run(ctx, s.Stream, a) })
}

// float casts t to float32, the dtype in which composite kernels compute.
func (s *steps) float(t *aclnn.Tensor) *aclnn.Tensor { return s.Cast(t, aclnn.Float32) }

// deliver stores a gradient in dst, or adds it.
func (s *steps) deliver(dst, t *aclnn.Tensor, accumulate bool) {
	if accumulate {
		s.add(dst, t, 1)
		return
	}
	s.Copy(dst, t)
}

// add computes x += alpha·y.
func (s *steps) add(x, y *aclnn.Tensor, alpha float64) {
	launch(s, aclnn.InplaceAdd, aclnn.InplaceAddParams{Self: x, Other: y, Alpha: aclnn.Float(alpha)})
}

// adds computes x += v.
func (s *steps) adds(x *aclnn.Tensor, v float64) {
	launch(s, aclnn.InplaceAdds, aclnn.InplaceAddsParams{Self: x, Other: aclnn.Float(v), Alpha: aclnn.Float(1)})
}

// scale computes x *= v.
func (s *steps) scale(x *aclnn.Tensor, v float64) {
	launch(s, aclnn.InplaceMuls, aclnn.InplaceMulsParams{Self: x, Other: aclnn.Float(v)})
}

// times computes x *= y; y broadcasts.
func (s *steps) times(x, y *aclnn.Tensor) {
	launch(s, aclnn.InplaceMul, aclnn.InplaceMulParams{Self: x, Other: y})
}

// mul returns x·y in a new tensor of x's shape; y broadcasts.
func (s *steps) mul(x, y *aclnn.Tensor) *aclnn.Tensor {
	out := s.Like(x)
	launch(s, aclnn.Mul, aclnn.MulParams{Self: x, Other: y, Out: out})
	return out
}

// reduced returns the shape of t with size one for some dimensions, which may be negative. A tensor
// that an earlier step could not make may lack them.
func reduced(t *aclnn.Tensor, dims ...int64) []int64 {
	shape := t.Shape()
	for _, d := range dims {
		if d < 0 {
			d += int64(len(shape))
		}
		if d >= 0 && d < int64(len(shape)) {
			shape[d] = 1
		}
	}
	return shape
}

// sum adds up dimensions of a float32 tensor; they remain with size one.
func (s *steps) sum(x *aclnn.Tensor, dims ...int64) *aclnn.Tensor {
	out := s.Tensor(aclnn.Float32, reduced(x, dims...)...)
	launch(s, aclnn.ReduceSum, aclnn.ReduceSumParams{Self: x, Dims: dims, KeepDims: true, Dtype: aclnn.Float32, Out: out})
	return out
}

// mean averages the last dimension of a float32 tensor; it remains with size one.
func (s *steps) mean(x *aclnn.Tensor) *aclnn.Tensor {
	out := s.Tensor(aclnn.Float32, reduced(x, -1)...)
	launch(s, aclnn.Mean, aclnn.MeanParams{Self: x, Dim: []int64{-1}, KeepDim: true, Dtype: aclnn.Float32, Out: out})
	return out
}

// matmul returns a·b in a new float32 or 16-bit tensor of the given shape; batches broadcast.
func (s *steps) matmul(a, b *aclnn.Tensor, shape ...int64) *aclnn.Tensor {
	out := s.Tensor(a.DType(), shape...)
	s.multiply(out, a, b)
	return out
}

// multiply computes out = a·b.
func (s *steps) multiply(out, a, b *aclnn.Tensor) {
	launch(s, aclnn.Matmul, aclnn.MatmulParams{Self: a, Mat2: b, Out: out, CubeMathType: keepDType})
	s.flops += 2 * out.Len() * a.Dim(-1)
}

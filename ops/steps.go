package ops

import (
	"errors"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
)

// steps are the launches of one kernel that needs several. They share scratch tensors of
// the stream, and after the first error nothing more is launched, so that a kernel reads
// like its formula.
type steps struct {
	st   *acl.Stream
	made []*aclnn.Tensor
	err  error

	flops int64 // of the matrix products, for tests to hold against formulas
}

// compose runs the launches and frees their scratch tensors, in stream order.
func compose(st *acl.Stream, body func(s *steps)) error {
	s := steps{st: st}
	body(&s)
	for _, t := range s.made {
		s.err = errors.Join(s.err, t.Close())
	}
	return s.err
}

// launch queues one operator.
func launch[P any](s *steps, operator func(*acl.Stream, P) error, p P) {
	if s.err == nil {
		s.err = operator(s.st, p)
	}
}

// nothing stands in for tensors after an error; no launch sees it.
var nothing aclnn.Tensor

// tensor makes a scratch tensor.
func (s *steps) tensor(dt aclnn.DType, shape ...int64) *aclnn.Tensor {
	if s.err != nil {
		return &nothing
	}
	t, err := aclnn.New(s.st, dt, shape...)
	if err != nil {
		s.err = err
		return &nothing
	}
	s.made = append(s.made, t)
	return t
}

// cast is t in another dtype, t itself when it has it.
func (s *steps) cast(t *aclnn.Tensor, dt aclnn.DType) *aclnn.Tensor {
	if t.DType() == dt {
		return t
	}
	out := s.tensor(dt, t.Shape()...)
	launch(s, aclnn.Cast, aclnn.CastParams{Self: t, Dtype: dt, Out: out})
	return out
}

// float is t in float32, in which composite kernels compute.
func (s *steps) float(t *aclnn.Tensor) *aclnn.Tensor { return s.cast(t, aclnn.Float32) }

// dense is t without gaps, so that it can be reshaped.
func (s *steps) dense(t *aclnn.Tensor) *aclnn.Tensor {
	if t.Contiguous() {
		return t
	}
	out := s.tensor(t.DType(), t.Shape()...)
	s.store(out, t)
	return out
}

// store copies t to dst, converting the dtype and broadcasting.
func (s *steps) store(dst, t *aclnn.Tensor) {
	launch(s, aclnn.InplaceCopy, aclnn.InplaceCopyParams{SelfRef: dst, Src: t})
}

// target is t, or a tensor without gaps to compute into, for finish to copy to t.
func (s *steps) target(t *aclnn.Tensor) *aclnn.Tensor {
	if t.Contiguous() {
		return t
	}
	return s.tensor(t.DType(), t.Shape()...)
}

// finish copies a target to the tensor it stands in for.
func (s *steps) finish(t, target *aclnn.Tensor) {
	if t != target {
		s.store(t, target)
	}
}

// deliver stores a gradient, or adds it to what dst has.
func (s *steps) deliver(dst, t *aclnn.Tensor, accumulate bool) {
	if accumulate {
		s.add(dst, t, 1)
		return
	}
	s.store(dst, t)
}

// zero clears t.
func (s *steps) zero(t *aclnn.Tensor) {
	launch(s, aclnn.InplaceZero, aclnn.InplaceZeroParams{SelfRef: t})
}

// fill sets all elements of t.
func (s *steps) fill(t *aclnn.Tensor, v aclnn.Scalar) {
	launch(s, aclnn.InplaceFillScalar, aclnn.InplaceFillScalarParams{SelfRef: t, Value: v})
}

// add is x += alpha·y.
func (s *steps) add(x, y *aclnn.Tensor, alpha float64) {
	launch(s, aclnn.InplaceAdd, aclnn.InplaceAddParams{SelfRef: x, Other: y, Alpha: aclnn.Float(alpha)})
}

// adds is x += v.
func (s *steps) adds(x *aclnn.Tensor, v float64) {
	launch(s, aclnn.InplaceAdds, aclnn.InplaceAddsParams{SelfRef: x, Other: aclnn.Float(v), Alpha: aclnn.Float(1)})
}

// scale is x *= v.
func (s *steps) scale(x *aclnn.Tensor, v float64) {
	launch(s, aclnn.InplaceMuls, aclnn.InplaceMulsParams{SelfRef: x, Other: aclnn.Float(v)})
}

// times is x *= y; y broadcasts.
func (s *steps) times(x, y *aclnn.Tensor) {
	launch(s, aclnn.InplaceMul, aclnn.InplaceMulParams{SelfRef: x, Other: y})
}

// mul is x·y in a new tensor of x's shape; y broadcasts.
func (s *steps) mul(x, y *aclnn.Tensor) *aclnn.Tensor {
	out := s.tensor(x.DType(), x.Shape()...)
	launch(s, aclnn.Mul, aclnn.MulParams{Self: x, Other: y, Out: out})
	return out
}

// reduced is the shape of t with some dimensions, which may be negative, of size one.
func reduced(t *aclnn.Tensor, dims ...int64) []int64 {
	shape := t.Shape()
	for _, d := range dims {
		if d < 0 {
			d += int64(len(shape))
		}
		shape[d] = 1
	}
	return shape
}

// sum adds up dimensions of a float32 tensor; they stay with size one.
func (s *steps) sum(x *aclnn.Tensor, dims ...int64) *aclnn.Tensor {
	out := s.tensor(aclnn.Float32, reduced(x, dims...)...)
	launch(s, aclnn.ReduceSum, aclnn.ReduceSumParams{Self: x, Dims: dims, KeepDims: true, Dtype: aclnn.Float32, Out: out})
	return out
}

// mean averages the last dimension of a float32 tensor; it stays with size one.
func (s *steps) mean(x *aclnn.Tensor) *aclnn.Tensor {
	out := s.tensor(aclnn.Float32, reduced(x, -1)...)
	launch(s, aclnn.Mean, aclnn.MeanParams{Self: x, Dim: []int64{-1}, KeepDim: true, Dtype: aclnn.Float32, Out: out})
	return out
}

// matmul is a·b in a new float32 or 16-bit tensor of the given shape; batches broadcast.
func (s *steps) matmul(a, b *aclnn.Tensor, shape ...int64) *aclnn.Tensor {
	out := s.tensor(a.DType(), shape...)
	s.multiply(out, a, b)
	return out
}

// multiply is out = a·b.
func (s *steps) multiply(out, a, b *aclnn.Tensor) {
	launch(s, aclnn.Matmul, aclnn.MatmulParams{Self: a, Mat2: b, Out: out, CubeMathType: keepDType})
	s.flops += 2 * out.Len() * a.Dim(-1)
}

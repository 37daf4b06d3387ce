package ops

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/key"
)

// ClipGradNormArgs clips the global L2 norm of gradients in place, like PyTorch's clip_grad_norm_:
// all gradients are scaled by MaxNorm/(norm + 1e-6) if that is below one. The device makes this
// decision; the host does not wait.
type ClipGradNormArgs struct {
	Grads []*aclnn.Tensor // any shapes; float32, float16 and bfloat16 may be mixed
	// MaxNorm is the limit; 0 only computes the norm.
	MaxNorm float64
	// Norm receives the norm before clipping: one element, float32, [] or [1]. To read it, copy it
	// to the host, which waits for the stream. Nil if it is not needed.
	Norm *aclnn.Tensor
	// Sum queues an in-place sum of a float32 tensor over the ranks of the model, such as the
	// result of parallel.Sum. The norm is then that of the gradients of all ranks, and all ranks
	// must call. Nil for one rank.
	Sum func(st *acl.Stream, t *aclnn.Tensor) error
	// Copies is the number of ranks that hold a copy of each gradient, so that it is counted once;
	// nil if every rank has different gradients.
	Copies []int
}

func (a *ClipGradNormArgs) validate() error {
	var c args
	for i, g := range a.Grads {
		if g == nil || g.Err() != nil || g.Format() != aclnn.ND || g.DType() != aclnn.Float32 && !is16(g.DType()) {
			c.Tensor(fmt.Sprintf("Grads[%d]", i), g, floats...) // format names only for faults
		}
	}
	if a.Copies != nil && len(a.Copies) != len(a.Grads) {
		c.Fail("%d Copies for %d Grads", len(a.Copies), len(a.Grads))
	}
	for i, n := range a.Copies {
		if n < 1 {
			c.Fail("Copies[%d] is %d; a gradient is on one rank at least", i, n)
		}
	}
	if c.Optional("Norm", a.Norm, aclnn.Float32) && (a.Norm.Rank() > 1 || a.Norm.Len() != 1) {
		c.Fail("Norm is %v; it must have one element", a.Norm)
	}
	if !(a.MaxNorm >= 0) || math.IsInf(a.MaxNorm, 1) {
		c.Fail("MaxNorm is %g; it must be positive, or 0 to compute the norm only", a.MaxNorm)
	}
	if a.MaxNorm == 0 && a.Norm == nil {
		c.Fail("MaxNorm is 0 and Norm nil; there is nothing to compute")
	}
	return c.Err
}

// wide reports whether all gradients are float32.
func (a *ClipGradNormArgs) wide() bool {
	for _, g := range a.Grads {
		if g.DType() != aclnn.Float32 {
			return false
		}
	}
	return true
}

// foreachLimit is how many tensors a foreach operator takes in one launch.
const foreachLimit = 48

func (a *ClipGradNormArgs) key() key.ClipGradNorm {
	return key.ClipGradNorm{Grads: len(a.Grads), Wide: a.wide(), Clip: a.MaxNorm > 0, Ranks: a.Sum != nil}
}

func newClipGradNorm(reg *Registry) *Op[ClipGradNormArgs, key.ClipGradNorm] {
	return op(reg, "clip_grad_norm", (*ClipGradNormArgs).validate, (*ClipGradNormArgs).key,
		Kernel[ClipGradNormArgs, key.ClipGradNorm]{
			Name: "ForeachNorm",
			Supports: func(env *Env, k key.ClipGradNorm) error {
				if !k.Wide {
					return errors.New("a gradient is not float32, and ForeachNorm would round its norm to 16 bits")
				}
				return errors.Join(env.Has(&aclnn.ForeachNormParams{}), available(&aclnn.ForeachMulScalarParams{}))
			},
			Run: func(_ context.Context, st *acl.Stream, a *ClipGradNormArgs) error {
				return compose(st, func(s *steps) {
					grads := a.parts()
					norms := s.Tensor(aclnn.Float32, int64(len(grads)))
					each(grads, func(at int, part []*aclnn.Tensor) {
						outs := make([]*aclnn.Tensor, len(part))
						for i := range outs {
							outs[i] = norms.Select(0, int64(at+i))
						}
						launch(s, aclnn.ForeachNorm, aclnn.ForeachNormParams{X: part, Scalar: aclnn.Float(2), Out: outs})
					})
					factor := s.clip(a, norms)
					if factor == nil {
						return
					}
					each(grads, func(_ int, part []*aclnn.Tensor) {
						launch(s, aclnn.ForeachMulScalar, aclnn.ForeachMulScalarParams{X: part, Scalar: factor.Unsqueeze(0), Out: part})
					})
				})
			},
		},
		Kernel[ClipGradNormArgs, key.ClipGradNorm]{
			Name: "LinalgVectorNorm", Supports: has[key.ClipGradNorm](&aclnn.LinalgVectorNormParams{}),
			Run: func(_ context.Context, st *acl.Stream, a *ClipGradNormArgs) error {
				return compose(st, func(s *steps) {
					grads := a.parts()
					norms := s.Tensor(aclnn.Float32, int64(len(grads)))
					for i, g := range grads {
						s.norm(g, norms.Select(0, int64(i)))
					}
					factor := s.clip(a, norms)
					if factor == nil {
						return
					}
					for _, g := range grads {
						s.times(g, factor)
					}
				})
			},
		})
}

// parts returns the gradients that are not empty.
func (a *ClipGradNormArgs) parts() []*aclnn.Tensor {
	parts := make([]*aclnn.Tensor, 0, len(a.Grads))
	for _, g := range a.Grads {
		if g.Len() > 0 {
			parts = append(parts, g)
		}
	}
	return parts
}

// share scales the norms so that gradients held by several ranks count once in the sum.
func (a *ClipGradNormArgs) share(s *steps, norms *aclnn.Tensor) {
	if a.Sum == nil || a.Copies == nil {
		return
	}
	var copies []int
	for i, g := range a.Grads {
		if g.Len() > 0 {
			copies = append(copies, a.Copies[i])
		}
	}
	for at := 0; at < len(copies); {
		end := at + 1
		for end < len(copies) && copies[end] == copies[at] {
			end++
		}
		if copies[at] > 1 {
			s.scale(norms.Narrow(0, int64(at), int64(end-at)), 1/math.Sqrt(float64(copies[at])))
		}
		at = end
	}
}

// each calls f with as many tensors as one launch takes and the index of the first.
func each(tensors []*aclnn.Tensor, f func(at int, part []*aclnn.Tensor)) {
	for at := 0; at < len(tensors); at += foreachLimit {
		f(at, tensors[at:min(at+foreachLimit, len(tensors))])
	}
}

// norm computes the L2 norm of all elements in float32.
func (s *steps) norm(t, out *aclnn.Tensor) {
	launch(s, aclnn.LinalgVectorNorm, aclnn.LinalgVectorNormParams{
		Self: t, Ord: aclnn.Float(2), Dims: allDims(t), Dtype: aclnn.Float32, Out: out,
	})
}

func allDims(t *aclnn.Tensor) []int64 {
	dims := make([]int64, t.Rank())
	for i := range dims {
		dims[i] = int64(i)
	}
	return dims
}

// clip writes the total norm and returns the factor for the gradients: one element without
// dimensions, or nil if they are not clipped.
func (s *steps) clip(a *ClipGradNormArgs, norms *aclnn.Tensor) *aclnn.Tensor {
	total := s.Tensor(aclnn.Float32)
	a.share(s, norms)
	if norms.Len() > 0 {
		s.norm(norms, total)
	} else {
		s.Zero(total)
	}
	if a.Sum != nil {
		s.times(total, total)
		s.Do(func() error { return a.Sum(s.Stream, total) })
		launch(s, aclnn.InplaceSqrt, aclnn.InplaceSqrtParams{Self: total})
	}
	if a.Norm != nil {
		s.Copy(a.Norm, total)
	}
	if a.MaxNorm == 0 || norms.Len() == 0 {
		return nil
	}
	s.adds(total, 1e-6)
	launch(s, aclnn.Reciprocal, aclnn.ReciprocalParams{Self: total, Out: total})
	s.scale(total, a.MaxNorm)
	launch(s, aclnn.InplaceClampMax, aclnn.InplaceClampMaxParams{Self: total, ClipValueMax: aclnn.Float(1)})
	return total
}

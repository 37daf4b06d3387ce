package ops

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/hccl"
)

// ClipGradNormArgs bounds the global L2 norm of gradients, in place, as PyTorch's
// clip_grad_norm_ does: all are scaled by MaxNorm/(norm + 1e-6) if that is below one. The
// decision is made on the device; nothing waits.
type ClipGradNormArgs struct {
	Grads []*aclnn.Tensor // any shapes; float32, float16 and bfloat16 may be mixed
	// MaxNorm is the bound; 0 only computes the norm.
	MaxNorm float64
	// Norm receives the norm before clipping: one element, float32, [] or [1]. Copy it to the
	// host to read it, which waits for the stream. Nil if it is not wanted.
	Norm *aclnn.Tensor
	// Comm is that of the ranks over which the model is spread: then the norm is that of all
	// their gradients, and all of them call. Nil for one rank.
	Comm Communicator
	// Copies is how many ranks of Comm hold the same gradient, so that it counts once; nil
	// when each rank has others.
	Copies []int
}

func (a *ClipGradNormArgs) validate() error {
	var c check
	for i, g := range a.Grads {
		if g == nil || g.Err() != nil || g.Format() != aclnn.ND || g.DType() != aclnn.Float32 && !is16(g.DType()) {
			c.tensor(fmt.Sprintf("Grads[%d]", i), g, floats...) // names are made for faults only
		}
	}
	if a.Copies != nil && len(a.Copies) != len(a.Grads) {
		c.fail("%d Copies for %d Grads", len(a.Copies), len(a.Grads))
	}
	for i, n := range a.Copies {
		if n < 1 {
			c.fail("Copies[%d] is %d; a gradient is on one rank at least", i, n)
		}
	}
	if c.optional("Norm", a.Norm, aclnn.Float32) && (a.Norm.Rank() > 1 || a.Norm.Len() != 1) {
		c.fail("Norm is %v; it must have one element", a.Norm)
	}
	if !(a.MaxNorm >= 0) || math.IsInf(a.MaxNorm, 1) {
		c.fail("MaxNorm is %g; it must be positive, or 0 to compute the norm only", a.MaxNorm)
	}
	return c.err
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

func newClipGradNorm(reg *Registry) *Op[ClipGradNormArgs] {
	return op(reg, "clip_grad_norm", (*ClipGradNormArgs).validate,
		func(a *ClipGradNormArgs) (s Signature) {
			if a.wide() {
				s[0] = 1
			}
			return s
		},
		Kernel[ClipGradNormArgs]{
			Name: "ForeachNorm",
			Supports: func(env *Env, a *ClipGradNormArgs) error {
				if !a.wide() {
					return errors.New("a gradient is not float32, and ForeachNorm would round its norm to 16 bits")
				}
				return errors.Join(trainingChip(env, "ForeachNorm"), availableAll(&aclnn.ForeachNormParams{}, &aclnn.ForeachMulScalarParams{}))
			},
			Run: func(_ context.Context, st *acl.Stream, a *ClipGradNormArgs) error {
				return compose(st, func(s *steps) {
					grads := a.parts()
					norms := s.tensor(aclnn.Float32, int64(len(grads)))
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
		Kernel[ClipGradNormArgs]{
			Name: "LinalgVectorNorm", Supports: has[ClipGradNormArgs](&aclnn.LinalgVectorNormParams{}),
			Run: func(_ context.Context, st *acl.Stream, a *ClipGradNormArgs) error {
				return compose(st, func(s *steps) {
					grads := a.parts()
					norms := s.tensor(aclnn.Float32, int64(len(grads)))
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

// parts are the gradients that have elements.
func (a *ClipGradNormArgs) parts() []*aclnn.Tensor {
	parts := make([]*aclnn.Tensor, 0, len(a.Grads))
	for _, g := range a.Grads {
		if g.Len() > 0 {
			parts = append(parts, g)
		}
	}
	return parts
}

// share leaves each rank the part of its norms' squares that makes them count once.
func (a *ClipGradNormArgs) share(s *steps, norms *aclnn.Tensor) {
	if a.Comm == nil || a.Copies == nil {
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

// each calls f with as many tensors as one launch takes, and the index of the first.
func each(tensors []*aclnn.Tensor, f func(at int, part []*aclnn.Tensor)) {
	for at := 0; at < len(tensors); at += foreachLimit {
		f(at, tensors[at:min(at+foreachLimit, len(tensors))])
	}
}

// norm is the L2 norm of all elements in float32.
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

// clip writes the norm of the norms and returns what to multiply the gradients with: one
// element without dimensions, or nil for nothing.
func (s *steps) clip(a *ClipGradNormArgs, norms *aclnn.Tensor) *aclnn.Tensor {
	total := s.tensor(aclnn.Float32)
	a.share(s, norms)
	if norms.Len() > 0 {
		s.norm(norms, total)
	} else {
		s.zero(total)
	}
	if a.Comm != nil {
		s.times(total, total)
		if s.err == nil {
			s.err = a.Comm.AllReduce(s.st, total, total, hccl.Sum)
		}
		launch(s, aclnn.InplaceSqrt, aclnn.InplaceSqrtParams{Self: total})
	}
	if a.Norm != nil {
		s.store(a.Norm, total)
	}
	if a.MaxNorm == 0 || norms.Len() == 0 {
		return nil
	}
	s.adds(total, 1e-6)
	launch(s, aclnn.Reciprocal, aclnn.ReciprocalParams{Self: total, Out: total})
	s.scale(total, a.MaxNorm)
	launch(s, aclnn.InplaceClampMax, aclnn.InplaceClampMaxParams{SelfRef: total, ClipValueMax: aclnn.Float(1)})
	return total
}

package ops

import (
	"context"
	"errors"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
)

// SwiGLUArgs gates: Out = silu(gate)·up, with silu(x) = x·sigmoid(x). Gate and up are the
// halves of X, or two tensors. All have one dtype, float32, float16 or bfloat16.
type SwiGLUArgs struct {
	X        *aclnn.Tensor // [..., 2·width], gate first; nil when Gate and Up are given
	Gate, Up *aclnn.Tensor // [..., width]; nil when X is given
	Out      *aclnn.Tensor // [..., width]
}

func (a *SwiGLUArgs) validate() error {
	var c check
	gate, _ := c.gated(a.X, a.Gate, a.Up, "")
	if c.ok() {
		c.tensor("Out", a.Out, gate.DType())
		c.like("Out", a.Out, "the gate", gate)
	}
	return c.err
}

// gated checks one tensor or two, and returns the gate and the other half. The prefix is
// that of the names.
func (c *check) gated(x, gate, up *aclnn.Tensor, prefix string) (first, second *aclnn.Tensor) {
	switch {
	case (x == nil) == (gate == nil && up == nil):
		c.fail("give either %[1]sX or %[1]sGate and %[1]sUp", prefix)
	case x != nil && (gate != nil || up != nil):
		c.fail("give either %[1]sX or %[1]sGate and %[1]sUp", prefix)
	case x != nil:
		c.tensor(prefix+"X", x, floats...)
		if c.ok() && (x.Rank() == 0 || x.Dim(-1)%2 != 0) {
			c.fail("%sX is %v; its last dimension must be even: the gate, then the other half", prefix, x)
		}
		if c.ok() {
			return halves(x)
		}
	default:
		c.tensor(prefix+"Gate", gate, floats...)
		c.tensor(prefix+"Up", up, floats...)
		if c.ok() {
			c.sameDType(prefix+"Up", up, prefix+"Gate", gate)
			c.like(prefix+"Up", up, prefix+"Gate", gate)
		}
		return gate, up
	}
	return nil, nil
}

var errSeparate = errors.New("gate and up are two tensors; SwiGlu takes one")

func newSwiGLU(reg *Registry) *Op[SwiGLUArgs] {
	return op(reg, "swiglu", (*SwiGLUArgs).validate,
		func(a *SwiGLUArgs) Signature { return dtypeSignature(a.X, a.Gate) },
		Kernel[SwiGLUArgs]{
			Name: "SwiGlu",
			Supports: func(env *Env, a *SwiGLUArgs) error {
				if a.X == nil {
					return errSeparate
				}
				return errors.Join(trainingChip(env, "SwiGlu"), available(&aclnn.SwiGluParams{}))
			},
			Run: func(_ context.Context, st *acl.Stream, a *SwiGLUArgs) error {
				if a.Out.Len() == 0 {
					return nil
				}
				return compose(st, func(s *steps) {
					out := s.target(a.Out) // the operator takes tensors without gaps only
					launch(s, aclnn.SwiGlu, aclnn.SwiGluParams{X: s.dense(a.X), Dim: -1, Out: out})
					s.finish(a.Out, out)
				})
			},
		},
		Kernel[SwiGLUArgs]{
			Name: "composite", Supports: Always[SwiGLUArgs],
			Run: func(_ context.Context, st *acl.Stream, a *SwiGLUArgs) error {
				if a.Out.Len() == 0 {
					return nil
				}
				gate, up := a.Gate, a.Up
				if a.X != nil {
					gate, up = halves(a.X)
				}
				return compose(st, func(s *steps) {
					y := s.silu(s.float(gate))
					s.times(y, s.float(up))
					s.store(a.Out, y)
				})
			},
		})
}

// silu is x·sigmoid(x) in a new tensor.
func (s *steps) silu(x *aclnn.Tensor) *aclnn.Tensor {
	out := s.tensor(x.DType(), x.Shape()...)
	launch(s, aclnn.Silu, aclnn.SiluParams{Self: x, Out: out})
	return out
}

// SwiGLUGradArgs are the gradients of SwiGLU: the gate gets DOut·up·silu′(gate), up gets
// DOut·silu(gate).
type SwiGLUGradArgs struct {
	DOut       *aclnn.Tensor // [..., width]
	X          *aclnn.Tensor // as given to SwiGLU, nil with Gate and Up
	Gate, Up   *aclnn.Tensor
	DX         *aclnn.Tensor // like X; nil with DGate and DUp
	DGate, DUp *aclnn.Tensor // like Gate
}

func (a *SwiGLUGradArgs) validate() error {
	var c check
	gate, _ := c.gated(a.X, a.Gate, a.Up, "")
	dGate, _ := c.gated(a.DX, a.DGate, a.DUp, "D")
	if !c.ok() {
		return c.err
	}
	if (a.X == nil) != (a.DX == nil) {
		c.fail("the gradients must be given as the inputs are: DX for X, DGate and DUp for Gate and Up")
	}
	c.tensor("DOut", a.DOut, gate.DType())
	c.like("DOut", a.DOut, "the gate", gate)
	c.sameDType("the gradient of the gate", dGate, "the gate", gate)
	c.like("the gradient of the gate", dGate, "the gate", gate)
	return c.err
}

func newSwiGLUGrad(reg *Registry) *Op[SwiGLUGradArgs] {
	return op(reg, "swiglu_grad", (*SwiGLUGradArgs).validate,
		func(a *SwiGLUGradArgs) Signature { return dtypeSignature(a.X, a.Gate) },
		Kernel[SwiGLUGradArgs]{
			Name: "SwiGluGrad",
			Supports: func(env *Env, a *SwiGLUGradArgs) error {
				if a.X == nil {
					return errSeparate
				}
				return errors.Join(trainingChip(env, "SwiGluGrad"), available(&aclnn.SwiGluGradParams{}))
			},
			Run: func(_ context.Context, st *acl.Stream, a *SwiGLUGradArgs) error {
				if a.DOut.Len() == 0 { // which the operator refuses
					return nil
				}
				return compose(st, func(s *steps) {
					dx := s.target(a.DX)
					launch(s, aclnn.SwiGluGrad, aclnn.SwiGluGradParams{YGrad: s.dense(a.DOut), X: s.dense(a.X), Dim: -1, Out: dx})
					s.finish(a.DX, dx)
				})
			},
		},
		Kernel[SwiGLUGradArgs]{
			Name: "composite", Supports: Always[SwiGLUGradArgs],
			Run: func(_ context.Context, st *acl.Stream, a *SwiGLUGradArgs) error {
				if a.DOut.Len() == 0 {
					return nil
				}
				gate, up, dGate, dUp := a.Gate, a.Up, a.DGate, a.DUp
				if a.X != nil {
					gate, up = halves(a.X)
					dGate, dUp = halves(a.DX)
				}
				return compose(st, func(s *steps) {
					x, dOut := s.float(gate), s.float(a.DOut)
					g := s.mul(dOut, s.float(up))
					dx := s.tensor(aclnn.Float32, x.Shape()...)
					launch(s, aclnn.SiluBackward, aclnn.SiluBackwardParams{GradOutput: g, Self: x, GradInput: dx})
					du := s.silu(x)
					s.times(du, dOut)
					s.store(dGate, dx)
					s.store(dUp, du)
				})
			},
		})
}

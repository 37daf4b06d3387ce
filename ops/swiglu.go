package ops

import (
	"context"
	"errors"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/key"
)

// SwiGLUArgs describes a gated activation: Out = silu(gate)·up, with silu(x) = x·sigmoid(x). Gate
// and up are the halves of X, or two tensors. All tensors have one dtype, float32, float16 or
// bfloat16.
type SwiGLUArgs struct {
	X        *aclnn.Tensor // [..., 2·width], gate first; nil when Gate and Up are given
	Gate, Up *aclnn.Tensor // [..., width]; nil when X is given
	Out      *aclnn.Tensor // [..., width]
}

func (a *SwiGLUArgs) validate() error {
	var c args
	gate, _ := c.gated(a.X, a.Gate, a.Up, "")
	if c.OK() {
		c.Same("Out", a.Out, "the gate", gate)
	}
	return c.Err
}

// gated checks one tensor or two, and returns the gate and the other half. The prefix is that of
// the argument names.
func (c *args) gated(x, gate, up *aclnn.Tensor, prefix string) (first, second *aclnn.Tensor) {
	switch {
	case (x == nil) == (gate == nil && up == nil):
		c.Fail("give either %[1]sX or %[1]sGate and %[1]sUp", prefix)
	case x != nil && (gate != nil || up != nil):
		c.Fail("give either %[1]sX or %[1]sGate and %[1]sUp", prefix)
	case x != nil:
		c.Tensor(prefix+"X", x, floats...)
		if c.OK() && (x.Rank() == 0 || x.Dim(-1)%2 != 0) {
			c.Fail("%sX is %v; its last dimension must be even: the gate, then the other half", prefix, x)
		}
		if c.OK() {
			return halves(x)
		}
	default:
		c.Tensor(prefix+"Gate", gate, floats...)
		c.Tensor(prefix+"Up", up, floats...)
		if c.OK() {
			c.sameDType(prefix+"Up", up, prefix+"Gate", gate)
			c.Like(prefix+"Up", up, prefix+"Gate", gate)
		}
		return gate, up
	}
	return nil, nil
}

var errSeparate = errors.New("gate and up are two tensors; SwiGlu takes one")

func (a *SwiGLUArgs) key() key.SwiGLU {
	return key.SwiGLU{
		DType: a.Out.DType(), Width: a.Out.Dim(-1), Rows: key.ExtentOf(rowCount(a.Out)), Joined: a.X != nil,
		Contiguous: contiguous(a.X, a.Gate, a.Up, a.Out),
	}
}

func (a *SwiGLUGradArgs) key() key.SwiGLU {
	return key.SwiGLU{
		DType: a.DOut.DType(), Width: a.DOut.Dim(-1), Rows: key.ExtentOf(rowCount(a.DOut)), Joined: a.X != nil,
		Contiguous: contiguous(a.DOut, a.X, a.Gate, a.Up, a.DX, a.DGate, a.DUp),
	}
}

func newSwiGLU(reg *Registry) *Op[SwiGLUArgs, key.SwiGLU] {
	return op(reg, "swiglu", (*SwiGLUArgs).validate, (*SwiGLUArgs).key,
		Kernel[SwiGLUArgs, key.SwiGLU]{
			Name: "SwiGlu",
			Supports: func(env *Env, k key.SwiGLU) error {
				if !k.Joined {
					return errSeparate
				}
				return env.Has(&aclnn.SwiGluParams{})
			},
			Run: func(_ context.Context, st *acl.Stream, a *SwiGLUArgs) error {
				if a.Out.Len() == 0 {
					return nil
				}
				return compose(st, func(s *steps) {
					out := s.Target(a.Out) // the operator takes contiguous tensors only
					launch(s, aclnn.SwiGlu, aclnn.SwiGluParams{X: s.Contiguous(a.X), Dim: -1, Out: out})
					s.Finish(a.Out, out)
				})
			},
		},
		Kernel[SwiGLUArgs, key.SwiGLU]{
			Name: "composite",
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
					s.Copy(a.Out, y)
				})
			},
		})
}

// silu is x·sigmoid(x) in a new tensor.
func (s *steps) silu(x *aclnn.Tensor) *aclnn.Tensor {
	out := s.Like(x)
	launch(s, aclnn.Silu, aclnn.SiluParams{Self: x, Out: out})
	return out
}

// SwiGLUGradArgs describes the gradients of SwiGLU: the gradient of the gate is
// DOut·up·silu′(gate), that of up is DOut·silu(gate).
type SwiGLUGradArgs struct {
	DOut       *aclnn.Tensor // [..., width]
	X          *aclnn.Tensor // as given to SwiGLU, nil with Gate and Up
	Gate, Up   *aclnn.Tensor
	DX         *aclnn.Tensor // like X; nil with DGate and DUp
	DGate, DUp *aclnn.Tensor // like Gate
}

func (a *SwiGLUGradArgs) validate() error {
	var c args
	gate, _ := c.gated(a.X, a.Gate, a.Up, "")
	dGate, _ := c.gated(a.DX, a.DGate, a.DUp, "D")
	if !c.OK() {
		return c.Err
	}
	if (a.X == nil) != (a.DX == nil) {
		c.Fail("the gradients must be given as the inputs are: DX for X, DGate and DUp for Gate and Up")
	}
	c.Same("DOut", a.DOut, "the gate", gate)
	c.sameDType("the gradient of the gate", dGate, "the gate", gate)
	c.Like("the gradient of the gate", dGate, "the gate", gate)
	return c.Err
}

func newSwiGLUGrad(reg *Registry) *Op[SwiGLUGradArgs, key.SwiGLU] {
	return op(reg, "swiglu_grad", (*SwiGLUGradArgs).validate, (*SwiGLUGradArgs).key,
		Kernel[SwiGLUGradArgs, key.SwiGLU]{
			Name: "SwiGluGrad",
			Supports: func(env *Env, k key.SwiGLU) error {
				if !k.Joined {
					return errSeparate
				}
				return env.Has(&aclnn.SwiGluGradParams{})
			},
			Run: func(_ context.Context, st *acl.Stream, a *SwiGLUGradArgs) error {
				if a.DOut.Len() == 0 { // the operator refuses empty tensors
					return nil
				}
				return compose(st, func(s *steps) {
					dx := s.Target(a.DX)
					launch(s, aclnn.SwiGluGrad, aclnn.SwiGluGradParams{YGrad: s.Contiguous(a.DOut), X: s.Contiguous(a.X), Dim: -1, Out: dx})
					s.Finish(a.DX, dx)
				})
			},
		},
		Kernel[SwiGLUGradArgs, key.SwiGLU]{
			Name: "composite",
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
					dx := s.Tensor(aclnn.Float32, x.Shape()...)
					launch(s, aclnn.SiluBackward, aclnn.SiluBackwardParams{GradOutput: g, Self: x, GradInput: dx})
					du := s.silu(x)
					s.times(du, dOut)
					s.Copy(dGate, dx)
					s.Copy(dUp, du)
				})
			},
		})
}

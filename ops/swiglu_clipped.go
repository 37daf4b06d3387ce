package ops

import (
	"context"
	"errors"
	"math"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/key"
)

// ClippedSwiGLUArgs describes the gated activation of gpt-oss: with g = min(gate, Limit) and u = min(max(up, −Limit), Limit), Out = g·sigmoid(Alpha·g)·(u +
// Offset). All tensors have one dtype, float32, float16 or bfloat16.
type ClippedSwiGLUArgs struct {
	X *aclnn.Tensor // [..., 2·width]: gate, then up
	// Interleaved says that gate and up take turns in X: the gate has the even features.
	Interleaved          bool
	Alpha, Limit, Offset float64       // 1.702, 7 and 1 in gpt-oss; Alpha and Limit must be positive
	Out                  *aclnn.Tensor // [..., width]
}

// ClippedSwiGLUGradArgs describes the gradient of ClippedSwiGLU. That of a clipped element is 0.
type ClippedSwiGLUGradArgs struct {
	ClippedSwiGLUArgs               // of the forward pass; Out is not read and may be nil
	DOut              *aclnn.Tensor // [..., width]
	DX                *aclnn.Tensor // like X
}

func (a *ClippedSwiGLUArgs) validate() error {
	var c args
	a.check(&c, "Out", a.Out)
	return c.Err
}

// check checks X, the numbers, and a tensor like the result.
func (a *ClippedSwiGLUArgs) check(c *args, name string, half *aclnn.Tensor) {
	gate, _ := c.gated(a.X, nil, nil, "")
	switch {
	case !c.OK():
		return
	case !(a.Alpha > 0) || math.IsInf(a.Alpha, 1) || !(a.Limit > 0) || math.IsInf(a.Limit, 1):
		c.Fail("Alpha is %g and Limit %g; both must be positive", a.Alpha, a.Limit)
	case math.IsNaN(a.Offset) || math.IsInf(a.Offset, 0):
		c.Fail("Offset is %g; it must be a number", a.Offset)
	}
	c.Same(name, half, "the gate", gate)
}

func (a *ClippedSwiGLUArgs) key() key.SwiGLU {
	return key.SwiGLU{DType: a.X.DType(), Width: a.X.Dim(-1) / 2, Rows: key.ExtentOf(rowCount(a.X)), Joined: !a.Interleaved, Contiguous: contiguous(a.X, a.Out)}
}

func (a *ClippedSwiGLUGradArgs) validate() error {
	var c args
	if a.check(&c, "DOut", a.DOut); c.OK() {
		c.Same("DX", a.DX, "X", a.X)
	}
	return c.Err
}

func (a *ClippedSwiGLUGradArgs) key() key.SwiGLU {
	k := a.ClippedSwiGLUArgs.key()
	k.Contiguous = contiguous(a.X, a.DOut, a.DX)
	return k
}

// ofContiguous accepts contiguous tensors for an operator.
func ofContiguous(p aclnn.Params) func(*Env, key.SwiGLU) error {
	return func(env *Env, k key.SwiGLU) error {
		if !k.Contiguous {
			return errors.New("it takes contiguous tensors only")
		}
		return env.Has(p)
	}
}

func newClippedSwiGLU(reg *Registry) *Op[ClippedSwiGLUArgs, key.SwiGLU] {
	return op(reg, "clipped_swiglu", (*ClippedSwiGLUArgs).validate, (*ClippedSwiGLUArgs).key,
		Kernel[ClippedSwiGLUArgs, key.SwiGLU]{
			Name: "ClippedSwiglu", Supports: ofContiguous(&aclnn.ClippedSwigluParams{}),
			Run: func(_ context.Context, st *acl.Stream, a *ClippedSwiGLUArgs) error {
				if a.Out.Len() == 0 {
					return nil
				}
				return aclnn.ClippedSwiglu(st, aclnn.ClippedSwigluParams{X: a.X, Dim: -1, Alpha: a.Alpha, Limit: a.Limit, Bias: a.Offset, Interleaved: a.Interleaved, Out: a.Out})
			},
		},
		Kernel[ClippedSwiGLUArgs, key.SwiGLU]{
			Name: "composite",
			Run: func(_ context.Context, st *acl.Stream, a *ClippedSwiGLUArgs) error {
				if a.Out.Len() == 0 {
					return nil
				}
				return compose(st, func(s *steps) {
					p := a.parts(s)
					s.times(p.active, p.up)
					s.Copy(a.Out, p.active)
				})
			},
		})
}

func newClippedSwiGLUGrad(reg *Registry) *Op[ClippedSwiGLUGradArgs, key.SwiGLU] {
	return op(reg, "clipped_swiglu_grad", (*ClippedSwiGLUGradArgs).validate, (*ClippedSwiGLUGradArgs).key,
		Kernel[ClippedSwiGLUGradArgs, key.SwiGLU]{
			Name: "ClippedSwigluGrad", Supports: ofContiguous(&aclnn.ClippedSwigluGradParams{}),
			Run: func(_ context.Context, st *acl.Stream, a *ClippedSwiGLUGradArgs) error {
				if a.X.Len() == 0 {
					return nil
				}
				return aclnn.ClippedSwigluGrad(st, aclnn.ClippedSwigluGradParams{
					GradY: a.DOut, X: a.X, Dim: -1, Alpha: a.Alpha, Limit: a.Limit, Bias: a.Offset, Interleaved: a.Interleaved, GradXOut: a.DX,
				})
			},
		},
		Kernel[ClippedSwiGLUGradArgs, key.SwiGLU]{
			Name: "composite",
			Run: func(_ context.Context, st *acl.Stream, a *ClippedSwiGLUGradArgs) error {
				if a.X.Len() == 0 {
					return nil
				}
				return compose(st, a.run)
			},
		})
}

// views returns gate and up of X, or their gradients in DX.
func (a *ClippedSwiGLUArgs) views(x *aclnn.Tensor) (gate, up *aclnn.Tensor) {
	if !a.Interleaved {
		return halves(x)
	}
	pairs := x.Unflatten(x.Rank()-1, x.Dim(-1)/2, 2)
	return pairs.Select(-1, 0), pairs.Select(-1, 1)
}

// clippedParts are the float32 factors of the result: gate and up as they are, sigmoid(Alpha·g), g·sigmoid(Alpha·g), and u + Offset.
type clippedParts struct{ gate, rawUp, sigmoid, active, up *aclnn.Tensor }

func (a *ClippedSwiGLUArgs) parts(s *steps) (p clippedParts) {
	gate, up := a.views(a.X)
	p.gate, p.rawUp = s.float(gate), s.float(up)
	made := func() *aclnn.Tensor { return s.Tensor(aclnn.Float32, gate.Shape()...) }
	p.active, p.sigmoid, p.up = made(), made(), made()
	launch(s, aclnn.ClampMax, aclnn.ClampMaxParams{Self: p.gate, ClipValueMax: aclnn.Float(a.Limit), Out: p.active})
	launch(s, aclnn.Muls, aclnn.MulsParams{Self: p.active, Other: aclnn.Float(a.Alpha), Out: p.sigmoid})
	launch(s, aclnn.InplaceSigmoid, aclnn.InplaceSigmoidParams{Self: p.sigmoid})
	s.times(p.active, p.sigmoid)
	launch(s, aclnn.Clamp, aclnn.ClampParams{Self: p.rawUp, ClipValueMin: aclnn.Float(-a.Limit), ClipValueMax: aclnn.Float(a.Limit), Out: p.up})
	s.adds(p.up, a.Offset)
	return p
}

// run computes DX: with σ = sigmoid(Alpha·g), d(gate) = DOut·(u + Offset)·(σ + Alpha·g·σ·(1 − σ)) and d(up) = DOut·g·σ.
func (a *ClippedSwiGLUGradArgs) run(s *steps) {
	p := a.parts(s)
	dGate, dUp := a.views(a.DX)
	dOut := s.float(a.DOut)
	du := s.mul(p.active, dOut)
	slope := s.mul(p.active, p.sigmoid) // g·σ², then σ + Alpha·(g·σ − g·σ²)
	s.scale(slope, -1)
	s.add(slope, p.active, 1)
	s.scale(slope, a.Alpha)
	s.add(slope, p.sigmoid, 1)
	s.times(slope, p.up)
	s.times(slope, dOut)
	beyond := func(x *aclnn.Tensor, d *aclnn.Tensor) {
		cells := s.Tensor(aclnn.Bool, x.Shape()...)
		launch(s, aclnn.GtScalar, aclnn.GtScalarParams{Self: x, Other: aclnn.Float(a.Limit), Out: cells})
		s.maskedFill(d, cells, aclnn.Float(0))
	}
	beyond(p.gate, slope)
	size := s.Tensor(aclnn.Float32, p.rawUp.Shape()...)
	launch(s, aclnn.Abs, aclnn.AbsParams{Self: p.rawUp, Out: size})
	beyond(size, du)
	s.Copy(dGate, slope)
	s.Copy(dUp, du)
}

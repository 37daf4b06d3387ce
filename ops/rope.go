package ops

import (
	"context"
	"errors"
	"fmt"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
)

// RoPEArgs rotates the first R of D features of every head by its position (rotary position
// embedding, half-rotation style): with x1, x2 the halves of those R,
// Out = (x1·cos1 − x2·sin1, x2·cos2 + x1·sin2). The other D − R features are copied.
type RoPEArgs struct {
	// X is [B,S,N,D], [B,N,S,D] or any other order of four dimensions that ends in D; Cos and
	// Sin say which by their sizes.
	X *aclnn.Tensor // float32, float16 or bfloat16
	// Cos and Sin are [_,_,_,R] with R even and at most D; the other dimensions are those of X
	// or 1, as [1,S,1,R] for [B,S,N,D]. Their dtype is that of X or float32.
	Cos, Sin *aclnn.Tensor
	Out      *aclnn.Tensor // like X; X itself is not possible
}

func (a *RoPEArgs) validate() error {
	var c check
	c.rope("X", a.X, a.Cos, a.Sin)
	if !c.ok() {
		return c.err
	}
	c.tensor("Out", a.Out, a.X.DType())
	c.like("Out", a.Out, "X", a.X)
	if c.ok() && a.Out.Len() > 0 && a.Out.Address() == a.X.Address() {
		c.fail("Out %v is X; a rotation reads both halves after writing one", a.Out)
	}
	return c.err
}

// rope checks the tensors of a rotation.
func (c *check) rope(name string, x, cos, sin *aclnn.Tensor) {
	c.tensor(name, x, floats...)
	if !c.ok() {
		return
	}
	c.tensor("Cos", cos, x.DType(), aclnn.Float32)
	c.tensor("Sin", sin, x.DType(), aclnn.Float32)
	if !c.ok() {
		return
	}
	c.sameDType("Cos", cos, "Sin", sin)
	c.like("Sin", sin, "Cos", cos)
	r := cos.Dim(-1)
	switch {
	case x.Rank() != 4 || cos.Rank() != 4:
		c.fail("%s is %v and Cos %v; both must have four dimensions", name, x, cos)
	case r < 2 || r%2 != 0 || r > x.Dim(-1):
		c.fail("Cos is %v for %s %v; its last dimension must be even and at most the head dimension", cos, name, x)
	}
	for i := range 3 {
		if c.ok() && cos.Dim(i) != 1 && cos.Dim(i) != x.Dim(i) {
			c.fail("Cos is %v and does not broadcast to %s %v", cos, name, x)
		}
	}
}

// rotateHalf is the mode of aclnnRotaryPositionEmbedding for two contiguous halves.
const rotateHalf = 0

// rotaryLimit is the largest head dimension of aclnnRotaryPositionEmbedding.
const rotaryLimit = 1024

// fusedRotation says whether aclnnRotaryPositionEmbedding takes the tensors.
func fusedRotation(env *Env, x, cos *aclnn.Tensor) error {
	switch {
	case cos.DType() != x.DType():
		return fmt.Errorf("the tables are %v and the features %v; RotaryPositionEmbedding takes one dtype", cos.DType(), x.DType())
	case cos.Dim(-1) > rotaryLimit:
		return fmt.Errorf("more than %d features are rotated", rotaryLimit)
	}
	return errors.Join(trainingChip(env, "RotaryPositionEmbedding"), available(&aclnn.RotaryPositionEmbeddingParams{}))
}

func rotationSignature(x, cos *aclnn.Tensor) Signature {
	s := dtypeSignature(x, cos)
	if cos.Dim(-1) > rotaryLimit {
		s[3] = 1
	}
	return s
}

func newRoPE(reg *Registry) *Op[RoPEArgs] {
	return op(reg, "rope", (*RoPEArgs).validate,
		func(a *RoPEArgs) Signature { return rotationSignature(a.X, a.Cos) },
		Kernel[RoPEArgs]{
			Name:     "RotaryPositionEmbedding",
			Supports: func(env *Env, a *RoPEArgs) error { return fusedRotation(env, a.X, a.Cos) },
			Run: func(_ context.Context, st *acl.Stream, a *RoPEArgs) error {
				return compose(st, func(s *steps) {
					s.rotate(a.X, a.Out, a.Cos.Dim(-1), func(x, out *aclnn.Tensor) {
						launch(s, aclnn.RotaryPositionEmbedding, aclnn.RotaryPositionEmbeddingParams{X: x, Cos: a.Cos, Sin: a.Sin, Mode: rotateHalf, Out: out})
					})
				})
			},
		},
		Kernel[RoPEArgs]{
			Name: "composite", Supports: Always[RoPEArgs],
			Run: func(_ context.Context, st *acl.Stream, a *RoPEArgs) error {
				return compose(st, func(s *steps) {
					cos1, cos2 := halves(s.float(a.Cos))
					sin1, sin2 := halves(s.float(a.Sin))
					s.rotate(a.X, a.Out, a.Cos.Dim(-1), func(x, out *aclnn.Tensor) {
						s.turn(x, out, [4]*aclnn.Tensor{cos1, sin1, cos2, sin2}, -1, 1)
					})
				})
			},
		})
}

// rotate calls rotation on the first r features and copies the others.
func (s *steps) rotate(x, out *aclnn.Tensor, r int64, rotation func(x, out *aclnn.Tensor)) {
	d := x.Dim(-1)
	if x.Len() == 0 {
		return
	}
	if r < d {
		s.store(out.Narrow(-1, r, d-r), x.Narrow(-1, r, d-r))
		x, out = x.Narrow(-1, 0, r), out.Narrow(-1, 0, r)
	}
	rotation(x, out)
}

// turn is out1 = x1·f[0] + sign1·x2·f[1], out2 = x2·f[2] + sign2·x1·f[3] on the halves of x,
// in float32.
func (s *steps) turn(x, out *aclnn.Tensor, f [4]*aclnn.Tensor, sign1, sign2 float64) {
	x1, x2 := halves(s.float(x))
	out1, out2 := halves(out)
	y1, y2 := s.mul(x1, f[0]), s.mul(x2, f[2])
	launch(s, aclnn.InplaceAddcmul, aclnn.InplaceAddcmulParams{SelfRef: y1, Tensor1: x2, Tensor2: f[1], Value: aclnn.Float(sign1)})
	launch(s, aclnn.InplaceAddcmul, aclnn.InplaceAddcmulParams{SelfRef: y2, Tensor1: x1, Tensor2: f[3], Value: aclnn.Float(sign2)})
	s.store(out1, y1)
	s.store(out2, y2)
}

// halves views the two halves of the last dimension.
func halves(t *aclnn.Tensor) (first, second *aclnn.Tensor) {
	h := t.Dim(-1) / 2
	return t.Narrow(-1, 0, h), t.Narrow(-1, h, h)
}

// RoPEGradArgs is the gradient of RoPE with respect to X:
// DX = (dy1·cos1 + dy2·sin2, dy2·cos2 − dy1·sin1), further features copied. Cos and Sin are
// constants; they get no gradient.
type RoPEGradArgs struct {
	DOut     *aclnn.Tensor // like X of RoPE
	Cos, Sin *aclnn.Tensor // as given to RoPE
	DX       *aclnn.Tensor // like DOut; DOut itself is not possible
}

func (a *RoPEGradArgs) validate() error {
	var c check
	c.rope("DOut", a.DOut, a.Cos, a.Sin)
	if !c.ok() {
		return c.err
	}
	c.tensor("DX", a.DX, a.DOut.DType())
	c.like("DX", a.DX, "DOut", a.DOut)
	if c.ok() && a.DX.Len() > 0 && a.DX.Address() == a.DOut.Address() {
		c.fail("DX %v is DOut; a rotation reads both halves after writing one", a.DX)
	}
	return c.err
}

// newRoPEGrad uses that the gradient of a rotation is a rotation back: the forward operator
// with −(sin2, sin1) for (sin1, sin2).
func newRoPEGrad(reg *Registry) *Op[RoPEGradArgs] {
	return op(reg, "rope_grad", (*RoPEGradArgs).validate,
		func(a *RoPEGradArgs) Signature { return rotationSignature(a.DOut, a.Cos) },
		Kernel[RoPEGradArgs]{
			Name:     "RotaryPositionEmbedding",
			Supports: func(env *Env, a *RoPEGradArgs) error { return fusedRotation(env, a.DOut, a.Cos) },
			Run: func(_ context.Context, st *acl.Stream, a *RoPEGradArgs) error {
				return compose(st, func(s *steps) {
					back := s.tensor(a.Sin.DType(), a.Sin.Shape()...)
					sin1, sin2 := halves(a.Sin)
					back1, back2 := halves(back)
					launch(s, aclnn.Neg, aclnn.NegParams{Self: sin2, Out: back1})
					launch(s, aclnn.Neg, aclnn.NegParams{Self: sin1, Out: back2})
					s.rotate(a.DOut, a.DX, a.Cos.Dim(-1), func(dy, dx *aclnn.Tensor) {
						launch(s, aclnn.RotaryPositionEmbedding, aclnn.RotaryPositionEmbeddingParams{X: dy, Cos: a.Cos, Sin: back, Mode: rotateHalf, Out: dx})
					})
				})
			},
		},
		Kernel[RoPEGradArgs]{
			Name: "composite", Supports: Always[RoPEGradArgs],
			Run: func(_ context.Context, st *acl.Stream, a *RoPEGradArgs) error {
				return compose(st, func(s *steps) {
					cos1, cos2 := halves(s.float(a.Cos))
					sin1, sin2 := halves(s.float(a.Sin))
					s.rotate(a.DOut, a.DX, a.Cos.Dim(-1), func(dy, dx *aclnn.Tensor) {
						s.turn(dy, dx, [4]*aclnn.Tensor{cos1, sin2, cos2, sin1}, 1, -1)
					})
				})
			},
		})
}

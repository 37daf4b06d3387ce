package ops

import (
	"context"
	"fmt"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
)

// RoPEArgs describes rotary position embedding in half-rotation style: it rotates the first R of D
// features of every head by its position. With x1, x2 the halves of the R features, Out = (x1·cos1
// − x2·sin1, x2·cos2 + x1·sin2). The other D − R features are copied.
type RoPEArgs struct {
	// X is [B,S,N,D], [B,N,S,D] or any other order of four dimensions that ends in D; the shapes of
	// Cos and Sin determine the order.
	X *aclnn.Tensor // float32, float16 or bfloat16
	// Cos and Sin are [_,_,_,R] with R even and at most D; the other dimensions equal those of X or
	// are 1, such as [1,S,1,R] for [B,S,N,D]. Their dtype is that of X or float32.
	Cos, Sin *aclnn.Tensor
	Out      *aclnn.Tensor // like X; must not be X itself
}

func (a *RoPEArgs) validate() error {
	var c args
	c.rope("X", a.X, a.Cos, a.Sin)
	if !c.OK() {
		return c.Err
	}
	c.Tensor("Out", a.Out, a.X.DType())
	c.Like("Out", a.Out, "X", a.X)
	if c.OK() && a.Out.Len() > 0 && a.Out.Address() == a.X.Address() {
		c.Fail("Out %v is X; a rotation reads both halves after writing one", a.Out)
	}
	return c.Err
}

// rope checks the tensors of a rotation.
func (c *args) rope(name string, x, cos, sin *aclnn.Tensor) {
	c.Tensor(name, x, floats...)
	if !c.OK() {
		return
	}
	c.Tensor("Cos", cos, x.DType(), aclnn.Float32)
	c.Tensor("Sin", sin, x.DType(), aclnn.Float32)
	if !c.OK() {
		return
	}
	c.sameDType("Cos", cos, "Sin", sin)
	c.Like("Sin", sin, "Cos", cos)
	r := cos.Dim(-1)
	switch {
	case x.Rank() != 4 || cos.Rank() != 4:
		c.Fail("%s is %v and Cos %v; both must have four dimensions", name, x, cos)
	case r < 2 || r%2 != 0 || r > x.Dim(-1):
		c.Fail("Cos is %v for %s %v; its last dimension must be even and at most the head dimension", cos, name, x)
	}
	for i := range 3 {
		if c.OK() && cos.Dim(i) != 1 && cos.Dim(i) != x.Dim(i) {
			c.Fail("Cos is %v and does not broadcast to %s %v", cos, name, x)
		}
	}
}

// rotateHalf is the mode of aclnnRotaryPositionEmbedding for two contiguous halves.
const rotateHalf = aclnn.RotaryHalf

// rotaryLimit is the largest head dimension of aclnnRotaryPositionEmbedding.
const rotaryLimit = 1024

// RoPEKey holds the properties by which kernels of RoPE and RoPEGrad are chosen.
type RoPEKey struct {
	X, Cos     aclnn.DType // of the features and of the tables
	Dim        int64       // features of a head
	Rotated    int64       // how many of them are rotated
	Rows       Extent      // the first three dimensions of X together
	Shared     [3]bool     // over which Cos and Sin repeat: {true, false, true} for [1,S,1,R]
	Contiguous bool        // whether all tensors are contiguous
}

func (a *RoPEArgs) key() RoPEKey {
	return ropeKey(a.X, a.Cos, contiguous(a.X, a.Cos, a.Sin, a.Out))
}

func (a *RoPEGradArgs) key() RoPEKey {
	return ropeKey(a.DOut, a.Cos, contiguous(a.DOut, a.Cos, a.Sin, a.DX))
}

func ropeKey(x, cos *aclnn.Tensor, contiguous bool) RoPEKey {
	k := RoPEKey{
		X: x.DType(), Cos: cos.DType(), Dim: x.Dim(-1), Rotated: cos.Dim(-1), Rows: ExtentOf(rowCount(x)), Contiguous: contiguous,
	}
	for i := range k.Shared {
		k.Shared[i] = cos.Dim(i) == 1
	}
	return k
}

// fusedRotation returns why aclnnRotaryPositionEmbedding cannot take the tensors, or nil.
func fusedRotation(env *Env, key RoPEKey) error {
	switch {
	case key.Cos != key.X:
		return fmt.Errorf("the tables are %v and the features %v; RotaryPositionEmbedding takes one dtype", key.Cos, key.X)
	case key.Rotated > rotaryLimit:
		return fmt.Errorf("more than %d features are rotated", rotaryLimit)
	}
	return fused(env, &aclnn.RotaryPositionEmbeddingParams{})
}

func newRoPE(reg *Registry) *Op[RoPEArgs, RoPEKey] {
	return op(reg, "rope", (*RoPEArgs).validate, (*RoPEArgs).key,
		Kernel[RoPEArgs, RoPEKey]{
			Name: "RotaryPositionEmbedding", Supports: fusedRotation,
			Run: func(_ context.Context, st *acl.Stream, a *RoPEArgs) error {
				return compose(st, func(s *steps) {
					s.rotate(a.X, a.Out, a.Cos.Dim(-1), func(x, out *aclnn.Tensor) {
						launch(s, aclnn.RotaryPositionEmbedding, aclnn.RotaryPositionEmbeddingParams{X: x, Cos: a.Cos, Sin: a.Sin, Mode: rotateHalf, Out: out})
					})
				})
			},
		},
		Kernel[RoPEArgs, RoPEKey]{
			Name: "composite",
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

// rotate applies rotation to the first r features and copies the others.
func (s *steps) rotate(x, out *aclnn.Tensor, r int64, rotation func(x, out *aclnn.Tensor)) {
	d := x.Dim(-1)
	if x.Len() == 0 {
		return
	}
	if r < d {
		s.Copy(out.Narrow(-1, r, d-r), x.Narrow(-1, r, d-r))
		x, out = x.Narrow(-1, 0, r), out.Narrow(-1, 0, r)
	}
	rotation(x, out)
}

// turn computes out1 = x1·f[0] + sign1·x2·f[1] and out2 = x2·f[2] + sign2·x1·f[3] on the halves of
// x, in float32.
func (s *steps) turn(x, out *aclnn.Tensor, f [4]*aclnn.Tensor, sign1, sign2 float64) {
	x1, x2 := halves(s.float(x))
	out1, out2 := halves(out)
	y1, y2 := s.mul(x1, f[0]), s.mul(x2, f[2])
	launch(s, aclnn.InplaceAddcmul, aclnn.InplaceAddcmulParams{SelfRef: y1, Tensor1: x2, Tensor2: f[1], Value: aclnn.Float(sign1)})
	launch(s, aclnn.InplaceAddcmul, aclnn.InplaceAddcmulParams{SelfRef: y2, Tensor1: x1, Tensor2: f[3], Value: aclnn.Float(sign2)})
	s.Copy(out1, y1)
	s.Copy(out2, y2)
}

// halves views the two halves of the last dimension.
func halves(t *aclnn.Tensor) (first, second *aclnn.Tensor) {
	h := t.Dim(-1) / 2
	return t.Narrow(-1, 0, h), t.Narrow(-1, h, h)
}

// RoPEGradArgs describes the gradient of RoPE with respect to X: DX = (dy1·cos1 + dy2·sin2,
// dy2·cos2 − dy1·sin1); the other features are copied. Cos and Sin are constants and get no
// gradient.
type RoPEGradArgs struct {
	DOut     *aclnn.Tensor // like X of RoPE
	Cos, Sin *aclnn.Tensor // as given to RoPE
	DX       *aclnn.Tensor // like DOut; must not be DOut itself
}

func (a *RoPEGradArgs) validate() error {
	var c args
	c.rope("DOut", a.DOut, a.Cos, a.Sin)
	if !c.OK() {
		return c.Err
	}
	c.Tensor("DX", a.DX, a.DOut.DType())
	c.Like("DX", a.DX, "DOut", a.DOut)
	if c.OK() && a.DX.Len() > 0 && a.DX.Address() == a.DOut.Address() {
		c.Fail("DX %v is DOut; a rotation reads both halves after writing one", a.DX)
	}
	return c.Err
}

// newRoPEGrad runs the forward operator with −(sin2, sin1) for (sin1, sin2), because the gradient
// of a rotation is the inverse rotation.
func newRoPEGrad(reg *Registry) *Op[RoPEGradArgs, RoPEKey] {
	return op(reg, "rope_grad", (*RoPEGradArgs).validate, (*RoPEGradArgs).key,
		Kernel[RoPEGradArgs, RoPEKey]{
			Name: "RotaryPositionEmbedding", Supports: fusedRotation,
			Run: func(_ context.Context, st *acl.Stream, a *RoPEGradArgs) error {
				return compose(st, func(s *steps) {
					back := s.Like(a.Sin)
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
		Kernel[RoPEGradArgs, RoPEKey]{
			Name: "composite",
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

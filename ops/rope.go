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

// RoPEArgs describes rotary position embedding: it rotates the first R of D
// features of every head by its position. With x1, x2 the halves of the R features, Out = (x1·cos1
// − x2·sin1, x2·cos2 + x1·sin2). The other D − R features are copied.
type RoPEArgs struct {
	// Interleaved takes for x1 and x2, and for those of Cos, Sin and Out, the features with even and with odd numbers, in place of the halves.
	Interleaved bool
	// X is [B,S,N,D], [B,N,S,D] or any other order of four dimensions that ends in D; the shapes of
	// Cos and Sin determine the order.
	X *aclnn.Tensor // float32, float16 or bfloat16
	// Key is rotated by the same angles, which is one launch where CANN has a kernel for queries and
	// keys. It differs from X in the number of heads only; it may be nil.
	Key *aclnn.Tensor
	// Cos and Sin are [_,_,_,R] with R even and at most D; the other dimensions equal those of X or
	// are 1, such as [1,S,1,R] for [B,S,N,D]. Their dtype is that of X or float32.
	Cos, Sin *aclnn.Tensor
	Out      *aclnn.Tensor // like X; must not be X itself
	KeyOut   *aclnn.Tensor // like Key; must not be Key itself
}

// RoPEGradArgs describes the gradient of RoPE with respect to X and Key: DX = (dy1·cos1 + dy2·sin2,
// dy2·cos2 − dy1·sin1); the other features are copied. Cos and Sin are constants and get no
// gradient.
type RoPEGradArgs struct {
	Interleaved bool          // as given to RoPE
	DOut        *aclnn.Tensor // like X of RoPE
	DKeyOut     *aclnn.Tensor // like Key of RoPE, nil without
	Cos, Sin    *aclnn.Tensor // as given to RoPE
	DX          *aclnn.Tensor // like DOut; must not be DOut itself
	DKey        *aclnn.Tensor // like DKeyOut; must not be DKeyOut itself
}

// RoPEFrequencies returns the angles in radians by which one position turns each pair of rotated features: base to the
// power −2i/rotated for the i-th of rotated/2 pairs, as RoFormer (arXiv:2104.09864) and Llama have them. rotated is even.
func RoPEFrequencies(rotated int, base float64) []float32 {
	turn := make([]float32, rotated/2)
	for i := range turn {
		turn[i] = 1 / float32(math.Pow(base, float64(float32(2*i)/float32(rotated))))
	}
	return turn
}

// RoPETables returns the cosines and sines of RoPEArgs for positions 0 to length−1, each [length, R] in row-major order with R twice the
// number of frequencies. The second half of a row repeats the first, and interleaved rows have each number twice in succession, for
// RoPEArgs.Interleaved. scale multiplies both, 1 unless the model scales its attention by them (yarn). The angles are products in
// float32, as PyTorch's models compute them.
func RoPETables(length int, frequencies []float32, scale float32, interleaved bool) (cos, sin []float32) {
	half := len(frequencies)
	cos, sin = make([]float32, 2*length*half), make([]float32, 2*length*half)
	for position := range length {
		row := 2 * position * half
		for i, turn := range frequencies {
			sine, cosine := math.Sincos(float64(float32(position) * turn))
			pair := [2]int{row + i, row + i + half}
			if interleaved {
				pair = [2]int{row + 2*i, row + 2*i + 1}
			}
			for _, at := range pair {
				cos[at], sin[at] = float32(cosine)*scale, float32(sine)*scale
			}
		}
	}
	return cos, sin
}

// rotation is that of one or two tensors by the same angles, or back.
type rotation struct {
	from, to []*aclnn.Tensor
	names    []string // of the arguments: from, to, and again
	cos, sin *aclnn.Tensor
	back     bool

	interleaved bool
}

// parts views the two features of each pair in the last dimension.
func (t rotation) parts(x *aclnn.Tensor) (first, second *aclnn.Tensor) {
	if !t.interleaved {
		return halves(x)
	}
	pairs := x.Unflatten(-1, x.Dim(-1)/2, 2)
	return pairs.Select(-1, 0), pairs.Select(-1, 1)
}

func (a *RoPEArgs) rotation() rotation {
	t := rotation{[]*aclnn.Tensor{a.X}, []*aclnn.Tensor{a.Out}, []string{"X", "Out", "Key", "KeyOut"}, a.Cos, a.Sin, false, a.Interleaved}
	if a.Key != nil || a.KeyOut != nil {
		t.from, t.to = append(t.from, a.Key), append(t.to, a.KeyOut)
	}
	return t
}

func (a *RoPEGradArgs) rotation() rotation {
	t := rotation{[]*aclnn.Tensor{a.DOut}, []*aclnn.Tensor{a.DX}, []string{"DOut", "DX", "DKeyOut", "DKey"}, a.Cos, a.Sin, true, a.Interleaved}
	if a.DKeyOut != nil || a.DKey != nil {
		t.from, t.to = append(t.from, a.DKeyOut), append(t.to, a.DKey)
	}
	return t
}

func (a *RoPEArgs) validate() error     { return a.rotation().validate() }
func (a *RoPEGradArgs) validate() error { return a.rotation().validate() }

func (t rotation) validate() error {
	var c args
	for i, x := range t.from {
		name, out, y := t.names[2*i], t.names[2*i+1], t.to[i]
		c.rope(name, x, t.cos, t.sin)
		if !c.OK() {
			return c.Err
		}
		c.Same(out, y, name, x)
		if c.OK() && y.Len() > 0 && y.Address() == x.Address() {
			c.Fail("%s %v is %s; a rotation reads both halves after writing one", out, y, name)
		}
		c.sameDType(name, x, t.names[0], t.from[0])
		if c.OK() && x.Dim(-1) != t.from[0].Dim(-1) {
			c.Fail("%s is %v and %s %v; their heads must have the same size", name, x, t.names[0], t.from[0])
		}
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

// Limits of CANN's kernels for rotations on Atlas A2 and A3.
const (
	rotaryLimit = 896 // features of a head, of aclnnRotaryPositionEmbedding; fewer than this
	jointDim    = 128 // features of a head, of aclnnApplyRotaryPosEmb
	jointLayout = 1   // [B,S,N,D], its only layout
)

func (a *RoPEArgs) key() key.RoPE     { return a.rotation().key() }
func (a *RoPEGradArgs) key() key.RoPE { return a.rotation().key() }

func (t rotation) key() key.RoPE {
	x := t.from[0]
	k := key.RoPE{
		X: x.DType(), Cos: t.cos.DType(), Dim: x.Dim(-1), Rotated: t.cos.Dim(-1), Rows: key.ExtentOf(rowCount(x)), Interleaved: t.interleaved,
		Contiguous: contiguous(t.cos, t.sin) && contiguous(t.from...) && contiguous(t.to...),
	}
	for i, y := range t.from {
		k.Heads += y.Dim(2)
		k.Pair = i > 0 && y.Dim(0) == x.Dim(0) && y.Dim(1) == x.Dim(1)
	}
	for i := range k.Shared {
		k.Shared[i] = t.cos.Dim(i) == 1
	}
	return k
}

// fusedRotation returns why aclnnRotaryPositionEmbedding cannot take the tensors, or nil.
func fusedRotation(env *Env, k key.RoPE) error {
	switch {
	case k.Cos != k.X:
		return fmt.Errorf("the tables are %v and the features %v; RotaryPositionEmbedding takes one dtype", k.Cos, k.X)
	case k.Rotated >= rotaryLimit:
		return fmt.Errorf("%d or more features are rotated", rotaryLimit)
	}
	return env.Has(&aclnn.RotaryPositionEmbeddingParams{})
}

// sharedRotation returns why aclnnApplyRotaryPosEmb cannot take the tensors, or nil.
func sharedRotation(env *Env, k key.RoPE) error {
	// What it keeps of a token in the Unified Buffer: five copies of the heads, and the tables.
	wide := int64(k.X.Size())
	bytes := 4 * jointDim * wide
	if k.X == aclnn.BFloat16 {
		wide, bytes = 4, bytes+2*jointDim*4
	}
	bytes += 5 * k.Heads * jointDim * wide
	switch {
	case k.Interleaved:
		return errors.New("it rotates halves")
	case !k.Pair:
		return errors.New("it rotates queries and keys [B,S,N,D] together")
	case k.Cos != k.X:
		return fmt.Errorf("the tables are %v and the features %v; ApplyRotaryPosEmb takes one dtype", k.Cos, k.X)
	case k.Dim != jointDim || k.Rotated != jointDim:
		return fmt.Errorf("%d of %d features are rotated; it rotates %d of %[3]d", k.Rotated, k.Dim, jointDim)
	case !k.Shared[2]:
		return errors.New("the angles depend on the third dimension, which it takes for the heads")
	case k.Rows == 0 || k.Heads == 0:
		return errors.New("it takes no empty tensors")
	case bytes > int64(env.UnifiedBuffer):
		return fmt.Errorf("%d heads of a token take %d bytes of %d", k.Heads, bytes, env.UnifiedBuffer)
	}
	return env.Has(&aclnn.ApplyRotaryPosEmbParams{})
}

func newRoPE(reg *Registry) *Op[RoPEArgs, key.RoPE] {
	return op(reg, "rope", (*RoPEArgs).validate, (*RoPEArgs).key, rotations((*RoPEArgs).rotation)...)
}

func newRoPEGrad(reg *Registry) *Op[RoPEGradArgs, key.RoPE] {
	return op(reg, "rope_grad", (*RoPEGradArgs).validate, (*RoPEGradArgs).key, rotations((*RoPEGradArgs).rotation)...)
}

// rotations are the kernels of RoPE and RoPEGrad.
func rotations[A any](of func(*A) rotation) []Kernel[A, key.RoPE] {
	kernel := func(name string, supports func(*Env, key.RoPE) error, queue func(*steps, rotation)) Kernel[A, key.RoPE] {
		return Kernel[A, key.RoPE]{Name: name, Supports: supports, Run: func(_ context.Context, st *acl.Stream, a *A) error {
			return compose(st, func(s *steps) { queue(s, of(a)) })
		}}
	}
	return []Kernel[A, key.RoPE]{
		kernel("RotaryPositionEmbedding", fusedRotation, func(s *steps, t rotation) {
			sin := s.sines(t)
			t.each(s, func(x, out *aclnn.Tensor) { s.rotate(t, x, sin, out) })
		}),
		kernel("ApplyRotaryPosEmb", sharedRotation, func(s *steps, t rotation) {
			angles := []int64{t.from[0].Dim(0), t.from[0].Dim(1), 1, jointDim}
			cos, sin := s.spread(t.cos, angles), s.spread(s.sines(t), angles)
			for i := range t.from { // it works in place
				s.Copy(t.to[i], t.from[i])
			}
			launch(s, aclnn.ApplyRotaryPosEmb, aclnn.ApplyRotaryPosEmbParams{Query: t.to[0], Key: t.to[1], Cos: cos, Sin: sin, Layout: jointLayout})
		}),
		kernel("composite", nil, func(s *steps, t rotation) {
			cos1, cos2 := t.parts(s.float(t.cos))
			sin1, sin2 := t.parts(s.float(t.sin))
			f, sign := [4]*aclnn.Tensor{cos1, sin1, cos2, sin2}, -1.0
			if t.back {
				f, sign = [4]*aclnn.Tensor{cos1, sin2, cos2, sin1}, 1
			}
			t.each(s, func(x, out *aclnn.Tensor) { s.turn(t, x, out, f, sign, -sign) })
		}),
	}
}

// rotate rotates with CANN. Its tiling refuses angles for the third dimension that repeat often
// over the first two, and one row of angles for all of them; it takes the same rotations of fewer
// dimensions.
func (s *steps) rotate(t rotation, x, sin, out *aclnn.Tensor) {
	cos := t.cos
	p := aclnn.RotaryPositionEmbeddingParams{X: x, Cos: cos, Sin: sin, Mode: aclnn.RotaryHalf, Out: out}
	if t.interleaved {
		p.Mode = aclnn.RotaryInterleave
	}
	if cos.Dim(0) != 1 || cos.Dim(1) != 1 || x.Dim(0) == 1 || x.Dim(1) == 1 {
		launch(s, aclnn.RotaryPositionEmbedding, p)
		return
	}
	n, r := cos.Dim(2), cos.Dim(3)
	target := s.Target(out)
	p.X, p.Out = s.Contiguous(x).Reshape(-1, n, 1, r), target.Reshape(-1, n, 1, r)
	p.Cos, p.Sin = s.Contiguous(cos).Reshape(1, n, 1, r), s.Contiguous(sin).Reshape(1, n, 1, r)
	launch(s, aclnn.RotaryPositionEmbedding, p)
	s.Finish(out, target)
}

// sines returns the sines for CANN: those of the inverse rotation are −(sin2, sin1), because the
// gradient of a rotation is the inverse rotation.
func (s *steps) sines(t rotation) *aclnn.Tensor {
	if !t.back {
		return t.sin
	}
	back := s.Like(t.sin)
	sin1, sin2 := t.parts(t.sin)
	back1, back2 := t.parts(back)
	launch(s, aclnn.Neg, aclnn.NegParams{Self: sin2, Out: back1})
	launch(s, aclnn.Neg, aclnn.NegParams{Self: sin1, Out: back2})
	return back
}

// each applies rotation to the features of each tensor that are rotated, and copies the others.
func (t rotation) each(s *steps, rotate func(x, out *aclnn.Tensor)) {
	r := t.cos.Dim(-1)
	for i, x := range t.from {
		out, d := t.to[i], x.Dim(-1)
		if x.Len() == 0 {
			continue
		}
		if r < d {
			s.Copy(out.Narrow(-1, r, d-r), x.Narrow(-1, r, d-r))
			x, out = x.Narrow(-1, 0, r), out.Narrow(-1, 0, r)
		}
		rotate(x, out)
	}
}

// turn computes out1 = x1·f[0] + sign1·x2·f[1] and out2 = x2·f[2] + sign2·x1·f[3] on the parts of
// x, in float32.
func (s *steps) turn(t rotation, x, out *aclnn.Tensor, f [4]*aclnn.Tensor, sign1, sign2 float64) {
	x1, x2 := t.parts(s.float(x))
	out1, out2 := t.parts(out)
	y1, y2 := s.mul(x1, f[0]), s.mul(x2, f[2])
	launch(s, aclnn.InplaceAddcmul, aclnn.InplaceAddcmulParams{Self: y1, Tensor1: x2, Tensor2: f[1], Value: aclnn.Float(sign1)})
	launch(s, aclnn.InplaceAddcmul, aclnn.InplaceAddcmulParams{Self: y2, Tensor1: x1, Tensor2: f[3], Value: aclnn.Float(sign2)})
	s.Copy(out1, y1)
	s.Copy(out2, y2)
}

// halves views the two halves of the last dimension.
func halves(t *aclnn.Tensor) (first, second *aclnn.Tensor) {
	h := t.Dim(-1) / 2
	return t.Narrow(-1, 0, h), t.Narrow(-1, h, h)
}

package ops

import (
	"context"
	"slices"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
)

// CausalConvArgs convolves each channel with its own taps over the tokens so far:
// u[t] = Bias + Σ Weight[W−1−i]·x[t−i], Out = silu(u) or u. The last tap meets the newest
// token. Before its first token a sequence has InitialState, or zeros. X, Weight, Bias and
// Out have one dtype, float32, float16 or bfloat16, and sums are float32.
type CausalConvArgs struct {
	X      *aclnn.Tensor // [B,T,D]
	Weight *aclnn.Tensor // [D,W]; dtype of X or float32
	Bias   *aclnn.Tensor // [D] or nil, dtype of Weight
	SiLU   bool
	// CuSeqLens packs sequences into one row (B is 1): 0, the ends of all but the last, T. Nil
	// when each row is one sequence.
	CuSeqLens []int64

	InitialState *aclnn.Tensor // [N,D,W], the last W inputs of each of N sequences, newest last; nil is zero
	Out          *aclnn.Tensor // [B,T,D]
	FinalState   *aclnn.Tensor // [N,D,W] or nil; may be InitialState. States have the dtype of X
}

// CausalConvGradArgs are the gradients of CausalConv, which are computed from its inputs
// alone: Out and FinalState are not looked at. States get no gradient.
type CausalConvGradArgs struct {
	CausalConvArgs
	DOut *aclnn.Tensor // like X

	DX      *aclnn.Tensor // like X
	DWeight *aclnn.Tensor // [D,W], dtype of Weight or float32
	DBias   *aclnn.Tensor // [D] like DWeight; nil if there is no bias
	// Accumulate adds to what DWeight and DBias have instead of overwriting it.
	Accumulate bool
}

func (a *CausalConvArgs) inputs(c *check) {
	c.tensor("X", a.X, floats...)
	if !c.ok() {
		return
	}
	c.tensor("Weight", a.Weight, a.X.DType(), aclnn.Float32)
	if c.ok() && (a.X.Rank() != 3 || a.Weight.Rank() != 2 || a.Weight.Dim(0) != a.X.Dim(2) || a.Weight.Dim(1) == 0) {
		c.fail("X is %v and Weight %v; they must be [B,T,D] and [D,W]", a.X, a.Weight)
	}
	if c.optional("Bias", a.Bias, dtypeOf(a.Weight)) {
		c.shape("Bias", a.Bias, a.X.Dim(2))
	}
	if c.ok() {
		c.packed(a.CuSeqLens, a.X.Dim(0), a.X.Dim(1))
	}
	a.state(c, "InitialState", a.InitialState)
}

func (a *CausalConvArgs) state(c *check, name string, t *aclnn.Tensor) {
	if c.ok() && c.optional(name, t, a.X.DType()) {
		n := a.X.Dim(0)
		if a.CuSeqLens != nil {
			n = int64(len(a.CuSeqLens)) - 1
		}
		c.shape(name, t, n, a.X.Dim(2), a.Weight.Dim(1))
	}
}

func (a *CausalConvArgs) validate() error {
	var c check
	a.inputs(&c)
	if !c.ok() {
		return c.err
	}
	c.tensor("Out", a.Out, a.X.DType())
	c.like("Out", a.Out, "X", a.X)
	a.state(&c, "FinalState", a.FinalState)
	return c.err
}

func (a *CausalConvGradArgs) validate() error {
	var c check
	a.inputs(&c)
	if !c.ok() {
		return c.err
	}
	c.tensor("DOut", a.DOut, a.X.DType())
	c.like("DOut", a.DOut, "X", a.X)
	c.tensor("DX", a.DX, a.X.DType())
	c.like("DX", a.DX, "X", a.X)
	c.tensor("DWeight", a.DWeight, a.Weight.DType(), aclnn.Float32)
	c.like("DWeight", a.DWeight, "Weight", a.Weight)
	if c.ok() && (a.DBias == nil) != (a.Bias == nil) {
		c.fail("give both Bias and DBias, or neither")
	}
	if c.optional("DBias", a.DBias, dtypeOf(a.DWeight)) {
		c.shape("DBias", a.DBias, a.X.Dim(2))
	}
	return c.err
}

// signature: the kernels look at dtypes and sizes.
func (a *CausalConvArgs) signature() Signature {
	s := dtypeSignature(a.X, a.Weight)
	s[1] = uint64(a.X.Dim(2))<<32 | uint64(a.Weight.Dim(1))
	s[2] = uint64(a.X.Dim(0) * a.X.Dim(1))
	for i, yes := range []bool{a.SiLU, a.Bias != nil, a.CuSeqLens != nil, a.InitialState != nil, a.FinalState != nil} {
		if yes {
			s[3] |= 1 << i
		}
	}
	return s
}

// newCausalConv has the kernel of the custom package for linear attention, and a composite
// of a product and a sum for each tap.
func newCausalConv(reg *Registry) *Op[CausalConvArgs] {
	return op(reg, "causal_conv", (*CausalConvArgs).validate, (*CausalConvArgs).signature,
		Kernel[CausalConvArgs]{Name: "CausalConv1d", Supports: nativeConv, Run: runNativeConv},
		Kernel[CausalConvArgs]{
			Name: "composite", Supports: Always[CausalConvArgs],
			Run: func(_ context.Context, st *acl.Stream, a *CausalConvArgs) error {
				return a.eachSequence(st, func(w *window, s *steps) {
					w.load(s)
					u := w.convolve(s)
					if a.SiLU {
						u = s.silu(u)
					}
					s.store(w.part(a.Out), u)
					w.remember(s)
				})
			},
		})
}

func newCausalConvGrad(reg *Registry) *Op[CausalConvGradArgs] {
	return op(reg, "causal_conv_grad", (*CausalConvGradArgs).validate,
		func(a *CausalConvGradArgs) Signature { return a.CausalConvArgs.signature() },
		Kernel[CausalConvGradArgs]{Name: "CausalConv1dBwd", Supports: nativeConvGrad, Run: runNativeConvGrad},
		Kernel[CausalConvGradArgs]{
			Name: "composite", Supports: Always[CausalConvGradArgs],
			Run: func(_ context.Context, st *acl.Stream, a *CausalConvGradArgs) error {
				return compose(st, func(s *steps) {
					dw, db := s.tensor(aclnn.Float32, a.Weight.Shape()...), s.tensor(aclnn.Float32, a.X.Dim(2))
					if dw.Len() == 0 {
						return
					}
					s.zero(dw)
					s.zero(db)
					if s.err == nil {
						s.err = a.eachSequence(st, func(w *window, s *steps) {
							w.load(s)
							w.backward(s, a, dw, db)
						})
					}
					s.deliver(a.DWeight, dw, a.Accumulate)
					if a.DBias != nil {
						s.deliver(a.DBias, db, a.Accumulate)
					}
				})
			},
		})
}

// window is a batch of sequences of one length with what precedes them.
type window struct {
	*CausalConvArgs
	b, d, taps          int64
	tokens, from, first int64
	weight              *aclnn.Tensor // [D,W], float32
	x                   *aclnn.Tensor // [B,W+T,D], float32: state, then tokens
}

// eachSequence calls f for the rows together, or for one packed sequence after another.
func (a *CausalConvArgs) eachSequence(st *acl.Stream, f func(*window, *steps)) error {
	ends := []int64{0, a.X.Dim(1)}
	if a.CuSeqLens != nil {
		ends = a.CuSeqLens
	}
	w := window{CausalConvArgs: a, b: a.X.Dim(0), d: a.X.Dim(2), taps: a.Weight.Dim(1)}
	if w.b == 0 || w.d == 0 || slices.Max(ends) == 0 && a.FinalState == nil {
		return nil
	}
	for i := range len(ends) - 1 {
		w.first, w.from, w.tokens = int64(i), ends[i], ends[i+1]-ends[i]
		if err := compose(st, func(s *steps) { f(&w, s) }); err != nil {
			return err
		}
	}
	return nil
}

func (w *window) part(t *aclnn.Tensor) *aclnn.Tensor   { return t.Narrow(1, w.from, w.tokens) }
func (w *window) states(t *aclnn.Tensor) *aclnn.Tensor { return t.Narrow(0, w.first, w.b) }

func (w *window) load(s *steps) {
	w.weight = s.float(w.Weight)
	w.x = s.tensor(aclnn.Float32, w.b, w.taps+w.tokens, w.d)
	past := w.x.Narrow(1, 0, w.taps)
	if w.InitialState == nil {
		s.fill(past, aclnn.Float(0))
	} else {
		s.store(past, w.states(w.InitialState).Transpose(1, 2))
	}
	if w.tokens > 0 {
		s.store(w.x.Narrow(1, w.taps, w.tokens), w.part(w.X))
	}
}

// remember stores the last inputs in FinalState, which may be InitialState or nil.
func (w *window) remember(s *steps) {
	if w.FinalState == nil {
		return
	}
	fresh := min(w.tokens, w.taps)
	kept := s.tensor(w.X.DType(), w.b, w.taps, w.d)
	if old := kept.Narrow(1, 0, w.taps-fresh); w.InitialState != nil {
		s.store(old, w.states(w.InitialState).Narrow(2, fresh, w.taps-fresh).Transpose(1, 2))
	} else {
		s.fill(old, aclnn.Float(0))
	}
	s.store(kept.Narrow(1, w.taps-fresh, fresh), w.part(w.X).Narrow(1, w.tokens-fresh, fresh))
	s.store(w.states(w.FinalState), kept.Transpose(1, 2))
}

// seen views the inputs that tap i meets, one for each token.
func (w *window) seen(x *aclnn.Tensor, i int64) *aclnn.Tensor { return x.Narrow(1, i+1, w.tokens) }

// convolve is u, [B,T,D] in float32.
func (w *window) convolve(s *steps) *aclnn.Tensor {
	u := s.tensor(aclnn.Float32, w.b, w.tokens, w.d)
	if w.tokens == 0 {
		return u
	}
	launch(s, aclnn.Mul, aclnn.MulParams{Self: w.seen(w.x, 0), Other: w.weight.Select(1, 0), Out: u})
	for i := int64(1); i < w.taps; i++ {
		s.addProduct(u, w.seen(w.x, i), w.weight.Select(1, i))
	}
	if w.Bias != nil {
		s.add(u, s.float(w.Bias), 1)
	}
	return u
}

// backward stores the sequence's gradient and adds to those of the parameters.
func (w *window) backward(s *steps, a *CausalConvGradArgs, dw, db *aclnn.Tensor) {
	if w.tokens == 0 {
		return
	}
	du := s.float(w.part(a.DOut))
	if a.SiLU {
		dy := du
		du = s.tensor(aclnn.Float32, dy.Shape()...)
		launch(s, aclnn.SiluBackward, aclnn.SiluBackwardParams{GradOutput: dy, Self: w.convolve(s), GradInput: du})
	}
	dx := s.tensor(aclnn.Float32, w.x.Shape()...)
	s.zero(dx)
	for i := range w.taps {
		s.addProduct(w.seen(dx, i), du, w.weight.Select(1, i))
		s.add(dw.Select(1, i), s.sum(s.mul(du, w.seen(w.x, i)), 0, 1).Reshape(-1), 1)
	}
	if a.DBias != nil {
		s.add(db, s.sum(du, 0, 1).Reshape(-1), 1)
	}
	s.store(w.part(a.DX), dx.Narrow(1, w.taps, w.tokens))
}

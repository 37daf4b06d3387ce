package ops

import (
	"context"
	"slices"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/key"
)

// CausalConvArgs describes a causal depthwise convolution: u[t] = Bias + Σ Weight[W−1−i]·x[t−i],
// Out = silu(u) or u. The last tap multiplies the newest token. InitialState, or zeros, precedes
// the first token of a sequence. X, Weight, Bias and Out have one dtype, float32, float16 or
// bfloat16; sums are computed in float32.
type CausalConvArgs struct {
	X      *aclnn.Tensor // [B,T,D]
	Weight *aclnn.Tensor // [D,W]; dtype of X or float32
	Bias   *aclnn.Tensor // [D] or nil, dtype of Weight
	SiLU   bool
	// CuSeqLens are the cumulative lengths of sequences packed into one row (B is 1): 0, the ends
	// of all but the last, T. Nil when each row is one sequence.
	CuSeqLens []int64

	InitialState *aclnn.Tensor // [N,D,W], the last W inputs of each of N sequences, newest last; nil is zero
	Out          *aclnn.Tensor // [B,T,D]
	FinalState   *aclnn.Tensor // [N,D,W] or nil; may be InitialState. States have the dtype of X
}

// CausalConvGradArgs describes the gradients of CausalConv, which are computed from its inputs
// alone: Out and FinalState are not used. States get no gradient.
type CausalConvGradArgs struct {
	CausalConvArgs
	DOut *aclnn.Tensor // like X

	DX      *aclnn.Tensor // like X
	DWeight *aclnn.Tensor // [D,W], dtype of Weight or float32
	DBias   *aclnn.Tensor // [D] like DWeight; nil without a bias
	// Accumulate adds to DWeight and DBias instead of overwriting them.
	Accumulate bool
}

func (a *CausalConvArgs) inputs(c *args) {
	c.Tensor("X", a.X, floats...)
	if !c.OK() {
		return
	}
	c.Tensor("Weight", a.Weight, a.X.DType(), aclnn.Float32)
	if c.OK() && (a.X.Rank() != 3 || a.Weight.Rank() != 2 || a.Weight.Dim(0) != a.X.Dim(2) || a.Weight.Dim(1) == 0) {
		c.Fail("X is %v and Weight %v; they must be [B,T,D] and [D,W]", a.X, a.Weight)
	}
	if c.Optional("Bias", a.Bias, dtypeOf(a.Weight)) {
		c.Shape("Bias", a.Bias, a.X.Dim(2))
	}
	if c.OK() {
		c.packed(a.CuSeqLens, a.X.Dim(0), a.X.Dim(1))
	}
	a.state(c, "InitialState", a.InitialState)
}

func (a *CausalConvArgs) state(c *args, name string, t *aclnn.Tensor) {
	if c.OK() && c.Optional(name, t, a.X.DType()) {
		c.Shape(name, t, a.sequences(), a.X.Dim(2), a.Weight.Dim(1))
	}
}

func (a *CausalConvArgs) validate() error {
	var c args
	a.inputs(&c)
	c.Same("Out", a.Out, "X", a.X)
	a.state(&c, "FinalState", a.FinalState)
	return c.Err
}

func (a *CausalConvGradArgs) validate() error {
	var c args
	a.inputs(&c)
	if !c.OK() {
		return c.Err
	}
	c.Same("DOut", a.DOut, "X", a.X)
	c.Same("DX", a.DX, "X", a.X)
	c.Tensor("DWeight", a.DWeight, a.Weight.DType(), aclnn.Float32)
	c.Like("DWeight", a.DWeight, "Weight", a.Weight)
	if c.OK() && (a.DBias == nil) != (a.Bias == nil) {
		c.Fail("give both Bias and DBias, or neither")
	}
	if c.Optional("DBias", a.DBias, dtypeOf(a.DWeight)) {
		c.Shape("DBias", a.DBias, a.X.Dim(2))
	}
	return c.Err
}

func (a *CausalConvArgs) key() key.CausalConv {
	b, t := a.X.Dim(0), a.X.Dim(1)
	return key.CausalConv{
		X: a.X.DType(), Weight: a.Weight.DType(), Channels: a.X.Dim(2), Taps: a.Weight.Dim(1), Tokens: key.ExtentOf(b * t), Length: key.ExtentOf(t),
		SiLU: a.SiLU, Bias: a.Bias != nil, Packed: a.CuSeqLens != nil, InitialState: a.InitialState != nil, FinalState: a.FinalState != nil,
		Contiguous: contiguous(a.X, a.Weight, a.Bias, a.InitialState, a.Out, a.FinalState),
	}
}

func (a *CausalConvGradArgs) key() key.CausalConvGrad {
	k := key.CausalConvGrad{CausalConv: a.CausalConvArgs.key(), DWeight: a.DWeight.DType(), Accumulate: a.Accumulate}
	k.Contiguous = k.Contiguous && contiguous(a.DOut, a.DX, a.DWeight, a.DBias)
	return k
}

// newCausalConv registers the kernel of the custom package for linear attention, and a composite
// with one product and one sum per tap.
func newCausalConv(reg *Registry) *Op[CausalConvArgs, key.CausalConv] {
	return op(reg, "causal_conv", (*CausalConvArgs).validate, (*CausalConvArgs).key,
		Kernel[CausalConvArgs, key.CausalConv]{Name: "CausalConv1d", Supports: nativeConv, Run: runNativeConv},
		Kernel[CausalConvArgs, key.CausalConv]{
			Name: "composite",
			Run: func(_ context.Context, st *acl.Stream, a *CausalConvArgs) error {
				return a.eachSequence(st, func(w *window, s *steps) {
					w.load(s)
					u := w.convolve(s)
					if a.SiLU {
						u = s.silu(u)
					}
					s.Copy(w.part(a.Out), u)
					w.remember(s)
				})
			},
		})
}

func newCausalConvGrad(reg *Registry) *Op[CausalConvGradArgs, key.CausalConvGrad] {
	return op(reg, "causal_conv_grad", (*CausalConvGradArgs).validate, (*CausalConvGradArgs).key,
		Kernel[CausalConvGradArgs, key.CausalConvGrad]{Name: "CausalConv1dBwd", Supports: nativeConvGrad, Run: runNativeConvGrad},
		Kernel[CausalConvGradArgs, key.CausalConvGrad]{
			Name: "composite",
			Run: func(_ context.Context, st *acl.Stream, a *CausalConvGradArgs) error {
				return compose(st, func(s *steps) {
					dw, db := s.Tensor(aclnn.Float32, a.Weight.Shape()...), s.Tensor(aclnn.Float32, a.X.Dim(2))
					if dw.Len() == 0 {
						return
					}
					s.Zero(dw)
					s.Zero(db)
					s.Do(func() error {
						return a.eachSequence(st, func(w *window, s *steps) {
							w.load(s)
							w.backward(s, a, dw, db)
						})
					})
					s.deliver(a.DWeight, dw, a.Accumulate)
					if a.DBias != nil {
						s.deliver(a.DBias, db, a.Accumulate)
					}
				})
			},
		})
}

// window is a batch of sequences of one length, preceded by their states.
type window struct {
	*CausalConvArgs
	b, d, taps          int64
	tokens, from, first int64
	weight              *aclnn.Tensor // [D,W], float32
	x                   *aclnn.Tensor // [B,W+T,D], float32: state, then tokens
}

// eachSequence calls f once for all rows together, or for each packed sequence.
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
	w.x = s.Tensor(aclnn.Float32, w.b, w.taps+w.tokens, w.d)
	past := w.x.Narrow(1, 0, w.taps)
	if w.InitialState == nil {
		s.Fill(past, aclnn.Float(0))
	} else {
		s.Copy(past, w.states(w.InitialState).Transpose(1, 2))
	}
	if w.tokens > 0 {
		s.Copy(w.x.Narrow(1, w.taps, w.tokens), w.part(w.X))
	}
}

// remember stores the last inputs in FinalState, which may be InitialState or nil.
func (w *window) remember(s *steps) {
	if w.FinalState == nil {
		return
	}
	fresh := min(w.tokens, w.taps)
	kept := s.Tensor(w.X.DType(), w.b, w.taps, w.d)
	if old := kept.Narrow(1, 0, w.taps-fresh); w.InitialState != nil {
		s.Copy(old, w.states(w.InitialState).Narrow(2, fresh, w.taps-fresh).Transpose(1, 2))
	} else {
		s.Fill(old, aclnn.Float(0))
	}
	s.Copy(kept.Narrow(1, w.taps-fresh, fresh), w.part(w.X).Narrow(1, w.tokens-fresh, fresh))
	s.Copy(w.states(w.FinalState), kept.Transpose(1, 2))
}

// seen views the inputs that tap i multiplies, one per token.
func (w *window) seen(x *aclnn.Tensor, i int64) *aclnn.Tensor { return x.Narrow(1, i+1, w.tokens) }

// convolve computes u, [B,T,D] in float32.
func (w *window) convolve(s *steps) *aclnn.Tensor {
	u := s.Tensor(aclnn.Float32, w.b, w.tokens, w.d)
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

// backward stores the sequence's input gradient and adds to the gradients of the parameters.
func (w *window) backward(s *steps, a *CausalConvGradArgs, dw, db *aclnn.Tensor) {
	if w.tokens == 0 {
		return
	}
	du := s.float(w.part(a.DOut))
	if a.SiLU {
		dy := du
		du = s.Tensor(aclnn.Float32, dy.Shape()...)
		launch(s, aclnn.SiluBackward, aclnn.SiluBackwardParams{GradOutput: dy, Self: w.convolve(s), GradInput: du})
	}
	dx := s.Tensor(aclnn.Float32, w.x.Shape()...)
	s.Zero(dx)
	for i := range w.taps {
		s.addProduct(w.seen(dx, i), du, w.weight.Select(1, i))
		s.add(dw.Select(1, i), s.sum(s.mul(du, w.seen(w.x, i)), 0, 1).Reshape(-1), 1)
	}
	if a.DBias != nil {
		s.add(db, s.sum(du, 0, 1).Reshape(-1), 1)
	}
	s.Copy(w.part(a.DX), dx.Narrow(1, w.taps, w.tokens))
}

package ops

import (
	"context"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/key"
)

// GatedDeltaArgs describes the gated delta rule, a linear attention whose state decays and is
// corrected by each token. For every value head, with state S of K rows and V columns:
//
//	S̄ = exp(Decay)·S;  δ = Beta·(v − S̄ᵀk);  S = S̄ + k·δᵀ;  out = Scale·Sᵀq
//
// Value head h reads key head h/(Hv/Hk). Query, Key, Value and Out have one dtype, float32,
// float16 or bfloat16; states are float32.
type GatedDeltaArgs struct {
	Query, Key *aclnn.Tensor // [B,T,Hk,K]
	Value      *aclnn.Tensor // [B,T,Hv,V], Hv a multiple of Hk
	Decay      *aclnn.Tensor // [B,T,Hv], natural logarithm of the decay, ≤ 0; float32
	Beta       *aclnn.Tensor // [B,T,Hv], strength of the write; float32 or dtype of Query
	Scale      float64       // usually 1/√K, which is ScaleOf(K); 0 is refused
	// Normalize divides each query and key by its length, √(Σx² + 1e-6).
	Normalize bool
	// CuSeqLens are the cumulative lengths of sequences packed into one row (B is 1): 0, the ends
	// of all but the last, T. Nil when each row is one sequence.
	CuSeqLens []int64

	InitialState *aclnn.Tensor // [N,Hv,K,V] for N sequences; nil means zero
	Out          *aclnn.Tensor // [B,T,Hv,V]
	FinalState   *aclnn.Tensor // [N,Hv,K,V] or nil; may be InitialState
}

// GatedDeltaGradArgs describes the gradients of GatedDelta, which are computed from its inputs
// alone: Out and FinalState are not used.
type GatedDeltaGradArgs struct {
	GatedDeltaArgs
	DOut        *aclnn.Tensor // like Value
	DFinalState *aclnn.Tensor // [N,Hv,K,V], float32; nil means zero

	DQuery, DKey, DValue *aclnn.Tensor // like Query, Key, Value
	DDecay, DBeta        *aclnn.Tensor // like Decay, Beta
	DInitialState        *aclnn.Tensor // [N,Hv,K,V], float32, or nil
}

// squareEpsilon avoids a division by zero for a zero query or key.
const squareEpsilon = 1e-6

// sequences returns N.
func (a *GatedDeltaArgs) sequences() int64 {
	if a.CuSeqLens != nil {
		return int64(len(a.CuSeqLens)) - 1
	}
	return a.Query.Dim(0)
}

// inputs checks the inputs that GatedDelta and its gradient share.
func (a *GatedDeltaArgs) inputs(c *args) {
	c.Tensor("Query", a.Query, floats...)
	c.Tensor("Key", a.Key, floats...)
	c.Tensor("Value", a.Value, floats...)
	c.Tensor("Decay", a.Decay, aclnn.Float32)
	if !c.OK() {
		return
	}
	c.Tensor("Beta", a.Beta, aclnn.Float32, a.Query.DType())
	c.sameDType("Key", a.Key, "Query", a.Query)
	c.sameDType("Value", a.Value, "Query", a.Query)
	if c.OK() && (a.Query.Rank() != 4 || a.Value.Rank() != 4) {
		c.Fail("Query is %v and Value %v; they must be [B,T,heads,dimension]", a.Query, a.Value)
	}
	c.Like("Key", a.Key, "Query", a.Query)
	if !c.OK() {
		return
	}
	b, t, hk, dk := a.Query.Dim(0), a.Query.Dim(1), a.Query.Dim(2), a.Query.Dim(3)
	hv, dv := a.Value.Dim(2), a.Value.Dim(3)
	if hk == 0 || hv == 0 || dk == 0 || dv == 0 {
		c.Fail("Query is %v and Value %v; heads and their dimensions must be positive", a.Query, a.Value)
	} else if hv%hk != 0 {
		c.Fail("there are %d value heads and %d key heads; the former must be a multiple of the latter", hv, hk)
	}
	c.Shape("Value", a.Value, b, t, hv, dv)
	c.Shape("Decay", a.Decay, b, t, hv)
	c.Shape("Beta", a.Beta, b, t, hv)
	c.packed(a.CuSeqLens, b, t)
	c.scale(a.Scale, dk)
	a.state(c, "InitialState", a.InitialState)
}

// state checks a tensor of states, which may be nil.
func (a *GatedDeltaArgs) state(c *args, name string, t *aclnn.Tensor) {
	if c.Optional(name, t, aclnn.Float32) {
		c.Shape(name, t, a.sequences(), a.Value.Dim(2), a.Query.Dim(3), a.Value.Dim(3))
	}
}

// packed checks the boundaries of packed sequences; nil means that nothing is packed.
func (c *args) packed(cu []int64, rows, tokens int64) {
	if c.Err != nil || cu == nil {
		return
	}
	switch {
	case rows != 1:
		c.Fail("there are CuSeqLens and %d rows; packed sequences share one row", rows)
	case len(cu) < 2 || cu[0] != 0 || cu[len(cu)-1] != tokens:
		c.Fail("CuSeqLens is %v; it must go from 0 to %d, the number of tokens", cu, tokens)
	}
	for i := 1; i < len(cu); i++ {
		if cu[i] <= cu[i-1] {
			c.Fail("CuSeqLens is %v; it must increase, as every sequence has tokens", cu)
		}
	}
}

func (a *GatedDeltaArgs) validate() error {
	var c args
	a.inputs(&c)
	c.Same("Out", a.Out, "Value", a.Value)
	a.state(&c, "FinalState", a.FinalState)
	return c.Err
}

func (a *GatedDeltaGradArgs) validate() error {
	var c args
	a.inputs(&c)
	for _, g := range []struct {
		name, of   string
		grad, like *aclnn.Tensor
	}{
		{"DOut", "Value", a.DOut, a.Value}, {"DQuery", "Query", a.DQuery, a.Query}, {"DKey", "Key", a.DKey, a.Key},
		{"DValue", "Value", a.DValue, a.Value}, {"DDecay", "Decay", a.DDecay, a.Decay}, {"DBeta", "Beta", a.DBeta, a.Beta},
	} {
		c.Same(g.name, g.grad, g.of, g.like)
	}
	a.state(&c, "DFinalState", a.DFinalState)
	a.state(&c, "DInitialState", a.DInitialState)
	return c.Err
}

func (a *GatedDeltaArgs) key() key.GatedDelta {
	b, t := a.Query.Dim(0), a.Query.Dim(1)
	return key.GatedDelta{
		DType: a.Query.DType(), Beta: a.Beta.DType(), KeyHeads: a.Query.Dim(2), ValueHeads: a.Value.Dim(2), KeyDim: a.Query.Dim(3), ValueDim: a.Value.Dim(3),
		Tokens: key.ExtentOf(b * t), Length: key.ExtentOf(t), Packed: a.CuSeqLens != nil, Normalize: a.Normalize,
		InitialState: a.InitialState != nil, FinalState: a.FinalState != nil,
		Contiguous: contiguous(a.Query, a.Key, a.Value, a.Decay, a.Beta, a.InitialState, a.Out, a.FinalState),
	}
}

func (a *GatedDeltaGradArgs) key() key.GatedDeltaGrad {
	k := key.GatedDeltaGrad{GatedDelta: a.GatedDeltaArgs.key(), DFinalState: a.DFinalState != nil, DInitialState: a.DInitialState != nil}
	k.Contiguous = k.Contiguous && contiguous(a.DOut, a.DFinalState, a.DQuery, a.DKey, a.DValue, a.DDecay, a.DBeta, a.DInitialState)
	return k
}

func newGatedDelta(reg *Registry) *Op[GatedDeltaArgs, key.GatedDelta] {
	return op(reg, "gated_delta", (*GatedDeltaArgs).validate, (*GatedDeltaArgs).key,
		Kernel[GatedDeltaArgs, key.GatedDelta]{Name: "RecurrentGatedDeltaRule", Supports: nativeDecode, Run: runNativeDecode},
		Kernel[GatedDeltaArgs, key.GatedDelta]{Name: "ChunkGatedDeltaRule", Supports: nativeDelta, Run: runNativeDelta},
		Kernel[GatedDeltaArgs, key.GatedDelta]{
			Name: "chunk",
			Supports: func(_ *Env, k key.GatedDelta) error {
				if k.Length.Most() == 1 {
					return errSingleToken
				}
				return nil
			},
			Run: func(_ context.Context, st *acl.Stream, a *GatedDeltaArgs) error {
				return a.eachSequence(st, (*deltaSequence).forward)
			},
		},
		Kernel[GatedDeltaArgs, key.GatedDelta]{
			Name: "recurrence",
			Run: func(_ context.Context, st *acl.Stream, a *GatedDeltaArgs) error {
				return a.eachSequence(st, (*deltaSequence).recur)
			},
		})
}

func newGatedDeltaGrad(reg *Registry) *Op[GatedDeltaGradArgs, key.GatedDeltaGrad] {
	return op(reg, "gated_delta_grad", (*GatedDeltaGradArgs).validate, (*GatedDeltaGradArgs).key,
		Kernel[GatedDeltaGradArgs, key.GatedDeltaGrad]{Name: "ChunkGatedDeltaRule", Supports: nativeDeltaGrad, Run: runNativeDeltaGrad},
		Kernel[GatedDeltaGradArgs, key.GatedDeltaGrad]{
			Name: "chunk",
			Run: func(_ context.Context, st *acl.Stream, a *GatedDeltaGradArgs) error {
				return a.eachSequence(st, func(d *deltaSequence, s *steps) { d.backward(s, a) })
			},
		},
		Kernel[GatedDeltaGradArgs, key.GatedDeltaGrad]{
			Name: "recurrence",
			Run: func(_ context.Context, st *acl.Stream, a *GatedDeltaGradArgs) error {
				return a.eachSequence(st, func(d *deltaSequence, s *steps) { d.recurBack(s, a) })
			},
		})
}

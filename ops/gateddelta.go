package ops

import (
	"context"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
)

// GatedDeltaArgs is the gated delta rule, linear attention whose state forgets and corrects
// itself. For every value head, with state S of K rows and V columns:
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
	Scale      float64       // usually 1/√K
	// Normalize divides each query and key by its length, √(Σx² + 1e-6).
	Normalize bool
	// CuSeqLens packs sequences into one row (B is 1): 0, the ends of all but the last, T. Nil
	// when each row is one sequence.
	CuSeqLens []int64

	InitialState *aclnn.Tensor // [N,Hv,K,V], N sequences; nil is zero
	Out          *aclnn.Tensor // [B,T,Hv,V]
	FinalState   *aclnn.Tensor // [N,Hv,K,V] or nil; may be InitialState
}

// GatedDeltaGradArgs are the gradients of GatedDelta, which are computed from its inputs
// alone: Out and FinalState are not looked at.
type GatedDeltaGradArgs struct {
	GatedDeltaArgs
	DOut        *aclnn.Tensor // like Value
	DFinalState *aclnn.Tensor // [N,Hv,K,V], float32; nil is zero

	DQuery, DKey, DValue *aclnn.Tensor // like Query, Key, Value
	DDecay, DBeta        *aclnn.Tensor // like Decay, Beta
	DInitialState        *aclnn.Tensor // [N,Hv,K,V], float32, or nil
}

// squareEpsilon keeps the length of a zero query or key from being zero.
const squareEpsilon = 1e-6

// sequences is N.
func (a *GatedDeltaArgs) sequences() int64 {
	if a.CuSeqLens != nil {
		return int64(len(a.CuSeqLens)) - 1
	}
	return a.Query.Dim(0)
}

// inputs checks what GatedDelta and its gradient share.
func (a *GatedDeltaArgs) inputs(c *check) {
	c.tensor("Query", a.Query, floats...)
	c.tensor("Key", a.Key, floats...)
	c.tensor("Value", a.Value, floats...)
	c.tensor("Decay", a.Decay, aclnn.Float32)
	if !c.ok() {
		return
	}
	c.tensor("Beta", a.Beta, aclnn.Float32, a.Query.DType())
	c.sameDType("Key", a.Key, "Query", a.Query)
	c.sameDType("Value", a.Value, "Query", a.Query)
	if c.ok() && (a.Query.Rank() != 4 || a.Value.Rank() != 4) {
		c.fail("Query is %v and Value %v; they must be [B,T,heads,dimension]", a.Query, a.Value)
	}
	c.like("Key", a.Key, "Query", a.Query)
	if !c.ok() {
		return
	}
	b, t, hk, dk := a.Query.Dim(0), a.Query.Dim(1), a.Query.Dim(2), a.Query.Dim(3)
	hv, dv := a.Value.Dim(2), a.Value.Dim(3)
	if hk == 0 || hv == 0 || dk == 0 || dv == 0 {
		c.fail("Query is %v and Value %v; heads and their dimensions must be positive", a.Query, a.Value)
	} else if hv%hk != 0 {
		c.fail("there are %d value heads and %d key heads; the former must be a multiple of the latter", hv, hk)
	}
	c.shape("Value", a.Value, b, t, hv, dv)
	c.shape("Decay", a.Decay, b, t, hv)
	c.shape("Beta", a.Beta, b, t, hv)
	c.packed(a.CuSeqLens, b, t)
	a.state(c, "InitialState", a.InitialState)
}

// state checks a tensor of states, which may be nil.
func (a *GatedDeltaArgs) state(c *check, name string, t *aclnn.Tensor) {
	if c.optional(name, t, aclnn.Float32) {
		c.shape(name, t, a.sequences(), a.Value.Dim(2), a.Query.Dim(3), a.Value.Dim(3))
	}
}

// packed checks the boundaries of packed sequences; nil says that nothing is packed.
func (c *check) packed(cu []int64, rows, tokens int64) {
	if c.err != nil || cu == nil {
		return
	}
	switch {
	case rows != 1:
		c.fail("there are CuSeqLens and %d rows; packed sequences share one row", rows)
	case len(cu) < 2 || cu[0] != 0 || cu[len(cu)-1] != tokens:
		c.fail("CuSeqLens is %v; it must go from 0 to %d, the number of tokens", cu, tokens)
	}
	for i := 1; i < len(cu); i++ {
		if cu[i] <= cu[i-1] {
			c.fail("CuSeqLens is %v; it must increase, as every sequence has tokens", cu)
		}
	}
}

func (a *GatedDeltaArgs) validate() error {
	var c check
	a.inputs(&c)
	if !c.ok() {
		return c.err
	}
	c.tensor("Out", a.Out, a.Value.DType())
	c.like("Out", a.Out, "Value", a.Value)
	a.state(&c, "FinalState", a.FinalState)
	return c.err
}

func (a *GatedDeltaGradArgs) validate() error {
	var c check
	a.inputs(&c)
	if !c.ok() {
		return c.err
	}
	for _, g := range []struct {
		name, of   string
		grad, like *aclnn.Tensor
	}{
		{"DOut", "Value", a.DOut, a.Value}, {"DQuery", "Query", a.DQuery, a.Query}, {"DKey", "Key", a.DKey, a.Key},
		{"DValue", "Value", a.DValue, a.Value}, {"DDecay", "Decay", a.DDecay, a.Decay}, {"DBeta", "Beta", a.DBeta, a.Beta},
	} {
		c.tensor(g.name, g.grad, g.like.DType())
		c.like(g.name, g.grad, g.of, g.like)
	}
	a.state(&c, "DFinalState", a.DFinalState)
	a.state(&c, "DInitialState", a.DInitialState)
	return c.err
}

func newGatedDelta(reg *Registry) *Op[GatedDeltaArgs] {
	return op(reg, "gated_delta", (*GatedDeltaArgs).validate, (*GatedDeltaArgs).signature,
		Kernel[GatedDeltaArgs]{Name: "RecurrentGatedDeltaRule", Supports: nativeDecode, Run: runNativeDecode},
		Kernel[GatedDeltaArgs]{Name: "ChunkGatedDeltaRule", Supports: nativeDelta, Run: runNativeDelta},
		Kernel[GatedDeltaArgs]{
			Name: "chunk",
			Supports: func(_ *Env, a *GatedDeltaArgs) error {
				if a.Query.Dim(1) == 1 {
					return errSingleToken
				}
				return available(&aclnn.TriangularSolveParams{})
			},
			Run: func(_ context.Context, st *acl.Stream, a *GatedDeltaArgs) error {
				return a.eachSequence(st, (*deltaSequence).forward)
			},
		},
		Kernel[GatedDeltaArgs]{
			Name: "recurrence", Supports: Always[GatedDeltaArgs],
			Run: func(_ context.Context, st *acl.Stream, a *GatedDeltaArgs) error {
				return a.eachSequence(st, (*deltaSequence).recur)
			},
		})
}

func newGatedDeltaGrad(reg *Registry) *Op[GatedDeltaGradArgs] {
	return op(reg, "gated_delta_grad", (*GatedDeltaGradArgs).validate,
		(*GatedDeltaGradArgs).signature,
		Kernel[GatedDeltaGradArgs]{Name: "ChunkGatedDeltaRule", Supports: nativeDeltaGrad, Run: runNativeDeltaGrad},
		Kernel[GatedDeltaGradArgs]{
			Name: "chunk", Supports: has[GatedDeltaGradArgs](&aclnn.TriangularSolveParams{}),
			Run: func(_ context.Context, st *acl.Stream, a *GatedDeltaGradArgs) error {
				return a.eachSequence(st, func(d *deltaSequence, s *steps) { d.backward(s, a) })
			},
		},
		Kernel[GatedDeltaGradArgs]{
			Name: "recurrence", Supports: Always[GatedDeltaGradArgs],
			Run: func(_ context.Context, st *acl.Stream, a *GatedDeltaGradArgs) error {
				return a.eachSequence(st, func(d *deltaSequence, s *steps) { d.recurBack(s, a) })
			},
		})
}

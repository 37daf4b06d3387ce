package ops

import (
	"context"
	"errors"
	"math"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/key"
)

// RingAttentionUpdateArgs describes how the attention of queries to some keys takes in their attention to other keys,
// as ring attention and split key-value caches need it: with (o, m, l) the result of each, the maximum and the
// sum of its softmax rows, m = max(m₁, m₂), l = l₁·e^(m₁−m) + l₂·e^(m₂−m), o = (o₁·l₁·e^(m₁−m) + o₂·l₂·e^(m₂−m))/l.
// All tensors may be views with any strides: those of other layouts are brought into this order by Permute. Rows that see
// no key of either part remain as Attention leaves them.
type RingAttentionUpdateArgs struct {
	Out                    *aclnn.Tensor // [B,N,S,D], float32, o₁ and then o
	SoftmaxMax, SoftmaxSum *aclnn.Tensor // [B,N,S,8], float32, as Attention writes them, in place like Out
	Part                   *aclnn.Tensor // [B,N,S,D], float32, float16 or bfloat16, o₂
	PartMax, PartSum       *aclnn.Tensor // [B,N,S,8], float32
}

func (a *RingAttentionUpdateArgs) validate() error {
	var c args
	c.Tensor("Out", a.Out, aclnn.Float32)
	if c.OK() && a.Out.Rank() != 4 {
		c.Fail("Out is %v; it must be [batch, heads, queries, head dimension]", a.Out)
	}
	c.Tensor("Part", a.Part, floats...)
	if !c.OK() {
		return c.Err
	}
	c.Like("Part", a.Part, "Out", a.Out)
	stats := a.Out.Shape()
	stats[3] = SoftmaxCopies
	for _, t := range []struct {
		name string
		t    *aclnn.Tensor
	}{{"SoftmaxMax", a.SoftmaxMax}, {"SoftmaxSum", a.SoftmaxSum}, {"PartMax", a.PartMax}, {"PartSum", a.PartSum}} {
		c.Tensor(t.name, t.t, aclnn.Float32)
		c.Shape(t.name, t.t, stats...)
	}
	return c.Err
}

func (a *RingAttentionUpdateArgs) key() key.RingAttentionUpdate {
	return key.RingAttentionUpdate{
		DType: a.Part.DType(), Heads: a.Out.Dim(1), Dim: a.Out.Dim(3), Batch: key.ExtentOf(a.Out.Dim(0)), Queries: key.ExtentOf(a.Out.Dim(2)),
		TokenRows: tokenRows(a.Out) && tokenRows(a.Part),
	}
}

// tokenRows reports whether the tensor has the memory of [S,B,N·D], or of such a tensor for each item of the batch.
func tokenRows(t *aclnn.Tensor) bool {
	return bySequence(t) || t.Len() > 0 && bySequence(t.Narrow(0, 0, 1))
}

// bySequence reports whether [B,N,S,D] is [S,B,N·D] in memory.
func bySequence(t *aclnn.Tensor) bool { return t.Permute(2, 0, 1, 3).Contiguous() }

func newRingAttentionUpdate(reg *Registry) *Op[RingAttentionUpdateArgs, key.RingAttentionUpdate] {
	return op(reg, "ring_attention_update", (*RingAttentionUpdateArgs).validate, (*RingAttentionUpdateArgs).key,
		Kernel[RingAttentionUpdateArgs, key.RingAttentionUpdate]{
			Name: "RingAttentionUpdate",
			Supports: func(env *Env, k key.RingAttentionUpdate) error {
				if !k.TokenRows {
					return errors.New("the heads of a token do not lie one after another as in [S,B,N·D]")
				}
				return env.Has(&aclnn.RingAttentionUpdateParams{})
			},
			Run: func(_ context.Context, st *acl.Stream, a *RingAttentionUpdateArgs) error {
				return compose(st, func(s *steps) { a.native(s) })
			},
		},
		Kernel[RingAttentionUpdateArgs, key.RingAttentionUpdate]{
			Name: "composite",
			Run: func(_ context.Context, st *acl.Stream, a *RingAttentionUpdateArgs) error {
				return compose(st, func(s *steps) { a.compose(s) })
			},
		})
}

// native launches the operator once for tensors of its layout [S,B,N·D], and for others once for each item of the batch.
func (a *RingAttentionUpdateArgs) native(s *steps) {
	if a.Out.Len() == 0 {
		return
	}
	part, items := a.Part, a.Out.Dim(0)
	if part.DType() != aclnn.Float32 { // a cast makes another order
		part = s.Tensor(aclnn.Float32, part.Dim(2), part.Dim(0), part.Dim(1), part.Dim(3)).Permute(1, 2, 0, 3)
		s.Copy(part, a.Part)
	}
	if !bySequence(a.Out) || !bySequence(part) {
		items = 1
	}
	for b := int64(0); b < a.Out.Dim(0); b += items {
		rows := func(t *aclnn.Tensor) *aclnn.Tensor {
			return s.Contiguous(t.Narrow(0, b, items).Permute(2, 0, 1, 3)).Reshape(t.Dim(2), items, -1)
		}
		stats := func(t *aclnn.Tensor) *aclnn.Tensor { return s.Contiguous(t.Narrow(0, b, items)) }
		prev, top, sum := rows(a.Out), stats(a.SoftmaxMax), stats(a.SoftmaxSum)
		out, outTop, outSum := s.Like(prev), s.Like(top), s.Like(sum)
		launch(s, aclnn.RingAttentionUpdate, aclnn.RingAttentionUpdateParams{
			PrevAttnOut: prev, PrevSoftmaxMax: top, PrevSoftmaxSum: sum,
			CurAttnOut: rows(part), CurSoftmaxMax: stats(a.PartMax), CurSoftmaxSum: stats(a.PartSum), InputLayout: aclnn.LayoutSBH,
			AttnOut: out, SoftmaxMaxOut: outTop, SoftmaxSumOut: outSum,
		})
		s.bound(outSum)
		s.Copy(a.Out.Narrow(0, b, items).Permute(2, 0, 1, 3), out.Reshape(a.Out.Dim(2), items, a.Out.Dim(1), -1))
		s.Copy(a.SoftmaxMax.Narrow(0, b, items), outTop)
		s.Copy(a.SoftmaxSum.Narrow(0, b, items), outSum)
	}
}

// bound limits the sums to what marks a row without keys: two such sums are infinite together, and infinity times the 0 of
// the next update is no number.
func (s *steps) bound(sum *aclnn.Tensor) {
	launch(s, aclnn.InplaceClampMax, aclnn.InplaceClampMaxParams{Self: sum, ClipValueMax: aclnn.Float(math.MaxFloat32)})
}

func (a *RingAttentionUpdateArgs) compose(s *steps) {
	if a.Out.Len() == 0 {
		return
	}
	top, sum := s.Like(a.SoftmaxMax), s.Like(a.SoftmaxSum)
	launch(s, aclnn.Maximum, aclnn.MaximumParams{Self: a.SoftmaxMax, Other: a.PartMax, Out: top})
	// Each side's sum, from its maximum to the common one.
	scaled := func(most, l *aclnn.Tensor) *aclnn.Tensor {
		w := s.Like(most)
		s.Copy(w, most)
		s.exponentials(w, top)
		s.times(w, l)
		return w
	}
	mine, theirs := scaled(a.SoftmaxMax, a.SoftmaxSum), scaled(a.PartMax, a.PartSum)
	launch(s, aclnn.Add, aclnn.AddParams{Self: mine, Other: theirs, Alpha: aclnn.Float(1), Out: sum})
	s.bound(sum)
	share := func(w *aclnn.Tensor) *aclnn.Tensor {
		launch(s, aclnn.InplaceDiv, aclnn.InplaceDivParams{Self: w, Other: sum})
		return w.Narrow(3, 0, 1)
	}
	s.times(a.Out, share(mine))
	s.add(a.Out, s.mul(s.float(a.Part), share(theirs)), 1)
	s.Copy(a.SoftmaxMax, top)
	s.Copy(a.SoftmaxSum, sum)
}

package decode

import (
	"context"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/mask"
)

// gathered reads the keys and values of each sequence out of the cache, and leaves the rest to the
// attention of package ops.
func (a *AttentionArgs) gathered(ctx context.Context, reg *ops.Registry, s *aclnn.Scope) {
	var c args
	z := a.sizes(&c)
	most, equal := a.longest(z)
	if most == 0 {
		s.Zero(a.Out)
		return
	}
	b := ops.AttentionArgs{Query: a.Query, Key: a.read(s, z, a.Keys, a.KeyScales, most), Layout: a.Layout, Heads: int(z.heads), Scale: a.Scale, Sinks: a.Sinks, Out: a.Out}
	if b.Value = b.Key; a.Values != a.Keys || a.coded() {
		b.Value = a.read(s, z, a.Values, a.ValueScales, most)
	}
	if a.QueryRope != nil {
		a.join(s, z, &b, a.read(s, z, a.KeyRope, nil, most))
	}
	hidden := a.Hidden
	if hidden != nil {
		hidden = hidden.Narrow(3, 0, most)
	}
	if !equal {
		hidden = a.unseen(ctx, s, z, most, hidden)
	}
	switch {
	case hidden != nil:
		b.Mask = mask.Dense{Tensor: hidden, Meaning: mask.Hidden}
	case a.Window > 0:
		b.Mask = mask.Band{Pre: a.Window - 1, Anchor: mask.BottomRight}
	case z.queries > 1:
		b.Mask = mask.Causal{Anchor: mask.BottomRight}
	}
	s.Do(func() error { return reg.Attention().Run(ctx, s.Stream, &b) })
}

// join puts the features besides behind those of queries and keys.
func (a *AttentionArgs) join(s *aclnn.Scope, z sizes, b *ops.AttentionArgs, keyRope *aclnn.Tensor) {
	if s.Err() != nil {
		return
	}
	queryRope := a.QueryRope
	if b.Layout == ops.BSH { // the same memory, with an axis of heads
		b.Layout = ops.BSND
		for t, heads := range map[**aclnn.Tensor]int64{&b.Query: z.heads, &queryRope: z.heads, &b.Out: z.heads, &b.Key: z.keyHeads, &keyRope: z.keyHeads, &b.Value: z.keyHeads} {
			*t = (*t).Unflatten(2, heads, (*t).Dim(2)/heads)
		}
	}
	joined := func(x, y *aclnn.Tensor) *aclnn.Tensor {
		shape := x.Shape()
		first, second := x.Dim(-1), y.Dim(-1)
		shape[len(shape)-1] = first + second
		out := s.Tensor(x.DType(), shape...)
		if s.Err() == nil {
			s.Copy(out.Narrow(-1, 0, first), x)
			s.Copy(out.Narrow(-1, first, second), y)
		}
		return out
	}
	b.Query, b.Key = joined(b.Query, queryRope), joined(b.Key, keyRope)
}

// read returns the first places of each sequence in the layout of the query; it multiplies the codes of a cache of int8 by their scales.
func (a *AttentionArgs) read(s *aclnn.Scope, z sizes, cache, scales *aclnn.Tensor, places int64) *aclnn.Tensor {
	tokens, _ := axes(a.Layout)
	if a.Blocks == nil {
		t := cache.Narrow(tokens, 0, places)
		if scales == nil {
			return t
		}
		return a.scaled(s, z, t, scales.Narrow(2, 0, places))
	}
	columns, dim := (places+z.block-1)/z.block, cache.Dim(-1)
	if !z.headMajor {
		dim /= z.keyHeads
	}
	index := s.Contiguous(a.Blocks.Narrow(1, 0, columns)).Reshape(-1)
	pick := func(rows *aclnn.Tensor) *aclnn.Tensor {
		shape := rows.Shape()
		shape[0] = z.batch * columns
		t := s.Tensor(rows.DType(), shape...)
		aclnn.Launch(s, aclnn.IndexSelect, aclnn.IndexSelectParams{Self: rows, Dim: 0, Index: index, Out: t})
		return t
	}
	t := pick(cache)
	// [batch, columns, tokens of a block, heads, features]
	if z.headMajor {
		t = t.Reshape(z.batch, columns, z.keyHeads, z.block, dim).Transpose(2, 3)
	} else {
		t = t.Reshape(z.batch, columns, z.block, z.keyHeads, dim)
	}
	switch a.Layout {
	case ops.BNSD:
		t = s.Contiguous(t.Permute(0, 3, 1, 2, 4)).Reshape(z.batch, z.keyHeads, columns*z.block, dim)
	case ops.BSND:
		t = s.Contiguous(t).Reshape(z.batch, columns*z.block, z.keyHeads, dim)
	default:
		t = s.Contiguous(t).Reshape(z.batch, columns*z.block, z.keyHeads*dim)
	}
	if t = t.Narrow(tokens, 0, places); scales == nil {
		return t
	}
	factors := s.Contiguous(pick(scales).Reshape(z.batch, columns, z.keyHeads, z.block).Transpose(1, 2)).Reshape(z.batch, z.keyHeads, -1)
	return a.scaled(s, z, t, factors.Narrow(2, 0, places))
}

// scaled returns codes in the layout of the query, times scales [batch, heads, places].
func (a *AttentionArgs) scaled(s *aclnn.Scope, z sizes, codes, scales *aclnn.Tensor) *aclnn.Tensor {
	out := s.Tensor(a.Query.DType(), codes.Shape()...)
	if s.Err() != nil {
		return out
	}
	product := out
	if a.Layout == ops.BSH {
		codes, product = codes.Unflatten(2, z.keyHeads, z.dim), out.Unflatten(2, z.keyHeads, z.dim)
	}
	if a.Layout != ops.BNSD {
		scales = scales.Transpose(1, 2)
	}
	aclnn.Launch(s, aclnn.Mul, aclnn.MulParams{Self: codes, Other: scales.Unsqueeze(3), Out: product})
	return out
}

// unseen hides the places after the tokens that each query sees, and those before its window, [batch, 1, queries, places], besides
// those that are hidden anyway.
func (a *AttentionArgs) unseen(ctx context.Context, s *aclnn.Scope, z sizes, places int64, hidden *aclnn.Tensor) *aclnn.Tensor {
	last := make([]int32, 0, z.batch*z.queries) // the place of the last key that a query sees
	for b := range z.batch {
		n := z.places
		if len(a.Lengths) > 0 {
			n = a.Lengths[min(b, int64(len(a.Lengths)-1))]
		}
		for i := range z.queries {
			if hidden != nil {
				i = z.queries - 1 // the caller says who sees whom
			}
			last = append(last, int32(n-z.queries+i))
		}
	}
	rows := s.Tensor(aclnn.Int32, z.batch, 1, z.queries, 1)
	s.Do(func() error { return aclnn.CopyToDevice(ctx, s.Stream, rows, last) })
	columns, out := s.Tensor(aclnn.Int32, 1, 1, 1, places), s.Tensor(aclnn.Bool, z.batch, 1, z.queries, places)
	aclnn.Launch(s, aclnn.Arange, aclnn.ArangeParams{Start: aclnn.Int(0), End: aclnn.Int(places), Step: aclnn.Int(1), Out: columns.Reshape(-1)})
	aclnn.Launch(s, aclnn.GtTensor, aclnn.GtTensorParams{Self: columns, Other: rows, Out: out})
	if hidden != nil {
		aclnn.Launch(s, aclnn.LogicalOr, aclnn.LogicalOrParams{Self: out, Other: hidden, Out: out})
	}
	if a.Window > 0 {
		aclnn.Launch(s, aclnn.InplaceSubs, aclnn.InplaceSubsParams{Self: rows, Other: aclnn.Int(a.Window), Alpha: aclnn.Int(1)})
		before := s.Tensor(aclnn.Bool, z.batch, 1, z.queries, places)
		aclnn.Launch(s, aclnn.LeTensor, aclnn.LeTensorParams{Self: columns, Other: rows, Out: before})
		aclnn.Launch(s, aclnn.LogicalOr, aclnn.LogicalOrParams{Self: out, Other: before, Out: out})
	}
	return out
}

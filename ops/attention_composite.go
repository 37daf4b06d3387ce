package ops

import (
	"context"
	"errors"
	"math"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/key"
	"github.com/goascend/cann/ops/mask"
)

// composable refuses what batched products and a softmax cannot compute.
func composable(_ *Env, k key.Attention) error {
	switch {
	case k.Dropout:
		return errors.New("dropout with a bit mask is done by FlashAttentionScore only")
	case k.Bias && k.BiasKind > BiasBeforeScale:
		return errors.New("a bias from slopes is made by FlashAttentionScore only")
	}
	return nil
}

// block is an attention problem in a uniform layout: float32 views [B,Nkv,G,S,D], where G query
// heads share a key head. Each packed sequence is a block of its own.
type block struct {
	geometry
	q, k, v  *aclnn.Tensor
	hidden   *aclnn.Tensor // broadcasts to the scores; nil without a mask
	bias     *aclnn.Tensor
	top, sum *aclnn.Tensor // [B,Nkv,G,Sq,8]; nil if not wanted
}

// blocks calls f with each block of the problem, and with functions that view a tensor of query or
// key shape as the block's part of it.
func (a *AttentionArgs) blocks(ctx context.Context, s *steps, p *plan, f func(b *block, queries, keys func(*aclnn.Tensor) *aclnn.Tensor)) {
	g, d := p.geometry, &p.Decision
	var given *aclnn.Tensor
	if d.Source == mask.Given {
		given = s.hidden(d.Dense)
	}
	if a.Layout != TND {
		b := &block{geometry: g, hidden: given, bias: a.Bias}
		if given == nil {
			b.hidden = s.pattern(ctx, d.Pattern(0), g.b, g.sq, g.skv)
		}
		a.block(s, b, func(t *aclnn.Tensor) *aclnn.Tensor { return t }, func(t *aclnn.Tensor) *aclnn.Tensor { return t }, f)
		return
	}
	q0, k0, biased := int64(0), int64(0), int64(0)
	for i := range d.SeqQueries {
		b := &block{geometry: g}
		b.sq, b.skv = d.SeqQueries[i]-q0, d.SeqKeys[i]-k0
		if a.Bias != nil {
			rows := b.sq
			if a.Bias.Len() == g.n*g.skv { // of all sequences
				rows = 1
			}
			b.bias = a.Bias.Narrow(0, biased, g.n*rows*b.skv).Reshape(1, g.n, rows, b.skv)
			biased += g.n * rows * b.skv
		}
		from, fromKeys := q0, k0
		q0, k0 = d.SeqQueries[i], d.SeqKeys[i]
		if given != nil {
			b.hidden = given.Narrow(0, 0, b.sq).Narrow(1, 0, b.skv)
		} else if b.sq > 0 && b.skv > 0 {
			b.hidden = s.pattern(ctx, d.Pattern(i), 1, b.sq, b.skv)
		}
		a.block(s, b, func(t *aclnn.Tensor) *aclnn.Tensor { return t.Narrow(0, from, b.sq) },
			func(t *aclnn.Tensor) *aclnn.Tensor { return t.Narrow(0, fromKeys, b.skv) }, f)
	}
}

// block sets the views of a block, given functions for its parts of the tensors, and calls f.
func (a *AttentionArgs) block(s *steps, b *block, queries, keys func(*aclnn.Tensor) *aclnn.Tensor, f func(b *block, queries, keys func(*aclnn.Tensor) *aclnn.Tensor)) {
	ofQueries := func(t *aclnn.Tensor) *aclnn.Tensor { return b.split(a.Layout, queries(t), b.n/b.nkv) }
	ofKeys := func(t *aclnn.Tensor) *aclnn.Tensor { return b.split(a.Layout, keys(t), 1) }
	b.q = s.float(ofQueries(s.Contiguous(a.Query)))
	b.k, b.v = s.float(ofKeys(s.Contiguous(a.Key))), s.float(ofKeys(s.Contiguous(a.Value)))
	stat := func(t *aclnn.Tensor) *aclnn.Tensor {
		if t == nil {
			return nil
		}
		// In TND the rows of a sequence are ordered by head.
		return queries(t).Reshape(b.b, b.nkv, b.n/b.nkv, b.sq, SoftmaxCopies)
	}
	b.top, b.sum = stat(a.SoftmaxMax), stat(a.SoftmaxSum)
	if b.hidden != nil && b.hidden.Rank() == 4 {
		b.hidden = b.perHead(s, b.hidden)
	}
	if b.bias != nil && b.bias.Len() > 0 {
		b.bias = s.float(b.perHead(s, b.bias))
	}
	f(b, ofQueries, ofKeys)
}

// split views a contiguous tensor as [B,Nkv,G,S,D].
func (b *block) split(l Layout, t *aclnn.Tensor, group int64) *aclnn.Tensor {
	heads := b.nkv * group
	switch l {
	case BNSD:
		return t.Reshape(b.b, b.nkv, group, t.Dim(2), t.Dim(3))
	case SBH:
		return t.Reshape(t.Dim(0), b.b, b.nkv, group, t.Dim(2)/heads).Permute(1, 2, 3, 0, 4)
	case BSH:
		return t.Reshape(b.b, t.Dim(1), b.nkv, group, t.Dim(2)/heads).Permute(0, 2, 3, 1, 4)
	case TND:
		return t.Reshape(1, t.Dim(0), b.nkv, group, t.Dim(2)).Permute(0, 2, 3, 1, 4)
	}
	return t.Reshape(b.b, t.Dim(1), b.nkv, group, t.Dim(3)).Permute(0, 2, 3, 1, 4)
}

// perHead views [B or 1, N or 1, Sq or 1, Skv] so that it broadcasts to the scores.
func (b *block) perHead(s *steps, t *aclnn.Tensor) *aclnn.Tensor {
	if t.Dim(1) == 1 {
		return t.Unsqueeze(1)
	}
	return s.Contiguous(t).Reshape(t.Dim(0), b.nkv, b.n/b.nkv, t.Dim(2), t.Dim(3))
}

// masked is the value that the device gives to hidden scores.
var masked = aclnn.Float(-math.MaxFloat32)

// scores computes Scale·Q·Kᵀ with bias and mask, [B,Nkv,G,Sq,Skv].
func (a *AttentionArgs) scores(s *steps, b *block) *aclnn.Tensor {
	scores := s.matmul(b.q, b.k.Transpose(-2, -1), b.b, b.nkv, b.n/b.nkv, b.sq, b.skv)
	if b.bias != nil && a.BiasKind == BiasBeforeScale {
		s.add(scores, b.bias, 1)
	}
	s.scale(scores, a.Scale)
	if b.bias != nil && a.BiasKind == BiasAfterScale {
		s.add(scores, b.bias, 1)
	}
	if b.hidden != nil {
		s.maskedFill(scores, b.hidden, masked)
	}
	return scores
}

func (s *steps) maskedFill(t, where *aclnn.Tensor, v aclnn.Scalar) {
	if where.DType() != aclnn.Bool {
		cells := s.Tensor(aclnn.Bool, where.Shape()...)
		launch(s, aclnn.NeScalar, aclnn.NeScalarParams{Self: where, Other: aclnn.Int(0), Out: cells})
		where = cells
	}
	launch(s, aclnn.InplaceMaskedFillScalar, aclnn.InplaceMaskedFillScalarParams{Self: t, Mask: where, Value: v})
}

// exponentials replaces scores by exp(score − top) in place.
func (s *steps) exponentials(scores, top *aclnn.Tensor) {
	s.add(scores, top, -1)
	launch(s, aclnn.Exp, aclnn.ExpParams{Self: scores, Out: scores})
}

// compose computes attention from batched products, with whole score matrices in memory.
// Rows that see no key become zero.
func (a *AttentionArgs) compose(ctx context.Context, st *acl.Stream, p *plan) error {
	return compose(st, func(s *steps) {
		if a.Out.Len() == 0 {
			return
		}
		out := s.Target(a.Out)
		a.blocks(ctx, s, p, func(b *block, queries, _ func(*aclnn.Tensor) *aclnn.Tensor) {
			if b.sq == 0 {
				return
			}
			if b.skv == 0 { // there is nothing to attend to
				for _, t := range []*aclnn.Tensor{queries(out), b.top, b.sum} {
					if t != nil {
						s.Zero(t)
					}
				}
				return
			}
			scores := a.scores(s, b)
			top := s.Tensor(aclnn.Float32, reduced(scores, -1)...)
			launch(s, aclnn.Amax, aclnn.AmaxParams{Self: scores, Dim: []int64{-1}, KeepDim: true, Out: top})
			s.exponentials(scores, top)
			if b.hidden != nil {
				s.maskedFill(scores, b.hidden, aclnn.Float(0))
			}
			sum := s.sum(scores, -1)
			if b.hidden != nil {
				// The device marks a row without keys in this way; it makes the row zero here and
				// in the gradient.
				empty := s.Tensor(aclnn.Bool, sum.Shape()...)
				launch(s, aclnn.EqScalar, aclnn.EqScalarParams{Self: sum, Other: aclnn.Float(0), Out: empty})
				s.maskedFill(sum, empty, aclnn.Float(math.MaxFloat32))
			}
			y := s.matmul(scores, b.v, b.b, b.nkv, b.n/b.nkv, b.sq, b.dv)
			launch(s, aclnn.InplaceDiv, aclnn.InplaceDivParams{Self: y, Other: sum})
			s.Copy(queries(out), y)
			if b.top != nil {
				s.Copy(b.top, top)
			}
			if b.sum != nil {
				s.Copy(b.sum, sum)
			}
		})
		s.Finish(a.Out, out)
	})
}

// compose computes the gradients from batched products: with P the probabilities and
// δ = Σ DOut·Out, dS = P·(DOut·Vᵀ − δ).
func (a *AttentionGradArgs) compose(ctx context.Context, st *acl.Stream, p *plan) error {
	return compose(st, func(s *steps) {
		dQuery, dKey, dValue := s.Target(a.DQuery), s.Target(a.DKey), s.Target(a.DValue)
		out, dOut := s.Contiguous(a.Out), s.Contiguous(a.DOut)
		a.blocks(ctx, s, p, func(b *block, queries, keys func(*aclnn.Tensor) *aclnn.Tensor) {
			if b.sq == 0 || b.skv == 0 {
				if b.sq > 0 {
					s.Zero(queries(dQuery))
				}
				if b.skv > 0 {
					s.Zero(keys(dKey))
					s.Zero(keys(dValue))
				}
				return
			}
			group := b.n / b.nkv
			probs := a.scores(s, b)
			s.exponentials(probs, b.top.Narrow(-1, 0, 1))
			launch(s, aclnn.InplaceDiv, aclnn.InplaceDivParams{Self: probs, Other: b.sum.Narrow(-1, 0, 1)})
			dy := s.float(queries(dOut))
			delta := s.sum(s.mul(dy, s.float(queries(out))), -1)
			// The query heads of a group share the key head, whose gradients add up.
			s.Copy(keys(dValue), s.sum(s.matmul(probs.Transpose(-2, -1), dy, b.b, b.nkv, group, b.skv, b.dv), 2))
			ds := s.matmul(dy, b.v.Transpose(-2, -1), b.b, b.nkv, group, b.sq, b.skv)
			s.add(ds, delta, -1)
			s.times(ds, probs)
			s.scale(ds, a.Scale)
			s.Copy(queries(dQuery), s.matmul(ds, b.k, b.b, b.nkv, group, b.sq, b.d))
			s.Copy(keys(dKey), s.sum(s.matmul(ds.Transpose(-2, -1), b.q, b.b, b.nkv, group, b.skv, b.d), 2))
		})
		s.Finish(a.DQuery, dQuery)
		s.Finish(a.DKey, dKey)
		s.Finish(a.DValue, dValue)
	})
}

package ops

import (
	"context"
	"fmt"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/hccl"
	"github.com/goascend/cann/ops/mask"
)

// ContextParallel splits sequences over the ranks of a communicator. Each rank computes
// attention for its own queries; keys and values are gathered from all ranks, and their
// gradients summed and scattered. Everything else in a layer sees single tokens and needs
// nothing. The whole keys and values of one layer must fit into memory.
type ContextParallel struct {
	reg   *Registry
	comm  Communicator
	split mask.Split
}

// NewContextParallel makes attention of a rank. comm may be nil for a group of one. split says
// which positions a rank has; see mask.Split.Chunks and mask.Gather for the tokens.
func NewContextParallel(reg *Registry, comm Communicator, split mask.Split) *ContextParallel {
	if comm != nil && comm.Size() == 1 {
		comm = nil
	}
	return &ContextParallel{reg: reg, comm: comm, split: split}
}

// Attention is Attention with Query, Key, Value, Out and the softmax tensors of this rank's
// positions, in any layout but TND; Mask is that of the whole sequence. There are as many
// queries as keys, and no bias and no dropout.
func (p *ContextParallel) Attention(ctx context.Context, st *acl.Stream, a *AttentionArgs) error {
	if p.comm == nil {
		return p.reg.Attention.Run(ctx, st, a)
	}
	c, err := p.cut(a)
	if err != nil {
		return fmt.Errorf("context-parallel attention: %w", err)
	}
	return compose(st, func(s *steps) {
		key, value := c.gather(s, a.Key), c.gather(s, a.Value)
		c.each(s, key, value, func(part mask.Part, rows func(*aclnn.Tensor) *aclnn.Tensor, b *AttentionArgs) {
			out := rows(a.Out)
			if part.Keys.Len() == 0 {
				s.fill(out, aclnn.Float(0))
				return
			}
			b.Out = s.target(out)
			for _, stat := range []struct{ whole, part **aclnn.Tensor }{{&a.SoftmaxMax, &b.SoftmaxMax}, {&a.SoftmaxSum, &b.SoftmaxSum}} {
				if *stat.whole != nil {
					*stat.part = s.tensor(aclnn.Float32, c.stats(part)...)
				}
			}
			run(ctx, s, p.reg.Attention, b)
			s.finish(out, b.Out)
			if a.SoftmaxMax != nil {
				s.store(c.statRows(a.SoftmaxMax, part), b.SoftmaxMax)
			}
			if a.SoftmaxSum != nil {
				s.store(c.statRows(a.SoftmaxSum, part), b.SoftmaxSum)
			}
		})
	})
}

// AttentionGrad are the gradients of Attention, of this rank's positions too. Those of keys
// and values are summed over the ranks in float32.
func (p *ContextParallel) AttentionGrad(ctx context.Context, st *acl.Stream, a *AttentionGradArgs) error {
	if p.comm == nil {
		return p.reg.AttentionGrad.Run(ctx, st, a)
	}
	c, err := p.cut(&a.AttentionArgs)
	if err == nil {
		local := *a
		local.Mask = nil // of the whole sequence; cut has judged it
		err = local.validate()
	}
	if err != nil {
		return fmt.Errorf("context-parallel attention gradient: %w", err)
	}
	return compose(st, func(s *steps) {
		key, value := c.gather(s, a.Key), c.gather(s, a.Value)
		dKey, dValue := s.tensor(aclnn.Float32, key.Shape()...), s.tensor(aclnn.Float32, value.Shape()...)
		s.zero(dKey)
		s.zero(dValue)
		c.each(s, key, value, func(part mask.Part, rows func(*aclnn.Tensor) *aclnn.Tensor, b *AttentionArgs) {
			dQuery := rows(a.DQuery)
			if part.Keys.Len() == 0 {
				s.fill(dQuery, aclnn.Float(0))
				return
			}
			b.Out = s.dense(rows(a.Out))
			b.SoftmaxMax, b.SoftmaxSum = s.dense(c.statRows(a.SoftmaxMax, part)), s.dense(c.statRows(a.SoftmaxSum, part))
			g := &AttentionGradArgs{
				AttentionArgs: *b, DOut: s.dense(rows(a.DOut)), DQuery: s.target(dQuery),
				DKey: s.tensor(b.Key.DType(), b.Key.Shape()...), DValue: s.tensor(b.Value.DType(), b.Value.Shape()...),
			}
			run(ctx, s, p.reg.AttentionGrad, g)
			s.finish(dQuery, g.DQuery)
			s.add(c.keys(dKey, part), s.float(g.DKey), 1)
			s.add(c.keys(dValue, part), s.float(g.DValue), 1)
		})
		c.scatter(s, dKey, a.DKey)
		c.scatter(s, dValue, a.DValue)
	})
}

// contextCut is an attention problem cut into this rank's parts.
type contextCut struct {
	p      *ContextParallel
	a      *AttentionArgs
	g      geometry
	axis   int            // of the sequence
	chunks [][]mask.Range // by rank
	parts  []mask.Part
	at     map[mask.Range]int64 // of a part's queries: where this rank has them
}

// cut checks the arguments and divides the sequence.
func (p *ContextParallel) cut(a *AttentionArgs) (contextCut, error) {
	if a.Layout == TND {
		return contextCut{}, invalid("layout TND packs sequences, which are not split; use another layout, or keep each sequence on one rank")
	}
	local := *a
	local.Mask = nil
	if err := local.validate(); err != nil {
		return contextCut{}, err
	}
	var c check
	k := contextCut{p: p, a: a, g: local.geometry(&c), axis: places[a.Layout].seq, at: map[mask.Range]int64{}}
	switch {
	case a.Bias != nil || a.DropMask != nil:
		c.fail("Bias is %v and DropMask %v; neither can be cut by positions", a.Bias, a.DropMask)
	case k.g.sq != k.g.skv:
		c.fail("Query is %v and Key %v; each rank must have as many queries as keys", a.Query, a.Key)
	}
	if !c.ok() {
		return k, c.err
	}
	ranks := p.comm.Size()
	length := k.g.sq * int64(ranks)
	for rank := range ranks {
		chunks, err := p.split.Chunks(length, rank, ranks)
		if err != nil {
			return k, fmt.Errorf("%w: %w", ErrInvalid, err)
		}
		k.chunks = append(k.chunks, chunks)
	}
	mine := k.chunks[p.comm.Rank()]
	parts, err := mask.Parts(a.Mask, mask.Shape{Layout: a.Layout, Batch: k.g.b, Heads: k.g.n, Queries: length, Keys: length}, mine)
	if err != nil {
		return k, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	k.parts = parts
	at := int64(0)
	for _, r := range mine {
		k.at[r] = at
		at += r.Len()
	}
	return k, nil
}

// each calls attend for every part of this rank, with a view of a tensor's rows of the part
// and arguments that have its query, keys, values and mask.
func (k *contextCut) each(s *steps, key, value *aclnn.Tensor, attend func(part mask.Part, rows func(*aclnn.Tensor) *aclnn.Tensor, b *AttentionArgs)) {
	for _, part := range k.parts {
		rows := func(t *aclnn.Tensor) *aclnn.Tensor {
			return t.Narrow(k.axis, k.at[part.Queries], part.Queries.Len())
		}
		attend(part, rows, &AttentionArgs{
			Query: s.dense(rows(k.a.Query)), Key: s.dense(k.keys(key, part)), Value: s.dense(k.keys(value, part)),
			Layout: k.a.Layout, Heads: k.a.Heads, Mask: part.Mask, Scale: k.a.Scale,
		})
	}
}

// keys is the part of a gathered tensor that a part attends to.
func (k *contextCut) keys(t *aclnn.Tensor, part mask.Part) *aclnn.Tensor {
	return t.Narrow(k.axis, part.Keys.From, part.Keys.Len())
}

// stats is the shape of a part's softmax tensors, statRows its rows in this rank's.
func (k *contextCut) stats(part mask.Part) []int64 {
	return []int64{k.g.b, k.g.n, part.Queries.Len(), statLanes}
}

func (k *contextCut) statRows(t *aclnn.Tensor, part mask.Part) *aclnn.Tensor {
	return t.Narrow(2, k.at[part.Queries], part.Queries.Len())
}

// byRank is a tensor with the local parts of all ranks one after another.
func (k *contextCut) byRank(s *steps, dt aclnn.DType, local *aclnn.Tensor) *aclnn.Tensor {
	return s.tensor(dt, append([]int64{int64(len(k.chunks))}, local.Shape()...)...)
}

// eachChunk pairs a chunk of a rank in byRank with its place in the whole sequence.
func (k *contextCut) eachChunk(ranks, whole *aclnn.Tensor, copy func(inRank, inWhole *aclnn.Tensor)) {
	for rank, chunks := range k.chunks {
		at := int64(0)
		for _, c := range chunks {
			copy(ranks.Select(0, int64(rank)).Narrow(k.axis, at, c.Len()), whole.Narrow(k.axis, c.From, c.Len()))
			at += c.Len()
		}
	}
}

// gather joins the local parts of all ranks in the order of the sequence.
func (k *contextCut) gather(s *steps, local *aclnn.Tensor) *aclnn.Tensor {
	ranks := k.byRank(s, local.DType(), local)
	send := s.dense(local)
	if s.err == nil {
		s.err = k.p.comm.AllGather(s.st, send, ranks)
	}
	shape := local.Shape()
	shape[k.axis] *= int64(len(k.chunks))
	whole := s.tensor(local.DType(), shape...)
	k.eachChunk(ranks, whole, func(inRank, inWhole *aclnn.Tensor) { s.store(inWhole, inRank) })
	return whole
}

// scatter sums float32 gradients over the ranks and leaves each its positions.
func (k *contextCut) scatter(s *steps, whole, local *aclnn.Tensor) {
	ranks := k.byRank(s, aclnn.Float32, local)
	k.eachChunk(ranks, whole, func(inRank, inWhole *aclnn.Tensor) { s.store(inRank, inWhole) })
	sum := s.tensor(aclnn.Float32, local.Shape()...)
	if s.err == nil {
		s.err = k.p.comm.ReduceScatter(s.st, ranks, sum, hccl.Sum)
	}
	s.store(local, sum)
}

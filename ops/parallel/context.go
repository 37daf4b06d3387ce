package parallel

import (
	"context"
	"fmt"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/hccl"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/internal/check"
	"github.com/goascend/cann/ops/mask"
)

// ContextParallel implements context parallelism: it splits sequences over the ranks of a communicator.
// Each rank computes attention for its own queries; keys and values are gathered from all ranks,
// and their gradients are summed and scattered. Other layers work on single tokens and need no
// exchange. The gathered keys and values of one layer must fit into memory.
type ContextParallel struct {
	reg   *ops.Registry
	comm  Communicator
	split mask.Split
}

// NewContextParallel makes the context-parallel attention of one rank. comm may be nil for a group of one.
// split says which positions each rank holds; mask.Split.Chunks and mask.Gather select the tokens.
func NewContextParallel(reg *ops.Registry, comm Communicator, split mask.Split) *ContextParallel {
	if comm != nil && comm.Size() == 1 {
		comm = nil
	}
	return &ContextParallel{reg: reg, comm: comm, split: split}
}

// Attention runs attention on this rank's positions: Query, Key, Value, Out and the softmax tensors
// hold only these, while Mask describes the whole sequence. In layout ops.TND that is all packed
// sequences together, which may be cut anywhere. There must be as many queries as keys; bias and
// dropout are refused.
func (p *ContextParallel) Attention(ctx context.Context, st *acl.Stream, a *ops.AttentionArgs) error {
	if err := given("context-parallel attention", p, st, a); err != nil {
		return err
	}
	if p.comm == nil {
		return p.reg.Attention().Run(ctx, st, a)
	}
	c, err := p.cut(a)
	if err != nil {
		return fmt.Errorf("context-parallel attention: %w", err)
	}
	return aclnn.Compose(st, func(s *aclnn.Scope) {
		key, value := c.gather(s, a.Key), c.gather(s, a.Value)
		c.each(s, key, value, func(part mask.Part, rows func(*aclnn.Tensor) *aclnn.Tensor, b *ops.AttentionArgs) {
			out := rows(a.Out)
			if part.Keys.Len() == 0 {
				s.Fill(out, aclnn.Float(0))
				return
			}
			b.Out = s.Target(out)
			for _, stat := range []struct{ whole, part **aclnn.Tensor }{{&a.SoftmaxMax, &b.SoftmaxMax}, {&a.SoftmaxSum, &b.SoftmaxSum}} {
				if *stat.whole != nil {
					*stat.part = s.Tensor(aclnn.Float32, c.stats(part)...)
				}
			}
			ops.Queue(ctx, s, p.reg.Attention(), b)
			s.Finish(out, b.Out)
			if a.SoftmaxMax != nil {
				s.Copy(c.statRows(a.SoftmaxMax, part), b.SoftmaxMax)
			}
			if a.SoftmaxSum != nil {
				s.Copy(c.statRows(a.SoftmaxSum, part), b.SoftmaxSum)
			}
		})
	})
}

// AttentionGrad computes the gradients of Attention for this rank's positions. The gradients of
// keys and values are summed over the ranks in float32.
func (p *ContextParallel) AttentionGrad(ctx context.Context, st *acl.Stream, a *ops.AttentionGradArgs) error {
	if err := given("context-parallel attention gradient", p, st, a); err != nil {
		return err
	}
	if p.comm == nil {
		return p.reg.AttentionGrad().Run(ctx, st, a)
	}
	c, err := p.cut(&a.AttentionArgs)
	if err == nil {
		local := *a
		local.Mask = anyMask(a.Layout, c.sizes) // cut has checked that of the whole sequence
		err = p.reg.AttentionGrad().Check(&local)
	}
	if err != nil {
		return fmt.Errorf("context-parallel attention gradient: %w", err)
	}
	return aclnn.Compose(st, func(s *aclnn.Scope) {
		key, value := c.gather(s, a.Key), c.gather(s, a.Value)
		dKey, dValue := s.Tensor(aclnn.Float32, key.Shape()...), s.Tensor(aclnn.Float32, value.Shape()...)
		s.Zero(dKey)
		s.Zero(dValue)
		c.each(s, key, value, func(part mask.Part, rows func(*aclnn.Tensor) *aclnn.Tensor, b *ops.AttentionArgs) {
			dQuery := rows(a.DQuery)
			if part.Keys.Len() == 0 {
				s.Fill(dQuery, aclnn.Float(0))
				return
			}
			b.Out = s.Contiguous(rows(a.Out))
			b.SoftmaxMax, b.SoftmaxSum = s.Contiguous(c.statRows(a.SoftmaxMax, part)), s.Contiguous(c.statRows(a.SoftmaxSum, part))
			g := &ops.AttentionGradArgs{
				AttentionArgs: *b, DOut: s.Contiguous(rows(a.DOut)), DQuery: s.Target(dQuery),
				DKey: s.Like(b.Key), DValue: s.Like(b.Value),
			}
			ops.Queue(ctx, s, p.reg.AttentionGrad(), g)
			s.Finish(dQuery, g.DQuery)
			add(s, c.keys(dKey, part), float(s, g.DKey), 1)
			add(s, c.keys(dValue, part), float(s, g.DValue), 1)
		})
		c.scatter(s, dKey, a.DKey)
		c.scatter(s, dValue, a.DValue)
	})
}

// contextCut is an attention problem cut into this rank's parts.
type contextCut struct {
	p      *ContextParallel
	a      *ops.AttentionArgs
	sizes  ops.AttentionSizes
	axis   int            // the axis of the sequence
	chunks [][]mask.Range // by rank
	parts  []mask.Part
	at     map[mask.Range]int64 // where the queries of a part begin in this rank's tensors
}

// cut checks the arguments and divides the sequence.
func (p *ContextParallel) cut(a *ops.AttentionArgs) (contextCut, error) {
	sizes, err := a.Sizes()
	if err != nil {
		return contextCut{}, err
	}
	local := *a
	local.Mask = anyMask(a.Layout, sizes)
	if err := p.reg.Attention().Check(&local); err != nil {
		return contextCut{}, err
	}
	var c check.Args
	k := contextCut{p: p, a: a, sizes: sizes, axis: a.Layout.SequenceAxis(), at: map[mask.Range]int64{}}
	switch {
	case a.Bias != nil || a.DropMask != nil:
		c.Fail("Bias is %v and DropMask %v; neither can be cut by positions", a.Bias, a.DropMask)
	case sizes.Queries != sizes.Keys:
		c.Fail("Query is %v and Key %v; each rank must have as many queries as keys", a.Query, a.Key)
	}
	if !c.OK() {
		return k, c.Err
	}
	ranks := p.comm.Size()
	length := sizes.Queries * int64(ranks)
	for rank := range ranks {
		chunks, err := p.split.Chunks(length, rank, ranks)
		if err != nil {
			return k, fmt.Errorf("%w: %w", ops.ErrInvalid, err)
		}
		k.chunks = append(k.chunks, chunks)
	}
	mine := k.chunks[p.comm.Rank()]
	parts, err := mask.Parts(a.Mask, mask.Shape{Layout: a.Layout, Batch: sizes.Batch, Heads: sizes.Heads, Queries: length, Keys: length}, mine)
	if err != nil {
		return k, fmt.Errorf("%w: %w", ops.ErrInvalid, err)
	}
	k.parts = parts
	at := int64(0)
	for _, r := range mine {
		k.at[r] = at
		at += r.Len()
	}
	return k, nil
}

// anyMask is a mask that the layout allows for tensors of any sizes.
func anyMask(layout ops.Layout, sizes ops.AttentionSizes) mask.Mask {
	if layout == ops.TND {
		return mask.Varlen{CuQueries: []int64{sizes.Queries}, CuKeys: []int64{sizes.Keys}}
	}
	return nil
}

// each calls attend for every part of this rank, with a function that returns the rows of a tensor
// that belong to the part, and with arguments that have the part's query, keys, values and mask.
func (k *contextCut) each(s *aclnn.Scope, key, value *aclnn.Tensor, attend func(part mask.Part, rows func(*aclnn.Tensor) *aclnn.Tensor, b *ops.AttentionArgs)) {
	for _, part := range k.parts {
		rows := func(t *aclnn.Tensor) *aclnn.Tensor {
			return t.Narrow(k.axis, k.at[part.Queries], part.Queries.Len())
		}
		attend(part, rows, &ops.AttentionArgs{
			Query: s.Contiguous(rows(k.a.Query)), Key: s.Contiguous(k.keys(key, part)), Value: s.Contiguous(k.keys(value, part)),
			Layout: k.a.Layout, Heads: k.a.Heads, Mask: part.Mask, Scale: k.a.Scale,
		})
	}
}

// keys returns the keys of a gathered tensor that a part attends to.
func (k *contextCut) keys(t *aclnn.Tensor, part mask.Part) *aclnn.Tensor {
	return t.Narrow(k.axis, part.Keys.From, part.Keys.Len())
}

// stats returns the shape of a part's softmax tensors; statRows returns the part's rows of this
// rank's tensors.
func (k *contextCut) stats(part mask.Part) []int64 {
	if k.a.Layout == ops.TND {
		return []int64{part.Queries.Len(), k.sizes.Heads, ops.SoftmaxCopies}
	}
	return []int64{k.sizes.Batch, k.sizes.Heads, part.Queries.Len(), ops.SoftmaxCopies}
}

func (k *contextCut) statRows(t *aclnn.Tensor, part mask.Part) *aclnn.Tensor {
	axis := 2
	if k.a.Layout == ops.TND {
		axis = 0
	}
	return t.Narrow(axis, k.at[part.Queries], part.Queries.Len())
}

// byRank makes a tensor that holds the local parts of all ranks one after another.
func (k *contextCut) byRank(s *aclnn.Scope, dt aclnn.DType, local *aclnn.Tensor) *aclnn.Tensor {
	return s.Tensor(dt, append([]int64{int64(len(k.chunks))}, local.Shape()...)...)
}

// eachChunk calls copy for each chunk, with its view in the tensor made by byRank and its view in
// the whole sequence.
func (k *contextCut) eachChunk(ranks, whole *aclnn.Tensor, copy func(inRank, inWhole *aclnn.Tensor)) {
	for rank, chunks := range k.chunks {
		at := int64(0)
		for _, c := range chunks {
			copy(ranks.Select(0, int64(rank)).Narrow(k.axis, at, c.Len()), whole.Narrow(k.axis, c.From, c.Len()))
			at += c.Len()
		}
	}
}

// gather concatenates the local parts of all ranks in the order of the sequence.
func (k *contextCut) gather(s *aclnn.Scope, local *aclnn.Tensor) *aclnn.Tensor {
	ranks := k.byRank(s, local.DType(), local)
	send := s.Contiguous(local)
	s.Do(func() error { return k.p.comm.AllGather(s.Stream, send, ranks) })
	shape := local.Shape()
	shape[k.axis] *= int64(len(k.chunks))
	whole := s.Tensor(local.DType(), shape...)
	k.eachChunk(ranks, whole, func(inRank, inWhole *aclnn.Tensor) { s.Copy(inWhole, inRank) })
	return whole
}

// scatter sums float32 gradients over the ranks and keeps this rank's positions in local.
func (k *contextCut) scatter(s *aclnn.Scope, whole, local *aclnn.Tensor) {
	ranks := k.byRank(s, aclnn.Float32, local)
	k.eachChunk(ranks, whole, func(inRank, inWhole *aclnn.Tensor) { s.Copy(inRank, inWhole) })
	sum := s.Tensor(aclnn.Float32, local.Shape()...)
	s.Do(func() error { return k.p.comm.ReduceScatter(s.Stream, ranks, sum, hccl.Sum) })
	s.Copy(local, sum)
}

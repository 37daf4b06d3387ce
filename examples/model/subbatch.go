package model

import (
	"cmp"
	"slices"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/autograd"
	"github.com/goascend/cann/ops/decode"
)

// subBatch is a group of sequences with the same number of new tokens, whose rows follow each other among
// those of a pass. Projections read the rows of all subBatches at once; attention and delta nets run once
// for each subBatch.
type subBatch struct {
	first, size, length int64         // first row, number of sequences, and new tokens of each
	lengths             []int64       // tokens of each sequence, the new ones included
	blocks              *aclnn.Tensor // of each sequence, [size, blocks]
	before, after       *aclnn.Tensor // rows of their states, before and after the new tokens
	hidden              unseen        // places that are not seen; zero where lengths say it
}

// of views the rows of the subBatch in x [1, rows, …] as [size, length, …].
func (c *subBatch) of(x *aclnn.Tensor) *aclnn.Tensor {
	return x.Squeeze(0).Narrow(0, c.first, c.size*c.length).Unflatten(0, c.size, c.length)
}

// numbers collects the numbers of a pass that the device needs, to copy them at once.
type numbers struct {
	all   []int32
	views []func(all *aclnn.Tensor)
}

// add appends a part; to receives its tensor once it is copied.
func (n *numbers) add(to **aclnn.Tensor, values []int32, shape ...int64) {
	const unit = 16 // the parts start at multiples of 64 bytes
	at := int64(len(n.all))
	n.all = append(n.all, values...)
	for len(n.all)%unit != 0 {
		n.all = append(n.all, 0)
	}
	n.views = append(n.views, func(all *aclnn.Tensor) { *to = all.Narrow(0, at, int64(len(values))).Reshape(shape...) })
}

// copied copies all parts to the device.
func (n *numbers) copied(p *pass) {
	all := p.tokens(n.all)
	if p.Err() == nil {
		for _, view := range n.views {
			view(all)
		}
	}
}

// inputs arranges the pieces in subBatches.
func (g *Pages) inputs(p *pass, pieces []Piece) (*inputs, error) {
	order := make([]int, len(pieces))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(len(pieces[a].Tokens), len(pieces[b].Tokens)) })
	in := &inputs{batch: 1, scale: g.m.Config.attentionScale(), pages: g}
	var n numbers
	var ids, turns, slots []int32
	first, longest := make([]int, len(pieces)), 0
	for _, x := range pieces {
		longest = max(longest, x.From+len(x.Tokens))
	}
	table := &g.m.rope
	if err := table.cached(p.ctx, g.m.st, g.m.Config, g.m.dt, int64(longest)); err != nil {
		return nil, err
	}
	var adapted [][]int32 // rows of each slot of the adapter bank
	if g.Adapters != nil {
		adapted = make([][]int32, g.Adapters.slots)
	}
	for _, i := range order {
		x := pieces[i]
		first[i] = len(ids)
		for j := range x.Tokens {
			if x.Adapter > 0 {
				adapted[x.Adapter-1] = append(adapted[x.Adapter-1], int32(len(ids)+j))
			}
		}
		for j, id := range x.Tokens {
			at := x.From + j
			ids, turns = append(ids, id), append(turns, int32(table.row(int64(at), x.Long)))
			slots = append(slots, x.Blocks[at/g.sizes.Block]*int32(g.sizes.Block)+int32(at%g.sizes.Block))
		}
	}
	var last []int32 // rows whose logits are wanted
	for i, x := range pieces {
		for j := len(x.Tokens) - max(x.Logits, 1); j < len(x.Tokens); j++ {
			last = append(last, int32(first[i]+j))
		}
	}
	in.length, in.first = int64(len(ids)), first
	var rows *aclnn.Tensor // of the tables
	n.add(&in.ids, ids, in.length)
	n.add(&rows, turns, in.length)
	n.add(&in.slots, slots, in.length)
	n.add(&in.last, last, int64(len(last)))
	if rows := slices.Concat(adapted...); len(rows) > 0 {
		p.bank = &bankPass{AdapterBank: g.Adapters}
		for _, r := range adapted {
			p.bank.sizes = append(p.bank.sizes, int64(len(r)))
		}
		n.add(&p.bank.rows, rows, int64(len(rows)))
	}
	in.subBatches = make([]subBatch, 0, len(pieces)) // the numbers point into it
	for at := int64(0); len(order) > 0; {
		size := 1
		for size < len(order) && len(pieces[order[size]].Tokens) == len(pieces[order[0]].Tokens) {
			size++
		}
		in.subBatches = append(in.subBatches, subBatch{first: at})
		c := &in.subBatches[len(in.subBatches)-1]
		c.gather(&n, pieces, order[:size], g.sizes.Block)
		at, order = at+c.size*c.length, order[size:]
	}
	n.copied(p)
	if p.Err() != nil {
		return nil, p.Err()
	}
	in.rope = rotation{p.at(table.cos, rows), p.at(table.sin, rows)}
	return in, nil
}

// gather describes the pieces of a subBatch.
func (c *subBatch) gather(n *numbers, pieces []Piece, members []int, block int) {
	c.size, c.length = int64(len(members)), int64(len(pieces[members[0]].Tokens))
	columns := 0
	for _, i := range members {
		end := pieces[i].From + len(pieces[i].Tokens)
		c.lengths = append(c.lengths, int64(end))
		columns = max(columns, (end+block-1)/block)
	}
	blocks := make([]int32, len(members)*columns)
	before, after := make([]int32, len(members)), make([]int32, len(members))
	for at, i := range members {
		x := pieces[i]
		copy(blocks[at*columns:][:columns], x.Blocks)
		before[at], after[at] = int32(x.before()), int32(x.State+1)
	}
	n.add(&c.blocks, blocks, c.size, int64(columns))
	n.add(&c.before, before, c.size)
	n.add(&c.after, after, c.size)
}

// attendPages writes keys and values of the new tokens into their blocks, and returns the attention of
// these tokens to all tokens of their sequences. It has no gradient.
func (m *inputs) attendPages(p *pass, q, k, v, sinks *autograd.Var, window int64) *autograd.Var {
	dec := m.pages.ops
	return p.Record("attention to pages", withSinks(sinks, q, k, v), func(c *autograd.Call) {
		out := c.Output(p.dt, q.Shape()...)
		c.Do(func() error {
			return m.paged.write(p, dec, k.Value.Squeeze(0), v.Value.Squeeze(0), m.slots)
		})
		for i := range m.subBatches {
			sub := &m.subBatches[i]
			c.Do(func() error {
				a := decode.AttentionArgs{
					Query: sub.of(q.Value), Layout: ops.BSND, Blocks: sub.blocks, Lengths: sub.lengths, Scale: m.scale, Out: sub.of(out),
				}
				m.paged.of(&a)
				a.Hidden, a.Window = sub.hidden.of(window)
				if sinks != nil {
					a.Sinks = sinks.Value
				}
				return dec.Attention().Run(p.ctx, p.Stream(), &a)
			})
		}
	})[0]
}

// step runs the convolution and the rule of a delta net from the states of the sequences on, and stores
// the new states.
func (m *inputs) step(p *pass, s *aclnn.Scope, allConv ops.CausalConvArgs, allRule ops.GatedDeltaArgs) {
	for i := range m.subBatches {
		c := &m.subBatches[i]
		conv, rule := allConv, allRule
		conv.X, conv.Out = c.of(conv.X), c.of(conv.Out)
		conv.InitialState = selectRows(s, m.paged.inputs, c.before)
		conv.FinalState = s.Like(conv.InitialState)
		ops.Queue(p.ctx, s, p.reg.CausalConv(), &conv)
		replaceRows(s, m.paged.inputs, c.after, conv.FinalState)

		rule.Query, rule.Key, rule.Value = c.of(rule.Query), c.of(rule.Key), c.of(rule.Value)
		rule.Decay, rule.Beta, rule.Out = c.of(rule.Decay), c.of(rule.Beta), c.of(rule.Out)
		rule.InitialState = selectRows(s, m.paged.state, c.before)
		rule.FinalState = s.Like(rule.InitialState)
		ops.Queue(p.ctx, s, p.reg.GatedDelta(), &rule)
		replaceRows(s, m.paged.state, c.after, rule.FinalState)
	}
}

// selectRows returns rows of x.
func selectRows(s *aclnn.Scope, x, rows *aclnn.Tensor) *aclnn.Tensor {
	shape := x.Shape()
	shape[0] = rows.Len()
	out := s.Tensor(x.DType(), shape...)
	aclnn.Launch(s, aclnn.IndexSelect, aclnn.IndexSelectParams{Self: x, Dim: 0, Index: rows, Out: out})
	return out
}

// replaceRows replaces rows of x.
func replaceRows(s *aclnn.Scope, x, rows, values *aclnn.Tensor) {
	aclnn.Launch(s, aclnn.InplaceIndexCopy, aclnn.InplaceIndexCopyParams{Self: x, Dim: 0, Index: rows, Source: values})
}

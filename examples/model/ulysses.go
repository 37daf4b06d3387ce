package model

import (
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/autograd"
)

// toHeads exchanges this rank's positions of all heads, [batch, length, heads, ·], for all
// positions of its share of the heads. If there are fewer heads than ranks, several ranks get the
// same head.
func (p *pass) toHeads(x *autograd.Var) *autograd.Var {
	return p.EndExchange(p.BeginToHeads(p.ulysses, p.headSide, p.forRanks(x)))
}

// forRanks repeats heads that several ranks get.
func (p *pass) forRanks(x *autograd.Var) *autograd.Var {
	return p.Repeat(x, 2, max(p.ulysses.Size()/max(x.Dim(2), 1), 1))
}

// toSequence is the inverse of toHeads for heads of which each rank has its own.
func (p *pass) toSequence(x *autograd.Var) *autograd.Var {
	return p.EndExchange(p.BeginToSequence(p.ulysses, p.headSide, x))
}

// The groups of heads that Ulysses exchanges one after another: attention to one group runs beside the exchange of the next one and of the results of the last one. More groups expose less of
// the exchange, and each has kernels of its own, which a group of less than groupBytes would not be worth.
const (
	mostHeadGroups = 4
	groupBytes     = 1 << 20
)

// headGroups returns how many groups each rank's heads are divided into. A group has whole key heads with all queries that read them, of which a rank sends so many bytes.
func (p *pass) headGroups(keyHeads, bytes int64) int64 {
	own := p.share(keyHeads)
	switch {
	case p.ulysses.Size() == 1:
		return 1
	case p.groups > 0:
		return p.groups
	}
	for n := int64(mostHeadGroups); n > 1; n-- {
		if own%n == 0 && bytes >= n*groupBytes {
			return n
		}
	}
	return 1
}

// headsUnderWay are queries, keys or values, [batch, length, heads, ·], of which the ranks of Ulysses get their heads in groups.
type headsUnderWay struct {
	p      *pass
	groups []*autograd.Var // that this rank sends
	begun  []*autograd.HeadExchange
}

// send begins to exchange the first group of heads.
func (p *pass) send(x *autograd.Var, groups int64) *headsUnderWay {
	h := &headsUnderWay{p: p, groups: []*autograd.Var{p.forRanks(x)}}
	if groups > 1 {
		ranks := p.ulysses.Size()
		sizes := make([]int64, groups)
		for i := range sizes {
			sizes[i] = h.groups[0].Dim(2) / ranks / groups
		}
		h.groups = p.Split(p.Unflatten(h.groups[0], 2, ranks, sizes[0]*groups), 3, sizes...)
	}
	h.next()
	return h
}

// next begins to exchange the next group, if there is one.
func (h *headsUnderWay) next() {
	if at := len(h.begun); at < len(h.groups) {
		h.begun = append(h.begun, h.p.BeginToHeads(h.p.ulysses, h.p.headSide, h.groups[at]))
	}
}

// arrived waits for a group, on the device.
func (h *headsUnderWay) arrived(group int) *autograd.Var {
	return h.p.EndExchange(h.begun[group])
}

// share returns how many of the heads a rank has.
func (p *pass) share(heads int64) int64 { return max(heads/p.ulysses.Size(), 1) }

// first returns the first of this rank's heads.
func (p *pass) first(heads int64) int64 { return p.ulysses.Rank() * heads / p.ulysses.Size() }

// own returns this rank's share of a vector with one element per head.
func (p *pass) own(w *Parameter) *autograd.Var {
	if p.ulysses.Size() == 1 {
		return w.Var
	}
	return p.viewOf(w, func(t *aclnn.Tensor) *aclnn.Tensor { return t.Narrow(0, p.first(t.Dim(0)), p.share(t.Dim(0))) })
}

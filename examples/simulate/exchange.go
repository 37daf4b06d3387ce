package simulate

import (
	"fmt"
	"math"
)

// exchange is the time that a collective keeps the two kinds of links busy, one after the other.
type exchange struct{ hccs, roce float64 }

// group says where the ranks of a communicator lie, seen from one of them.
type group struct {
	chip    Chip
	ranks   float64
	inside  float64 // ranks in its domain of HCCS
	domains float64
}

// groupOf returns the group of world ranks. Ranks fill domains in their order.
func (c Chip) groupOf(ranks []int, own int) group {
	g := group{chip: c, ranks: float64(len(ranks))}
	domains := map[int]bool{}
	for _, r := range ranks {
		domains[r/c.HCCS.Dies] = true
		if r/c.HCCS.Dies == own/c.HCCS.Dies {
			g.inside++
		}
	}
	g.domains = float64(len(domains))
	return g
}

// mesh is the time in which each of the ranks of a domain gets its part of n bytes from all of the others, or gives it to them: one step, over
// the links between all pairs.
func (g group) mesh(n float64) exchange {
	if g.inside < 2 {
		return exchange{}
	}
	h := g.chip.HCCS
	return exchange{hccs: h.Latency + n*(g.inside-1)/g.inside/min(h.Bandwidth, h.Pair*(g.inside-1))}
}

// across is the time of the same between domains, in the steps of NHR or of halving and doubling.
func (g group) across(n float64) exchange {
	if g.domains < 2 {
		return exchange{}
	}
	r := g.chip.RoCE
	return exchange{roce: math.Ceil(math.Log2(g.domains))*r.Latency + n*(g.domains-1)/g.domains/min(r.Bandwidth, r.Pair*(g.domains-1))}
}

func (x exchange) plus(others ...exchange) exchange {
	for _, y := range others {
		x.hccs, x.roce = x.hccs+y.hccs, x.roce+y.roce
	}
	return x
}

// collective returns the time of a collective with several domains in the order of phases that HCCL documents. Reductions take no time.
func (g group) collective(e *Entry) (exchange, error) {
	whole := e.Count * g.ranks // where Count is a rank's part
	switch e.Collective {
	case "HcclAllGather":
		return g.mesh(whole / g.domains).plus(g.across(whole)), nil
	case "HcclReduceScatter":
		return g.across(whole).plus(g.mesh(whole / g.domains)), nil
	case "HcclAllGatherV":
		return g.mesh(e.Count / g.domains).plus(g.across(e.Count)), nil
	case "HcclReduceScatterV":
		return g.across(e.Count).plus(g.mesh(e.Count / g.domains)), nil
	case "HcclScatter":
		return g.across(whole).plus(g.mesh(whole / g.domains)), nil
	case "HcclAllReduce", "HcclBroadcast", "HcclReduce":
		between := g.across(e.Count / g.inside)
		if e.Collective == "HcclAllReduce" {
			between = between.plus(between)
		}
		return g.mesh(e.Count).plus(between, g.mesh(e.Count)), nil
	case "HcclAlltoAll", "HcclAlltoAllV", "HcclAlltoAllVC":
		if g.ranks < 2 {
			return exchange{}, nil
		}
		n := max(e.Sent, e.Received) / (g.ranks - 1)
		h, r := g.chip.HCCS, g.chip.RoCE
		var x exchange
		if g.inside > 1 {
			x.hccs = h.Latency + n*(g.inside-1)/min(h.Bandwidth, h.Pair*(g.inside-1))
		}
		if g.ranks > g.inside { // pair by pair
			x.roce = (g.domains-1)*r.Latency + n*(g.ranks-g.inside)/r.Bandwidth
		}
		return x, nil
	case "HcclBarrier":
		return g.mesh(0).plus(g.across(0)), nil
	}
	return exchange{}, fmt.Errorf("simulate: there is no rule for the time of %s", e.Collective)
}

// messages returns the time of sends and receives, which go on beside each other.
func (c Chip) messages(e *Entry, ranks []int, own int) (exchange, error) {
	var hccs, roce, longest float64
	for _, m := range e.Messages {
		if m.Peer < 0 || m.Peer >= len(ranks) {
			return exchange{}, fmt.Errorf("simulate: a message to rank %d of the %d of %q", m.Peer, len(ranks), e.Comm)
		}
		n := max(m.Sent, m.Received)
		if ranks[m.Peer]/c.HCCS.Dies == own/c.HCCS.Dies {
			hccs, longest = hccs+n, max(longest, n/c.HCCS.Pair)
		} else {
			roce += n
		}
	}
	var x exchange
	if hccs > 0 {
		x.hccs = c.HCCS.Latency + max(longest, hccs/c.HCCS.Bandwidth)
	}
	if roce > 0 {
		x.roce = c.RoCE.Latency + roce/c.RoCE.Bandwidth
	}
	return x, nil
}

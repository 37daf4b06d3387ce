package ccl

import "github.com/goascend/cann/internal/emu/rt/sanitize"

// part is a range of device memory: an address and a number of bytes.
type part struct{ addr, size uint64 }

// transfer is a message to or from a peer.
type transfer struct {
	peer int
	part part
}

// phase is a set of messages that are sent and received concurrently. A peer may occur several
// times; its messages are then matched in order of appearance.
type phase struct {
	sends    []transfer
	receives []transfer
	local    []move // copies within this rank
	reduce   bool   // the received messages are reduced with own into target, not copied
	own      part
	target   part
	pairs    bool // only the listed peers take part; else every peer gets at least an empty message
}

type move struct{ to, from part }

// plan is a collective as one rank sees it.
type plan struct {
	call   string // C function
	header header
	phases []phase
}

// slicing is the size in bytes from which an all-reduce is cut into one slice per rank;
// below it every rank combines everything, which saves a phase.
const slicing = 16 << 10

// at returns the range of count elements that starts first elements after addr.
func (e element) at(addr, first, count uint64) part {
	return part{addr + first*e.size, count * e.size}
}

// slice returns rank i's share when count elements at addr are divided among n ranks.
func (e element) slice(addr, count uint64, i, n int) part {
	lo, hi := count*uint64(i)/uint64(n), count*uint64(i+1)/uint64(n)
	return e.at(addr, lo, hi-lo)
}

// combine returns the phase that reduces one block of every rank into target. Rank r receives
// block(r) of this rank.
func (c *comm) combine(block func(rank int) part, target part) phase {
	p := phase{
		reduce: true, own: block(c.rank), target: target,
		sends: make([]transfer, 0, c.size), receives: make([]transfer, 0, c.size),
	}
	for r := range c.size {
		if r != c.rank {
			p.sends = append(p.sends, transfer{r, block(r)})
			p.receives = append(p.receives, transfer{r, part{size: target.size}})
		}
	}
	return p
}

// exchange returns the phase that sends out(i) to rank i and receives in(i) from it.
func (c *comm) exchange(out, in func(rank int) part) phase {
	var p phase
	for r := range c.size {
		from, to := out(r), in(r)
		if r == c.rank {
			if from.size > 0 && to.size > 0 && from != to {
				p.local = append(p.local, move{to, from})
			}
			continue
		}
		p.sends = append(p.sends, transfer{r, from})
		p.receives = append(p.receives, transfer{r, to})
	}
	return p
}

func (c *comm) allReduce(e element, send, recv, count uint64, _ int) []phase {
	if count*e.size < slicing || c.size == 1 {
		whole := e.at(send, 0, count)
		return []phase{c.combine(func(int) part { return whole }, e.at(recv, 0, count))}
	}
	mine := e.slice(recv, count, c.rank, c.size)
	return []phase{
		c.combine(func(r int) part { return e.slice(send, count, r, c.size) }, mine),
		c.exchange(func(int) part { return mine }, func(r int) part { return e.slice(recv, count, r, c.size) }),
	}
}

func (c *comm) reduceScatter(e element, send, recv, count uint64, _ int) []phase {
	return []phase{c.combine(func(r int) part { return e.at(send, uint64(r)*count, count) }, e.at(recv, 0, count))}
}

// reduce lets each rank reduce one slice and then collects the slices at root. The other ranks
// keep their slice in their receive buffer, whose contents are undefined after the call.
func (c *comm) reduce(e element, send, recv, count uint64, root int) []phase {
	mine := e.slice(recv, count, c.rank, c.size)
	return []phase{
		c.combine(func(r int) part { return e.slice(send, count, r, c.size) }, mine),
		c.exchange(
			func(r int) part { return only(r == root, mine) },
			func(r int) part { return only(c.rank == root, e.slice(recv, count, r, c.size)) }),
	}
}

func only(ok bool, p part) part {
	if ok {
		return p
	}
	return part{}
}

func (c *comm) broadcast(e element, _, buf, count uint64, root int) []phase {
	whole := e.at(buf, 0, count)
	return []phase{c.exchange(
		func(r int) part { return only(c.rank == root && r != root, whole) },
		func(r int) part { return only(r == root && c.rank != root, whole) })}
}

func (c *comm) scatter(e element, send, recv, count uint64, root int) []phase {
	return []phase{c.exchange(
		func(r int) part { return only(c.rank == root, e.at(send, uint64(r)*count, count)) },
		func(r int) part { return only(r == root, e.at(recv, 0, count)) })}
}

// gather copies rank r's elements to block r on all ranks.
func (c *comm) gather(e element, send, recv uint64, b blocks) []phase {
	return []phase{c.exchange(
		func(int) part { return e.at(send, 0, b.counts[c.rank]) },
		func(r int) part { return b.of(e, recv, r) })}
}

func (c *comm) allGather(e element, send, recv, count uint64, _ int) []phase {
	return c.gather(e, send, recv, even(count, c.size))
}

// accesses lists the device memory of this rank that the plan reads and writes, in the order
// of the phases.
func (p plan) accesses() []sanitize.Access {
	var all []sanitize.Access
	add := func(name string, touch sanitize.Touch, x part) {
		if x.size > 0 {
			all = append(all, sanitize.Bytes(name, touch, x.addr, x.size))
		}
	}
	for _, f := range p.phases {
		for _, s := range f.sends {
			add("sendBuf", sanitize.Reads, s.part)
		}
		for _, m := range f.local {
			add("sendBuf", sanitize.Reads, m.from)
			add("recvBuf", sanitize.Writes, m.to)
		}
		if f.reduce {
			add("sendBuf", sanitize.Reads, f.own)
			add("recvBuf", sanitize.Writes, f.target)
			continue
		}
		for _, r := range f.receives {
			add("recvBuf", sanitize.Writes, r.part)
		}
	}
	return all
}

package ccl

import "github.com/goascend/cann/internal/abi"

// part is a range of device memory: an address and a number of bytes.
type part struct{ addr, size uint64 }

// transfer is a message to or from a peer.
type transfer struct {
	peer int
	part part
}

// phase is a set of messages that are under way at the same time. A peer may occur several
// times; its messages pair in order of appearance.
type phase struct {
	sends    []transfer
	receives []transfer
	local    []move // within this rank
	reduce   bool   // receives[i].part is combined with own into target, instead of copied
	own      part
	target   part
	pairs    bool // the peers named only; else every peer gets at least an empty message
}

type move struct{ to, from part }

// plan is a collective as one rank sees it.
type plan struct {
	header header
	phases []phase
}

// reduces are the calls whose operation counts.
var reduces = map[string]bool{
	"HcclAllReduce": true, "HcclReduce": true, "HcclReduceScatter": true, "HcclReduceScatterV": true,
}

// slicing is the size in bytes from which an all-reduce is cut into one slice per rank;
// below it every rank combines everything, which saves a phase.
const slicing = 16 << 10

// at is count elements, first elements behind addr.
func (e element) at(addr, first, count uint64) part {
	return part{addr + first*e.size, count * e.size}
}

// slice is rank i's share of count elements.
func (e element) slice(addr, count uint64, i, n int) part {
	lo, hi := count*uint64(i)/uint64(n), count*uint64(i+1)/uint64(n)
	return e.at(addr, lo, hi-lo)
}

// combine is the phase that leaves the combination of all ranks' blocks in target: block i
// of this rank goes to rank i.
func (c *comm) combine(block func(rank int) part, target part) phase {
	p := phase{reduce: true, own: block(c.rank), target: target}
	for r := range c.size {
		if r != c.rank {
			p.sends = append(p.sends, transfer{r, block(r)})
			p.receives = append(p.receives, transfer{r, part{size: target.size}})
		}
	}
	return p
}

// exchange is the phase in which rank i gets out(i) of this rank, which gets in(i) of it.
func (c *comm) exchange(out, in func(rank int) part) phase {
	var p phase
	for r := range c.size {
		from, to := out(r), in(r)
		if r == c.rank {
			if from.size > 0 && to.size > 0 {
				p.local = append(p.local, move{to, from})
			}
			continue
		}
		p.sends = append(p.sends, transfer{r, from})
		p.receives = append(p.receives, transfer{r, to})
	}
	return p
}

func (c *comm) allReduce(e element, send, recv, count uint64) []phase {
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

// reduceTo combines by slices and collects them at root. Ranks that are not root combine
// their slice in their receive buffer, whose contents are theirs to lose.
func (c *comm) reduceTo(e element, send, recv, count uint64, root int) []phase {
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

func (c *comm) broadcast(e element, buf, count uint64, root int) []phase {
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

// gather leaves rank r's count(r) elements at displacement(r) on all ranks.
func (c *comm) gather(e element, send, recv uint64, count, displacement func(r int) uint64) []phase {
	return []phase{c.exchange(
		func(int) part { return e.at(send, 0, count(c.rank)) },
		func(r int) part { return e.at(recv, displacement(r), count(r)) })}
}

// blocks are count elements at displacement, per rank.
type blocks struct{ counts, displacements []uint64 }

func (b blocks) of(e element, addr uint64, r int) part {
	return e.at(addr, b.displacements[r], b.counts[r])
}

// even are blocks of the same size behind each other.
func even(count uint64, n int) blocks {
	b := blocks{make([]uint64, n), make([]uint64, n)}
	for i := range n {
		b.counts[i], b.displacements[i] = count, uint64(i)*count
	}
	return b
}

// packed are blocks behind each other.
func packed(counts []uint64) blocks {
	b := blocks{counts, make([]uint64, len(counts))}
	for i := 1; i < len(counts); i++ {
		b.displacements[i] = b.displacements[i-1] + counts[i-1]
	}
	return b
}

func (b blocks) total() (n uint64) {
	for _, c := range b.counts {
		n += c
	}
	return n
}

// item is one HcclSendRecvItem.
type item struct {
	kind   int32
	_      int32
	buf    uint64
	count  uint64
	dtype  int32
	remote uint32
}

// batch pairs the items with the rank itself to copies; the others go to their peers in
// order of appearance.
func (c *comm) batch(items []item) (phase, error) {
	const call = "HcclBatchSendRecv"
	p := phase{pairs: true}
	var out, in []item
	for i, x := range items {
		if x.buf == 0 {
			continue
		}
		e, err := checkType(call, x.dtype)
		if err == nil {
			err = checkCount(call, x.count)
		}
		if err == nil {
			err = c.checkRank(call, "remote rank", x.remote)
		}
		if err != nil {
			return p, err
		}
		self := int(x.remote) == c.rank
		switch {
		case x.kind == abi.HCCL_SEND && self:
			out = append(out, x)
		case x.kind == abi.HCCL_RECV && self:
			in = append(in, x)
		case x.kind == abi.HCCL_SEND:
			p.sends = append(p.sends, transfer{int(x.remote), e.at(x.buf, 0, x.count)})
		case x.kind == abi.HCCL_RECV:
			p.receives = append(p.receives, transfer{int(x.remote), e.at(x.buf, 0, x.count)})
		default:
			return p, refuse(badParameter, "EI0003: %s: item %d is neither a send nor a receive but %d", call, i, x.kind)
		}
	}
	if len(out) != len(in) {
		return p, refuse(badParameter, "EI0003: %s: %d sends and %d receives of rank %d to itself do not pair", call, len(out), len(in), c.rank)
	}
	for i := range out {
		if out[i].count != in[i].count || out[i].dtype != in[i].dtype {
			return p, refuse(badParameter, "EI0003: %s: a send of %d elements of type %d to itself meets a receive of %d of type %d", call, out[i].count, out[i].dtype, in[i].count, in[i].dtype)
		}
		e := elements[out[i].dtype]
		p.local = append(p.local, move{e.at(in[i].buf, 0, in[i].count), e.at(out[i].buf, 0, out[i].count)})
	}
	return p, nil
}

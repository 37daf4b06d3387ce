package ccl

import "github.com/goascend/cann/internal/emu/rt"

// blocks are count elements at displacement, per rank.
type blocks struct{ counts, displacements []uint64 }

func (b blocks) of(e element, addr uint64, r int) part {
	return e.at(addr, b.displacements[r], b.counts[r])
}

// packed are blocks behind each other.
func packed(counts []uint64) blocks {
	b := blocks{counts, make([]uint64, len(counts))}
	for i := 1; i < len(counts); i++ {
		b.displacements[i] = b.displacements[i-1] + counts[i-1]
	}
	return b
}

// even are blocks of the same size behind each other.
func even(count uint64, n int) blocks {
	b := make([]uint64, n)
	for i := range b {
		b[i] = count
	}
	return packed(b)
}

func (b blocks) total() (n uint64) {
	for _, c := range b.counts {
		n += c
	}
	return n
}

// blocks reads host arrays of one count, each within the limit, and one displacement per rank.
func (c *comm) blocks(call string, counts, displacements uint64) (blocks, error) {
	b := blocks{rt.Read[uint64](counts, uint64(c.size)), rt.Read[uint64](displacements, uint64(c.size))}
	return b, checkCounts(call, b.counts)
}

func checkCounts(call string, counts []uint64) error {
	for _, n := range counts {
		if err := checkCount(call, n); err != nil {
			return err
		}
	}
	return nil
}

// divided is a collective between a whole buffer, which has a block per rank, and each rank's
// own buffer.
type divided struct {
	call                 string
	whole, own           uint64
	wholeName, ownName   string
	counts, displ        uint64
	countsName, ownCount string
	count                uint64 // of own
	dtype, op            int32
	comm                 uint64
}

// start checks the arguments in CANN's order; a nil communicator without an error means that
// there is nothing to do.
func (l *Library) start(d divided) (*comm, element, blocks, error) {
	fail := func(err error) (*comm, element, blocks, error) { return nil, element{}, blocks{}, err }
	if err := notNull(d.call, []string{d.countsName + "Counts", d.countsName + "Displs", "comm"}, d.counts, d.displ, d.comm); err != nil {
		return fail(err)
	}
	if d.count > 0 && d.own == 0 {
		return fail(null(d.call, d.ownName))
	}
	c, err := l.usable(d.call, d.comm)
	if err != nil {
		return fail(err)
	}
	b, err := c.blocks(d.call, d.counts, d.displ)
	switch {
	case err != nil || b.total() == 0:
		return fail(err)
	case d.whole == 0:
		return fail(null(d.call, d.wholeName))
	case d.count != b.counts[c.rank]:
		return fail(refuse(badParameter, "EI0003: %s: %s is %d, %sCounts[%d] is %d; they must be equal", d.call, d.ownCount, d.count, d.countsName, c.rank, b.counts[c.rank]))
	}
	e, err := checkElements(d.call, d.dtype, d.op)
	return c, e, b, err
}

func (l *Library) reduceScatterV(t *rt.Thread, a []uint64) error {
	d := divided{
		call: "HcclReduceScatterV", whole: a[0], wholeName: "sendBuf", own: a[3], ownName: "recvBuf",
		counts: a[1], displ: a[2], countsName: "send", count: a[4], ownCount: "recvCount", dtype: int32(a[5]), op: int32(a[6]), comm: a[7],
	}
	c, e, b, err := l.start(d)
	if c == nil || err != nil {
		return err
	}
	p := c.combine(func(r int) part { return b.of(e, d.whole, r) }, e.at(d.own, 0, d.count))
	return c.launch(t, a[8], plan{d.call, header{Type: d.dtype, Op: d.op, Count: b.total()}, []phase{p}})
}

func (l *Library) allGatherV(t *rt.Thread, a []uint64) error {
	d := divided{
		call: "HcclAllGatherV", whole: a[2], wholeName: "recvBuf", own: a[0], ownName: "sendBuf",
		counts: a[3], displ: a[4], countsName: "recv", count: a[1], ownCount: "sendCount", dtype: int32(a[5]), comm: a[6],
	}
	c, e, b, err := l.start(d)
	if c == nil || err != nil {
		return err
	}
	return c.launch(t, a[7], plan{d.call, header{Type: d.dtype, Count: b.total()}, c.gather(e, d.own, d.whole, b)})
}

func (l *Library) allToAll(t *rt.Thread, a []uint64) error {
	const call = "HcclAlltoAll"
	send, count, dtype, recv, recvCount, recvType := a[0], a[1], int32(a[2]), a[3], a[4], int32(a[5])
	if count == 0 && recvCount == 0 {
		return nil
	}
	if err := notNull(call, []string{"sendBuf", "recvBuf"}, send, recv); err != nil {
		return err
	}
	if count != recvCount {
		return refuse(badParameter, "EI0003: %s: sendCount %d and recvCount %d differ", call, count, recvCount)
	}
	if err := sameType(call, dtype, recvType); err != nil {
		return err
	}
	c, _, err := l.checked(call, a[6], count, dtype, 0)
	if err != nil {
		return err
	}
	b := even(count, c.size)
	return c.trade(t, a[7], call, header{Type: dtype, Count: count}, recvType, send, recv, b, b)
}

func (l *Library) allToAllV(t *rt.Thread, a []uint64) error {
	const call = "HcclAlltoAllV"
	if err := notNull(call, []string{"sendCounts", "sdispls", "recvCounts", "rdispls"}, a[1], a[2], a[5], a[6]); err != nil {
		return err
	}
	c, err := l.usable(call, a[8])
	if err != nil {
		return err
	}
	out, err := c.blocks(call, a[1], a[2])
	if err != nil {
		return err
	}
	in, err := c.blocks(call, a[5], a[6])
	if err != nil {
		return err
	}
	return c.trade(t, a[9], call, header{Type: int32(a[3])}, int32(a[7]), a[0], a[4], out, in)
}

// allToAllVC is allToAllV for blocks behind each other whose sizes all ranks know.
func (l *Library) allToAllVC(t *rt.Thread, a []uint64) error {
	const call = "HcclAlltoAllVC"
	if err := notNull(call, []string{"sendCountMatrix"}, a[1]); err != nil {
		return err
	}
	c, err := l.usable(call, a[5])
	if err != nil {
		return err
	}
	matrix := rt.Read[uint64](a[1], uint64(c.size*c.size))
	if err := checkCounts(call, matrix); err != nil {
		return err
	}
	in := make([]uint64, c.size)
	for r := range in {
		in[r] = matrix[r*c.size+c.rank]
	}
	out := matrix[c.rank*c.size:][:c.size]
	return c.trade(t, a[6], call, header{Type: int32(a[2])}, int32(a[4]), a[0], a[3], packed(out), packed(in))
}

func sameType(call string, send, recv int32) error {
	if send != recv {
		return refuse(badParameter, "EI0003: %s: sendType %d and recvType %d differ", call, send, recv)
	}
	return nil
}

// trade launches an exchange of blocks. Elements of the header's type leave, of recvType
// arrive.
func (c *comm) trade(t *rt.Thread, stream uint64, call string, h header, recvType int32, send, recv uint64, out, in blocks) error {
	switch {
	case send == 0 && out.total() > 0:
		return null(call, "sendBuf")
	case recv == 0 && in.total() > 0:
		return null(call, "recvBuf")
	case send == recv && send != 0:
		return refuse(badParameter, "EI0003: %s: sendBuf and recvBuf are the same", call)
	case out.counts[c.rank] != in.counts[c.rank]:
		return refuse(badParameter, "EI0003: %s: rank %d sends itself %d elements and expects %d", call, c.rank, out.counts[c.rank], in.counts[c.rank])
	}
	if err := sameType(call, h.Type, recvType); err != nil {
		return err
	}
	e, err := checkElements(call, h.Type, 0)
	if err != nil {
		return err
	}
	p := c.exchange(func(r int) part { return out.of(e, send, r) }, func(r int) part { return in.of(e, recv, r) })
	return c.launch(t, stream, plan{call, h, []phase{p}})
}

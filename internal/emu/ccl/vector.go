package ccl

import (
	"slices"

	"github.com/goascend/cann/internal/emu/rt"
)

// blocks describes one block of a buffer per rank: its count and its displacement, in elements.
type blocks struct{ counts, displacements []uint64 }

func (b blocks) of(e element, addr uint64, r int) part {
	return e.at(addr, b.displacements[r], b.counts[r])
}

// packed returns blocks of the given counts that follow one another without gaps.
func packed(counts []uint64) blocks {
	b := blocks{counts, make([]uint64, len(counts))}
	for i := 1; i < len(counts); i++ {
		b.displacements[i] = b.displacements[i-1] + counts[i-1]
	}
	return b
}

// even returns n blocks of count elements that follow one another without gaps.
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

// blocks reads host arrays of one count and one displacement per rank. It fails if a count
// exceeds the limit.
func (c *comm) blocks(call string, counts, displacements rt.In[uint64]) (blocks, error) {
	n := uint64(c.size)
	b := blocks{slices.Clone(counts.Slice(n)), slices.Clone(displacements.Slice(n))}
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

// divided holds the arguments of a collective between a whole buffer, with a block per rank,
// and each rank's own buffer.
type divided struct {
	call                 string
	whole, own           uintptr
	wholeName, ownName   string
	counts, displ        rt.In[uint64]
	countsName, ownCount string
	count                uint64 // elements of own
	dtype, op            int32
	comm                 rt.Handle
}

// start checks the arguments in the order of CANN's checks. A nil communicator without an
// error means that there is nothing to do.
func (l *Library) start(d divided) (*comm, element, blocks, error) {
	fail := func(err error) (*comm, element, blocks, error) { return nil, element{}, blocks{}, err }
	switch {
	case d.comm == 0:
		return fail(null(d.call, "comm"))
	case d.count > 0 && d.own == 0:
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
	e, err := l.checkElements(d.call, d.dtype, d.op)
	return c, e, b, err
}

func (l *Library) HcclReduceScatterV(t *rt.Thread, sendBuf uintptr, sendCounts, sendDispls rt.In[uint64], recvBuf uintptr, recvCount uint64, dataType, op int32, comm, stream rt.Handle) error {
	d := divided{
		call: "HcclReduceScatterV", whole: sendBuf, wholeName: "sendBuf", own: recvBuf, ownName: "recvBuf",
		counts: sendCounts, displ: sendDispls, countsName: "send", count: recvCount, ownCount: "recvCount", dtype: dataType, op: op, comm: comm,
	}
	c, e, b, err := l.start(d)
	if c == nil || err != nil {
		return err
	}
	p := c.combine(func(r int) part { return b.of(e, uint64(sendBuf), r) }, e.at(uint64(recvBuf), 0, recvCount))
	return c.launch(t, stream, plan{d.call, header{Type: dataType, Op: op, Count: b.total()}, []phase{p}})
}

func (l *Library) HcclAllGatherV(t *rt.Thread, sendBuf uintptr, sendCount uint64, recvBuf uintptr, recvCounts, recvDispls rt.In[uint64], dataType int32, comm, stream rt.Handle) error {
	d := divided{
		call: "HcclAllGatherV", whole: recvBuf, wholeName: "recvBuf", own: sendBuf, ownName: "sendBuf",
		counts: recvCounts, displ: recvDispls, countsName: "recv", count: sendCount, ownCount: "sendCount", dtype: dataType, comm: comm,
	}
	c, e, b, err := l.start(d)
	if c == nil || err != nil {
		return err
	}
	return c.launch(t, stream, plan{d.call, header{Type: dataType, Count: b.total()}, c.gather(e, uint64(sendBuf), uint64(recvBuf), b)})
}

func (l *Library) HcclAlltoAll(t *rt.Thread, sendBuf uintptr, sendCount uint64, sendType int32, recvBuf uintptr, recvCount uint64, recvType int32, comm, stream rt.Handle) error {
	const call = "HcclAlltoAll"
	if sendCount == 0 && recvCount == 0 {
		return nil
	}
	if err := notNull(call, argument{"sendBuf", uint64(sendBuf)}, argument{"recvBuf", uint64(recvBuf)}); err != nil {
		return err
	}
	if sendCount != recvCount {
		return refuse(badParameter, "EI0003: %s: sendCount %d and recvCount %d differ", call, sendCount, recvCount)
	}
	if err := sameType(call, sendType, recvType); err != nil {
		return err
	}
	if err := notNull(call, argument{"stream", stream}); err != nil {
		return err
	}
	c, _, err := l.checked(call, comm, sendCount, sendType, 0)
	if err != nil {
		return err
	}
	b := even(sendCount, c.size)
	return c.trade(t, stream, trade{call, header{Type: sendType, Count: sendCount}, recvType, uint64(sendBuf), uint64(recvBuf), b, b})
}

func (l *Library) HcclAlltoAllV(t *rt.Thread, sendBuf uintptr, sendCounts, sdispls rt.In[uint64], sendType int32, recvBuf uintptr, recvCounts, rdispls rt.In[uint64], recvType int32, comm, stream rt.Handle) error {
	const call = "HcclAlltoAllV"
	c, err := l.usable(call, comm)
	if err != nil {
		return err
	}
	out, err := c.blocks(call, sendCounts, sdispls)
	if err != nil {
		return err
	}
	in, err := c.blocks(call, recvCounts, rdispls)
	if err != nil {
		return err
	}
	return c.trade(t, stream, trade{call, header{Type: sendType}, recvType, uint64(sendBuf), uint64(recvBuf), out, in})
}

// HcclAlltoAllVC is HcclAlltoAllV for blocks without gaps. sendCountMatrix holds the counts of
// all ranks: element [i][j] is the number of elements that rank i sends to rank j.
func (l *Library) HcclAlltoAllVC(t *rt.Thread, sendBuf uintptr, sendCountMatrix rt.In[uint64], sendType int32, recvBuf uintptr, recvType int32, comm, stream rt.Handle) error {
	const call = "HcclAlltoAllVC"
	c, err := l.usable(call, comm)
	if err != nil {
		return err
	}
	matrix := slices.Clone(sendCountMatrix.Slice(uint64(c.size * c.size)))
	if err := checkCounts(call, matrix); err != nil {
		return err
	}
	in := make([]uint64, c.size)
	for r := range in {
		in[r] = matrix[r*c.size+c.rank]
	}
	out := matrix[c.rank*c.size:][:c.size]
	return c.trade(t, stream, trade{call, header{Type: sendType}, recvType, uint64(sendBuf), uint64(recvBuf), packed(out), packed(in)})
}

func sameType(call string, send, recv int32) error {
	if send != recv {
		return refuse(badParameter, "EI0003: %s: sendType %d and recvType %d differ", call, send, recv)
	}
	return nil
}

// trade is an exchange of blocks. Elements of the header's type are sent and elements of
// recvType are received.
type trade struct {
	call       string
	header     header
	recvType   int32
	send, recv uint64
	out, in    blocks
}

// trade launches an exchange of blocks.
func (c *comm) trade(t *rt.Thread, stream rt.Handle, x trade) error {
	switch {
	case x.send == 0 && x.out.total() > 0:
		return null(x.call, "sendBuf")
	case x.recv == 0 && x.in.total() > 0:
		return null(x.call, "recvBuf")
	case x.send == x.recv && x.send != 0:
		return refuse(badParameter, "EI0003: %s: sendBuf and recvBuf are the same", x.call)
	case x.out.counts[c.rank] != x.in.counts[c.rank]:
		return refuse(badParameter, "EI0003: %s: rank %d sends itself %d elements and expects %d", x.call, c.rank, x.out.counts[c.rank], x.in.counts[c.rank])
	}
	if err := sameType(x.call, x.header.Type, x.recvType); err != nil {
		return err
	}
	e, err := c.library.checkElements(x.call, x.header.Type, 0)
	if err != nil {
		return err
	}
	p := c.exchange(func(r int) part { return x.out.of(e, x.send, r) }, func(r int) part { return x.in.of(e, x.recv, r) })
	return c.launch(t, stream, plan{x.call, x.header, []phase{p}})
}

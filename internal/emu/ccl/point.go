package ccl

import (
	"unsafe"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/rt"
)

// pointCall is the call name in the headers of all point-to-point messages, because HcclSend
// matches HcclRecv and both match the items of HcclBatchSendRecv.
const pointCall = "HcclSend/HcclRecv"

// peerCall holds the arguments of HcclSend or HcclRecv.
type peerCall struct {
	call, buffer, rank string // names of the function, of its buffer and of its peer argument
	buf                uintptr
	count              uint64
	dtype              int32
	peer               uint32
	comm, stream       rt.Handle
}

func (l *Library) HcclSend(t *rt.Thread, sendBuf uintptr, count uint64, dataType int32, destRank uint32, comm, stream rt.Handle) error {
	m := peerCall{"HcclSend", "sendBuf", "destRank", sendBuf, count, dataType, destRank, comm, stream}
	return l.point(t, m, func(x transfer) phase { return phase{sends: []transfer{x}, pairs: true} })
}

func (l *Library) HcclRecv(t *rt.Thread, recvBuf uintptr, count uint64, dataType int32, srcRank uint32, comm, stream rt.Handle) error {
	m := peerCall{"HcclRecv", "recvBuf", "srcRank", recvBuf, count, dataType, srcRank, comm, stream}
	return l.point(t, m, func(x transfer) phase { return phase{receives: []transfer{x}, pairs: true} })
}

func (l *Library) point(t *rt.Thread, m peerCall, make func(transfer) phase) error {
	if m.count == 0 {
		return nil
	}
	if err := notNull(m.call, argument{"comm", m.comm}, argument{m.buffer, uint64(m.buf)}, argument{"stream", m.stream}); err != nil {
		return err
	}
	c, e, err := l.checked(m.call, m.comm, m.count, m.dtype, 0)
	if err == nil {
		err = c.checkRank(m.call, m.rank, m.peer)
	}
	if err != nil {
		return err
	}
	if int(m.peer) == c.rank {
		return refuse(notSupported, "EI0003: %s: rank %d cannot be its own peer; use HcclBatchSendRecv", m.call, c.rank)
	}
	p := make(transfer{int(m.peer), e.at(uint64(m.buf), 0, m.count)})
	if l.grouped(t, c, m.stream, p) {
		return nil
	}
	return c.launch(t, m.stream, plan{pointCall, header{}, []phase{p}})
}

func (l *Library) HcclBatchSendRecv(t *rt.Thread, sendRecvInfo *item, itemNum uint32, comm, stream rt.Handle) error {
	const call = "HcclBatchSendRecv"
	switch {
	case comm == 0:
		return null(call, "comm")
	case stream == 0:
		return null(call, "stream")
	case sendRecvInfo == nil:
		return null(call, "sendRecvInfo")
	case itemNum == 0:
		return nil
	}
	c, err := l.usable(call, comm)
	if err != nil {
		return err
	}
	p, err := c.batch(unsafe.Slice(sendRecvInfo, itemNum))
	if err != nil {
		return err
	}
	return c.launch(t, stream, plan{pointCall, header{}, []phase{p}})
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

// The size of HcclSendRecvItem is 32 bytes: otherwise one of the constants overflows.
const (
	_ = uint(unsafe.Sizeof(item{}) - 32)
	_ = uint(32 - unsafe.Sizeof(item{}))
)

// batch turns items into a phase. Sends and receives of the rank to itself are paired to
// copies; the other messages go to their peers in order of appearance.
func (c *comm) batch(items []item) (phase, error) {
	const call = "HcclBatchSendRecv"
	p := phase{pairs: true}
	var out, in []item
	for i, x := range items {
		if x.buf == 0 {
			continue
		}
		e, err := c.library.checkElements(call, x.dtype, 0)
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
			return p, refuse(badParameter, "EI0003: %s: a send of %d elements of type %d to itself stands beside a receive of %d of type %d", call, out[i].count, out[i].dtype, in[i].count, in[i].dtype)
		}
		e := elements[out[i].dtype]
		p.local = append(p.local, move{e.at(in[i].buf, 0, in[i].count), e.at(out[i].buf, 0, out[i].count)})
	}
	return p, nil
}

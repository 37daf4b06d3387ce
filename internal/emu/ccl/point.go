package ccl

import (
	"unsafe"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/rt"
)

// pointCall is the name in the headers of all point-to-point messages: HcclSend pairs with
// HcclRecv, and both with the items of a batch.
const pointCall = "HcclSend/HcclRecv"

func (l *Library) send(t *rt.Thread, a []uint64) error {
	return l.point(t, "HcclSend", "sendBuf", "destRank", a, func(x transfer) phase { return phase{sends: []transfer{x}, pairs: true} })
}

func (l *Library) receive(t *rt.Thread, a []uint64) error {
	return l.point(t, "HcclRecv", "recvBuf", "srcRank", a, func(x transfer) phase { return phase{receives: []transfer{x}, pairs: true} })
}

func (l *Library) point(t *rt.Thread, call, buffer, rank string, a []uint64, make func(transfer) phase) error {
	buf, count, dtype, peer := a[0], a[1], int32(a[2]), uint32(a[3])
	if count == 0 {
		return nil
	}
	if err := notNull(call, []string{"comm", buffer}, a[4], buf); err != nil {
		return err
	}
	c, e, err := l.checked(call, a[4], count, dtype, 0)
	if err == nil {
		err = c.checkRank(call, rank, peer)
	}
	if err != nil {
		return err
	}
	if int(peer) == c.rank {
		return refuse(notSupported, "EI0003: %s: rank %d cannot be its own peer; use HcclBatchSendRecv", call, c.rank)
	}
	p := make(transfer{int(peer), e.at(buf, 0, count)})
	if l.grouped(t, c, a[5], p) {
		return nil
	}
	return c.launch(t, a[5], plan{pointCall, header{}, []phase{p}})
}

func (l *Library) batchSendRecv(t *rt.Thread, a []uint64) error {
	const call = "HcclBatchSendRecv"
	if err := notNull(call, []string{"comm", "sendRecvInfo"}, a[2], a[0]); err != nil {
		return err
	}
	if uint32(a[1]) == 0 {
		return nil
	}
	c, err := l.usable(call, a[2])
	if err != nil {
		return err
	}
	p, err := c.batch(rt.Read[item](a[0], uint64(uint32(a[1]))))
	if err != nil {
		return err
	}
	return c.launch(t, a[3], plan{pointCall, header{}, []phase{p}})
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

// The layout of HcclSendRecvItem: each constant overflows if a field moved.
const (
	_ = uint(unsafe.Sizeof(item{}) - 32)
	_ = uint(32 - unsafe.Sizeof(item{}))
)

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
		e, err := checkElements(call, x.dtype, 0)
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

package hccl

import (
	"runtime"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/cshim"
	"github.com/goascend/cann/internal/abi"
)

var batchSendRecv = cshim.NewFunc(cshim.HCCL, "HcclBatchSendRecv")

// Message is a tensor on its way to or from a peer, for Comm.Exchange.
type Message struct {
	tensor *aclnn.Tensor
	peer   int
	kind   int32
}

// SendTo sends t to a rank.
func SendTo(peer int, t *aclnn.Tensor) Message { return Message{t, peer, abi.HCCL_SEND} }

// RecvFrom receives t from a rank.
func RecvFrom(peer int, t *aclnn.Tensor) Message { return Message{t, peer, abi.HCCL_RECV} }

// sendRecvItem is HcclSendRecvItem.
type sendRecvItem struct {
	kind  int32
	_     int32
	buf   uint64
	count uint64
	dtype int32
	peer  uint32
}

// Exchange queues messages to and from peers that are under way at the same time, so that
// their order does not matter between different peers; those with one peer pair in the order
// given. A rank's messages to itself come in pairs of equal size and dtype. Tensors may have
// different dtypes. Empty messages are left out, on both sides (HcclBatchSendRecv).
func (c *Comm) Exchange(st *acl.Stream, messages ...Message) error {
	var items []sendRecvItem
	var own [2][]*aclnn.Tensor
	for _, m := range messages {
		p := pass{c, st, batchSendRecv, m.tensor, m.tensor}
		kind, err := p.start()
		if err == nil {
			err = p.member("peer", m.peer)
		}
		if err != nil {
			return err
		}
		if m.tensor.Len() == 0 {
			continue
		}
		if m.peer == c.rank {
			own[m.kind] = append(own[m.kind], m.tensor)
		}
		items = append(items, sendRecvItem{kind: m.kind, buf: m.tensor.Address(), count: uint64(m.tensor.Len()), dtype: int32(kind), peer: uint32(m.peer)})
	}
	if len(items) == 0 {
		return nil
	}
	sent, received := own[abi.HCCL_SEND], own[abi.HCCL_RECV]
	for i := range max(len(sent), len(received)) {
		p := pass{c, st, batchSendRecv, messages[0].tensor, messages[0].tensor}
		if i >= len(sent) || i >= len(received) {
			return p.refuse(ErrArgument, "rank %d has %d messages to itself and expects %d", c.rank, len(sent), len(received))
		}
		p.a, p.b = sent[i], received[i]
		if p.a.Len() != p.b.Len() || p.a.DType() != p.b.DType() {
			return p.refuse(ErrArgument, "message %d of rank %d to itself differs from what it expects", i, c.rank)
		}
	}
	var pin runtime.Pinner
	defer pin.Unpin()
	return c.do(batchSendRecv, &cshim.Call{Args: [cshim.Args]uint64{pinned(&pin, items), uint64(len(items)), c.handle, st.Handle()}})
}

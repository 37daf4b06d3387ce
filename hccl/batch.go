package hccl

import (
	"runtime"
	"slices"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/internal/abi"
)

// Message is a tensor on its way to or from a peer, for Comm.Exchange.
type Message struct {
	tensor *aclnn.Tensor
	peer   int
	kind   hcclSendRecvType
}

// SendTo sends t to a rank.
func SendTo(peer int, t *aclnn.Tensor) Message { return Message{t, peer, abi.HCCL_SEND} }

// RecvFrom receives t from a rank.
func RecvFrom(peer int, t *aclnn.Tensor) Message { return Message{t, peer, abi.HCCL_RECV} }

// Bytes is the size of the message, 0 of one without a tensor.
func (m Message) Bytes() int {
	if m.tensor == nil {
		return 0
	}
	return m.tensor.Bytes()
}

// Exchange queues messages that are under way at the same time (HcclBatchSendRecv). The order of
// messages with different peers does not matter; messages with one peer are matched in the order
// given. A rank's messages to itself come in pairs of equal size and dtype. Tensors may have
// different dtypes. Empty messages are dropped on both sides.
func (c *Comm) Exchange(st *acl.Stream, messages ...Message) error {
	if err := c.do(fnHcclBatchSendRecv, func() error { return c.queueable(st) }); err != nil {
		return err
	}
	var items []hcclSendRecvItem
	var own [2][]*aclnn.Tensor
	for _, m := range messages {
		p := pass{c, st, fnHcclBatchSendRecv, m.tensor, m.tensor}
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
		items = append(items, hcclSendRecvItem{sendRecvType: m.kind, buf: m.tensor.Address(), count: uint64(m.tensor.Len()), dataType: kind, remoteRank: uint32(m.peer)})
	}
	if len(items) == 0 {
		return nil
	}
	sent, received := own[abi.HCCL_SEND], own[abi.HCCL_RECV]
	for i := range max(len(sent), len(received)) {
		p := pass{c, st, fnHcclBatchSendRecv, messages[0].tensor, messages[0].tensor}
		if i >= len(sent) || i >= len(received) {
			return p.refuse(acl.ErrInvalidArgument, "rank %d has %d messages to itself and expects %d", c.rank, len(sent), len(received))
		}
		p.a, p.b = sent[i], received[i]
		if p.a.Len() != p.b.Len() || p.a.DType() != p.b.DType() {
			return p.refuse(acl.ErrInvalidArgument, "message %d of rank %d to itself differs from what it expects", i, c.rank)
		}
	}
	defer runtime.KeepAlive(messages) // and their tensors
	err := c.do(fnHcclBatchSendRecv, func() error {
		return hcclBatchSendRecv(c.context, &items[0], uint32(len(items)), c.handle, streamOf(st))
	})
	if err != nil {
		return err
	}
	return c.queued(st, true, tracked{call: fnHcclBatchSendRecv, peers: peersOf(items)})
}

// peersOf lists the other ranks of messages, in ascending order.
func peersOf(items []hcclSendRecvItem) []int {
	var peers []int
	for _, x := range items {
		peers = append(peers, int(x.remoteRank))
	}
	slices.Sort(peers)
	return slices.Compact(peers)
}

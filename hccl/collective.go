package hccl

import (
	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/cshim"
)

// AllReduce queues a reduction of all ranks' send into every rank's recv (HcclAllReduce). recv has
// as many elements as send and may be send itself.
func (c *Comm) AllReduce(st *acl.Stream, send, recv *aclnn.Tensor, op ReduceOp) error {
	p := pass{c, st, fnHcclAllReduce, send, recv}
	kind, err := p.check(length(send))
	if err != nil {
		return err
	}
	err = hcclAllReduce(c.context, addressOf(send), addressOf(recv), uint64(send.Len()), kind, hcclReduceOp(op), c.handle, streamOf(st))
	return p.queued(err, agreement{counted: true, count: send.Len(), reduces: true, op: op})
}

// Broadcast queues a copy of rank root's t to every rank's t (HcclBroadcast).
func (c *Comm) Broadcast(st *acl.Stream, t *aclnn.Tensor, root int) error {
	p := pass{c, st, fnHcclBroadcast, t, t}
	kind, err := p.start()
	if err == nil {
		err = p.member("root", root)
	}
	if err != nil {
		return err
	}
	err = hcclBroadcast(c.context, addressOf(t), uint64(t.Len()), kind, uint32(root), c.handle, streamOf(st))
	return p.queued(err, agreement{counted: true, count: t.Len(), rooted: true, root: root})
}

// Reduce queues a reduction of all ranks' send into recv of rank root (HcclReduce). All ranks pass
// a recv with as many elements as send; its contents are undefined afterwards on the other ranks.
// recv may be send itself.
func (c *Comm) Reduce(st *acl.Stream, send, recv *aclnn.Tensor, op ReduceOp, root int) error {
	p := pass{c, st, fnHcclReduce, send, recv}
	kind, err := p.check(length(send))
	if err == nil {
		err = p.member("root", root)
	}
	if err != nil {
		return err
	}
	err = hcclReduce(c.context, addressOf(send), addressOf(recv), uint64(send.Len()), kind, hcclReduceOp(op), uint32(root), c.handle, streamOf(st))
	return p.queued(err, agreement{counted: true, count: send.Len(), reduces: true, op: op, rooted: true, root: root})
}

// Scatter queues the distribution of rank root's send (HcclScatter): block r goes to recv of rank
// r, which has 1/Size as many elements. send is nil on the other ranks.
func (c *Comm) Scatter(st *acl.Stream, send, recv *aclnn.Tensor, root int) error {
	p := pass{c, st, fnHcclScatter, recv, send}
	want := length(recv) * int64(c.Size())
	if root != c.Rank() {
		p.b, want = recv, length(recv)
	}
	kind, err := p.check(want)
	if err == nil {
		err = p.member("root", root)
	}
	if err != nil {
		return err
	}
	var from uintptr
	if root == c.rank {
		from = addressOf(send)
	}
	err = hcclScatter(c.context, from, addressOf(recv), uint64(recv.Len()), kind, uint32(root), c.handle, streamOf(st))
	return p.queued(err, agreement{counted: true, count: recv.Len(), rooted: true, root: root})
}

// AllGather queues the concatenation of all ranks' send, in rank order, into every rank's recv,
// which has Size times as many elements (HcclAllGather).
func (c *Comm) AllGather(st *acl.Stream, send, recv *aclnn.Tensor) error {
	p := pass{c, st, fnHcclAllGather, send, recv}
	kind, err := p.check(length(send) * int64(c.Size()))
	if err != nil {
		return err
	}
	err = hcclAllGather(c.context, addressOf(send), addressOf(recv), uint64(send.Len()), kind, c.handle, streamOf(st))
	return p.queued(err, agreement{counted: true, count: send.Len()})
}

// ReduceScatter queues a reduction of all ranks' send; rank r receives block r of the result in
// recv, which has 1/Size as many elements (HcclReduceScatter).
func (c *Comm) ReduceScatter(st *acl.Stream, send, recv *aclnn.Tensor, op ReduceOp) error {
	p := pass{c, st, fnHcclReduceScatter, recv, send}
	kind, err := p.check(length(recv) * int64(c.Size()))
	if err != nil {
		return err
	}
	err = hcclReduceScatter(c.context, addressOf(send), addressOf(recv), uint64(recv.Len()), kind, hcclReduceOp(op), c.handle, streamOf(st))
	return p.queued(err, agreement{counted: true, count: recv.Len(), reduces: true, op: op})
}

// AllToAll queues an exchange of blocks (HcclAlltoAll): rank r receives block r of every rank's
// send, in rank order. Both tensors have the same number of elements, a multiple of Size, and must
// not share memory.
func (c *Comm) AllToAll(st *acl.Stream, send, recv *aclnn.Tensor) error {
	p := pass{c, st, fnHcclAlltoAll, send, recv}
	kind, err := p.check(length(send))
	if err == nil && send.Len()%int64(c.size) != 0 {
		err = p.refuse(acl.ErrInvalidArgument, "%d elements are not a multiple of %d ranks", send.Len(), c.size)
	}
	if err == nil {
		err = p.apart(send, recv)
	}
	if err != nil {
		return err
	}
	n := uint64(send.Len()) / uint64(c.size)
	err = hcclAlltoAll(c.context, addressOf(send), n, kind, addressOf(recv), n, kind, c.handle, streamOf(st))
	return p.queued(err, agreement{counted: true, count: send.Len()})
}

// Send queues a send of t to a rank, which must receive as many elements (HcclSend).
func (c *Comm) Send(st *acl.Stream, t *aclnn.Tensor, to int) error {
	return c.point(st, fnHcclSend, hcclSend, t, to)
}

// Recv queues a receive of t from a rank, which must send as many elements (HcclRecv).
func (c *Comm) Recv(st *acl.Stream, t *aclnn.Tensor, from int) error {
	return c.point(st, fnHcclRecv, hcclRecv, t, from)
}

// message is hcclSend or hcclRecv.
type message func(current aclrtContext, buf uintptr, count uint64, dataType hcclDataType, rank uint32, comm hcclComm, stream aclrtStream) error

// point queues a send or receive.
func (c *Comm) point(st *acl.Stream, f *cshim.Func, send message, t *aclnn.Tensor, peer int) error {
	p := pass{c, st, f, t, t}
	kind, err := p.start()
	if err == nil {
		err = p.member("peer", peer)
	}
	if err != nil {
		return err
	}
	if err := send(c.context, addressOf(t), uint64(t.Len()), kind, uint32(peer), c.handle, streamOf(st)); err != nil {
		return p.failed(err)
	}
	return c.queued(st, true, tracked{call: f, dtype: t.DType().String(), agreement: agreement{counted: true, count: t.Len()}, peers: []int{peer}})
}

// Barrier makes the stream wait until the streams of all ranks have reached the same barrier
// (HcclBarrier). The host does not wait.
func (c *Comm) Barrier(st *acl.Stream) error {
	err := c.do(fnHcclBarrier, func() error {
		if err := c.queueable(st); err != nil {
			return err
		}
		return hcclBarrier(c.context, c.handle, streamOf(st))
	})
	if err != nil {
		return err
	}
	return c.queued(st, false, tracked{call: fnHcclBarrier})
}

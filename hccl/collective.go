package hccl

import (
	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/cshim"
)

var (
	allReduce     = cshim.NewFunc(cshim.HCCL, "HcclAllReduce")
	reduceTo      = cshim.NewFunc(cshim.HCCL, "HcclReduce")
	broadcast     = cshim.NewFunc(cshim.HCCL, "HcclBroadcast")
	scatter       = cshim.NewFunc(cshim.HCCL, "HcclScatter")
	allGather     = cshim.NewFunc(cshim.HCCL, "HcclAllGather")
	reduceScatter = cshim.NewFunc(cshim.HCCL, "HcclReduceScatter")
	allToAll      = cshim.NewFunc(cshim.HCCL, "HcclAlltoAll")
	sendTo        = cshim.NewFunc(cshim.HCCL, "HcclSend")
	receiveFrom   = cshim.NewFunc(cshim.HCCL, "HcclRecv")
	barrier       = cshim.NewFunc(cshim.HCCL, "HcclBarrier")
)

// AllReduce queues the combination of all ranks' send into every rank's recv, which has the
// same number of elements and may be send itself (HcclAllReduce).
func (c *Comm) AllReduce(st *acl.Stream, send, recv *aclnn.Tensor, op ReduceOp) error {
	p := pass{c, st, allReduce, send, recv}
	kind, err := p.check(length(send))
	if err != nil {
		return err
	}
	return p.call(send.Address(), recv.Address(), uint64(send.Len()), kind, uint64(op), c.handle, st.Handle())
}

// Broadcast queues the copy of rank root's t to every rank's (HcclBroadcast).
func (c *Comm) Broadcast(st *acl.Stream, t *aclnn.Tensor, root int) error {
	p := pass{c, st, broadcast, t, t}
	kind, err := p.start()
	if err == nil {
		err = p.member("root", root)
	}
	if err != nil {
		return err
	}
	return p.call(t.Address(), uint64(t.Len()), kind, uint64(uint32(root)), c.handle, st.Handle())
}

// Reduce queues the combination of all ranks' send into recv of rank root. All ranks give a
// recv with as many elements as send, and what it holds afterwards on the others is
// undefined; it may be send itself (HcclReduce).
func (c *Comm) Reduce(st *acl.Stream, send, recv *aclnn.Tensor, op ReduceOp, root int) error {
	p := pass{c, st, reduceTo, send, recv}
	kind, err := p.check(length(send))
	if err == nil {
		err = p.member("root", root)
	}
	if err != nil {
		return err
	}
	return p.call(send.Address(), recv.Address(), uint64(send.Len()), kind, uint64(op), uint64(root), c.handle, st.Handle())
}

// Scatter queues the distribution of rank root's send: block r of it goes to recv of rank r,
// which has 1/Size as many elements. send is nil on the other ranks (HcclScatter).
func (c *Comm) Scatter(st *acl.Stream, send, recv *aclnn.Tensor, root int) error {
	p := pass{c, st, scatter, recv, send}
	want := length(recv) * int64(c.size)
	if root != c.rank {
		p.b, want = recv, length(recv)
	}
	kind, err := p.check(want)
	if err == nil {
		err = p.member("root", root)
	}
	if err != nil {
		return err
	}
	var from uint64
	if root == c.rank {
		from = send.Address()
	}
	return p.call(from, recv.Address(), uint64(recv.Len()), kind, uint64(root), c.handle, st.Handle())
}

// AllGather queues the concatenation of all ranks' send, by rank, into every rank's recv,
// which has Size times as many elements (HcclAllGather).
func (c *Comm) AllGather(st *acl.Stream, send, recv *aclnn.Tensor) error {
	p := pass{c, st, allGather, send, recv}
	kind, err := p.check(length(send) * int64(c.size))
	if err != nil {
		return err
	}
	return p.call(send.Address(), recv.Address(), uint64(send.Len()), kind, c.handle, st.Handle())
}

// ReduceScatter queues the combination of all ranks' send; rank r gets block r of it in
// recv, which has 1/Size as many elements (HcclReduceScatter).
func (c *Comm) ReduceScatter(st *acl.Stream, send, recv *aclnn.Tensor, op ReduceOp) error {
	p := pass{c, st, reduceScatter, recv, send}
	kind, err := p.check(length(recv) * int64(c.size))
	if err != nil {
		return err
	}
	return p.call(send.Address(), recv.Address(), uint64(recv.Len()), kind, uint64(op), c.handle, st.Handle())
}

// AllToAll queues the exchange of blocks: rank r gets block r of every rank's send, by rank.
// Both tensors have the same number of elements, a multiple of Size, and are different
// memory (HcclAlltoAll).
func (c *Comm) AllToAll(st *acl.Stream, send, recv *aclnn.Tensor) error {
	p := pass{c, st, allToAll, send, recv}
	kind, err := p.check(length(send))
	if err == nil && send.Len()%int64(c.size) != 0 {
		err = p.refuse(ErrArgument, "%d elements are not a multiple of %d ranks", send.Len(), c.size)
	}
	if err == nil {
		err = p.apart(send, recv)
	}
	if err != nil {
		return err
	}
	n := uint64(send.Len()) / uint64(c.size)
	return p.call(send.Address(), n, kind, recv.Address(), n, kind, c.handle, st.Handle())
}

// Send queues the sending of t to a rank that receives as many elements (HcclSend).
func (c *Comm) Send(st *acl.Stream, t *aclnn.Tensor, to int) error {
	return c.point(st, sendTo, t, to)
}

// Recv queues the receiving of t from a rank that sends as many elements (HcclRecv).
func (c *Comm) Recv(st *acl.Stream, t *aclnn.Tensor, from int) error {
	return c.point(st, receiveFrom, t, from)
}

func (c *Comm) point(st *acl.Stream, f *cshim.Func, t *aclnn.Tensor, peer int) error {
	p := pass{c, st, f, t, t}
	kind, err := p.start()
	if err == nil {
		err = p.member("peer", peer)
	}
	if err != nil {
		return err
	}
	return p.call(t.Address(), uint64(t.Len()), kind, uint64(uint32(peer)), c.handle, st.Handle())
}

// Barrier queues a wait of the stream for the same place in all ranks' streams
// (HcclBarrier). The host does not wait.
func (c *Comm) Barrier(st *acl.Stream) error {
	return c.do(barrier, &cshim.Call{Args: [cshim.Args]uint64{c.handle, st.Handle()}})
}

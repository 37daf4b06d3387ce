package hccl

import (
	"fmt"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/cshim"
	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/dtype"
)

var (
	allReduce     = cshim.NewFunc(cshim.HCCL, "HcclAllReduce")
	broadcast     = cshim.NewFunc(cshim.HCCL, "HcclBroadcast")
	allGather     = cshim.NewFunc(cshim.HCCL, "HcclAllGather")
	reduceScatter = cshim.NewFunc(cshim.HCCL, "HcclReduceScatter")
	allToAll      = cshim.NewFunc(cshim.HCCL, "HcclAlltoAll")
	sendTo        = cshim.NewFunc(cshim.HCCL, "HcclSend")
	receiveFrom   = cshim.NewFunc(cshim.HCCL, "HcclRecv")
	barrier       = cshim.NewFunc(cshim.HCCL, "HcclBarrier")
)

// dataTypes are HCCL's numbers of the element types.
var dataTypes = map[dtype.Type]uint64{
	dtype.Int8: abi.HCCL_DATA_TYPE_INT8, dtype.Int16: abi.HCCL_DATA_TYPE_INT16, dtype.Int32: abi.HCCL_DATA_TYPE_INT32,
	dtype.Float16: abi.HCCL_DATA_TYPE_FP16, dtype.Float32: abi.HCCL_DATA_TYPE_FP32, dtype.Int64: abi.HCCL_DATA_TYPE_INT64,
	dtype.Uint64: abi.HCCL_DATA_TYPE_UINT64, dtype.Uint8: abi.HCCL_DATA_TYPE_UINT8, dtype.Uint16: abi.HCCL_DATA_TYPE_UINT16,
	dtype.Uint32: abi.HCCL_DATA_TYPE_UINT32, dtype.Float64: abi.HCCL_DATA_TYPE_FP64, dtype.BFloat16: abi.HCCL_DATA_TYPE_BFP16,
}

// pass is one collective: its tensors, of which b has times as many elements as a.
type pass struct {
	c    *Comm
	st   *acl.Stream
	f    *cshim.Func
	a, b *aclnn.Tensor // b is a where there is one tensor
}

func (p pass) refuse(group error, format string, args ...any) error {
	return failed(p.f.Name(), p.c.rank, p.c.size, fmt.Errorf("%w: %s", group, fmt.Sprintf(format, args...)), p.a.String(), p.b.String())
}

// check refuses what HCCL would read wrongly. want is the number of elements of b.
func (p pass) check(want int64) (kind uint64, err error) {
	for _, t := range []*aclnn.Tensor{p.a, p.b} {
		switch {
		case t == nil:
			return 0, p.refuse(ErrArgument, "a tensor is nil")
		case t.Err() != nil:
			return 0, p.refuse(ErrArgument, "%v", t.Err())
		case !t.Contiguous():
			return 0, p.refuse(ErrArgument, "%v is not contiguous; copy it first", t)
		}
	}
	kind, known := dataTypes[p.a.DType()]
	switch {
	case p.c.closed.Load():
		return 0, p.refuse(ErrClosed, "the communicator is closed")
	case p.st.ContextHandle() != p.c.context:
		return 0, p.refuse(ErrArgument, "the stream is of another context than the communicator")
	case !known:
		return 0, p.refuse(ErrUnsupported, "HCCL has no %v elements", p.a.DType())
	case p.a.DType() != p.b.DType():
		return 0, p.refuse(ErrArgument, "the dtypes differ")
	case p.b.Len() != want:
		return 0, p.refuse(ErrArgument, "the second tensor has %d elements; %d are needed", p.b.Len(), want)
	}
	return kind, nil
}

// call queues the collective; HCCL does nothing for no elements.
func (p pass) call(args ...uint64) error {
	var c cshim.Call
	copy(c.Args[:], args)
	if err := c.Do(p.f, p.c.context); err != nil {
		return failed(p.f.Name(), p.c.rank, p.c.size, err, p.a.String(), p.b.String())
	}
	return nil
}

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
	kind, err := p.check(length(t))
	if err != nil {
		return err
	}
	return p.call(t.Address(), uint64(t.Len()), kind, uint64(uint32(root)), c.handle, st.Handle())
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
	kind, err := p.check(length(t))
	if err != nil {
		return err
	}
	return p.call(t.Address(), uint64(t.Len()), kind, uint64(uint32(peer)), c.handle, st.Handle())
}

// Barrier queues a wait of the stream for the same place in all ranks' streams
// (HcclBarrier). The host does not wait.
func (c *Comm) Barrier(st *acl.Stream) error {
	if c.closed.Load() {
		return failed(barrier.Name(), c.rank, c.size, ErrClosed)
	}
	call := cshim.Call{Args: [cshim.Args]uint64{c.handle, st.Handle()}}
	if err := call.Do(barrier, c.context); err != nil {
		return failed(barrier.Name(), c.rank, c.size, err)
	}
	return nil
}

// length is the number of elements of a tensor that may be nil.
func length(t *aclnn.Tensor) int64 {
	if t == nil {
		return 0
	}
	return t.Len()
}

package ops

import (
	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/hccl"
)

// Communicator is what parallel layers need of an HCCL communicator. The collectives are
// queued on the stream; all ranks queue the same in the same order. Tensors are contiguous
// and of one dtype. hccl.Comm is one.
type Communicator interface {
	Rank() int
	Size() int
	// AllReduce combines send over the ranks into recv, which may be the same tensor.
	AllReduce(st *acl.Stream, send, recv *aclnn.Tensor, op hccl.ReduceOp) error
	// AllGather joins the sends of all ranks, by rank, into recv.
	AllGather(st *acl.Stream, send, recv *aclnn.Tensor) error
	// ReduceScatter combines send over the ranks; part r of it goes to recv of rank r.
	ReduceScatter(st *acl.Stream, send, recv *aclnn.Tensor, op hccl.ReduceOp) error
	// AllToAll sends part j of send to rank j, and joins what comes, by rank, in recv.
	AllToAll(st *acl.Stream, send, recv *aclnn.Tensor) error
	// AllToAllV sends block j of send to rank j; what comes from rank j becomes block j of recv.
	AllToAllV(st *acl.Stream, send *aclnn.Tensor, out hccl.Blocks, recv *aclnn.Tensor, in hccl.Blocks) error
}

// PeerCommunicator is what a pipeline needs of an HCCL communicator of its stages. hccl.Comm
// is one.
type PeerCommunicator interface {
	Rank() int
	Size() int
	// Exchange queues messages as one batch on the stream: within a batch their order does not
	// matter, so that neighbours which send to each other both get on.
	Exchange(st *acl.Stream, messages ...hccl.Message) error
}

package parallel

import (
	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/hccl"
)

// Communicator holds the methods of an HCCL communicator that the parallel layers call; *hccl.Comm
// implements it. Collectives are queued on the stream, in the same order on all ranks. Tensors must
// be contiguous, and both tensors of a call must have one dtype.
type Communicator interface {
	PeerCommunicator
	// AllReduce combines send over the ranks into recv, which may be the same tensor.
	AllReduce(st *acl.Stream, send, recv *aclnn.Tensor, op hccl.ReduceOp) error
	// AllGather joins the sends of all ranks, by rank, into recv.
	AllGather(st *acl.Stream, send, recv *aclnn.Tensor) error
	// ReduceScatter combines send over the ranks and stores block r of the result in recv of rank
	// r.
	ReduceScatter(st *acl.Stream, send, recv *aclnn.Tensor, op hccl.ReduceOp) error
	// AllToAll sends block j of send to rank j and stores the blocks received, ordered by rank, in
	// recv.
	AllToAll(st *acl.Stream, send, recv *aclnn.Tensor) error
	// AllToAllV sends block j of send to rank j and stores the data received from rank j in block j
	// of recv.
	AllToAllV(st *acl.Stream, send *aclnn.Tensor, out hccl.Blocks, recv *aclnn.Tensor, in hccl.Blocks) error
}

// PeerCommunicator holds the methods of an HCCL communicator that a pipeline calls to exchange data
// between its stages, and a ring between its ranks; *hccl.Comm implements it.
type PeerCommunicator interface {
	Rank() int
	Size() int
	// Exchange queues messages as one batch on the stream. Their order within a batch does not
	// matter, so neighbours that send to each other do not deadlock.
	Exchange(st *acl.Stream, messages ...hccl.Message) error
}

// Sum returns a function for ops.ClipGradNormArgs.Sum that sums over the ranks of comm. It returns
// nil when comm is nil, which stands for a group of one rank.
func Sum(comm Communicator) func(st *acl.Stream, t *aclnn.Tensor) error {
	if comm == nil {
		return nil
	}
	return func(st *acl.Stream, t *aclnn.Tensor) error { return comm.AllReduce(st, t, t, hccl.Sum) }
}

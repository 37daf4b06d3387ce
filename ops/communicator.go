package ops

import (
	"context"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/hccl"
)

// Communicator is what parallel layers need of an HCCL communicator. The collectives are
// queued on the stream; all ranks queue the same in the same order. Tensors are contiguous
// and of one dtype. ctx bounds what the host waits for, such as the links that the first
// collective builds.
type Communicator interface {
	Rank() int
	Size() int
	// AllReduce combines send over the ranks into recv, which may be the same tensor.
	AllReduce(ctx context.Context, st *acl.Stream, send, recv *aclnn.Tensor, op hccl.ReduceOp) error
	// AllGather joins the sends of all ranks, by rank, into recv.
	AllGather(ctx context.Context, st *acl.Stream, send, recv *aclnn.Tensor) error
	// ReduceScatter combines send over the ranks; part r of it goes to recv of rank r.
	ReduceScatter(ctx context.Context, st *acl.Stream, send, recv *aclnn.Tensor, op hccl.ReduceOp) error
	// AllToAll sends part j of send to rank j, and joins what comes, by rank, in recv.
	AllToAll(ctx context.Context, st *acl.Stream, send, recv *aclnn.Tensor) error
}

package meter

import (
	"math/bits"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/hccl"
)

// Comm is a communicator whose calls are measured: those that the layers of ops/parallel make.
type Comm struct {
	*hccl.Comm
	m *Meter
}

// Comm lets the meter measure the calls of a communicator, when they are made on what it returns.
func (m *Meter) Comm(c *hccl.Comm) *Comm { return &Comm{c, m} }

func (c *Comm) measured(st *acl.Stream, name string, bytes int, queue func() error) error {
	return c.m.around(st, Call{Name: name, Bytes: bytes, Ranks: c.Size()}, queue)
}

// bytesOf returns the size of a tensor, 0 of none.
func bytesOf(t *aclnn.Tensor) int {
	if t == nil {
		return 0
	}
	return t.Bytes()
}

// AllReduce is hccl.Comm.AllReduce.
func (c *Comm) AllReduce(st *acl.Stream, send, recv *aclnn.Tensor, op hccl.ReduceOp) error {
	return c.measured(st, "all-reduce", bytesOf(send), func() error { return c.Comm.AllReduce(st, send, recv, op) })
}

// AllGather is hccl.Comm.AllGather.
func (c *Comm) AllGather(st *acl.Stream, send, recv *aclnn.Tensor) error {
	return c.measured(st, "all-gather", bytesOf(send), func() error { return c.Comm.AllGather(st, send, recv) })
}

// ReduceScatter is hccl.Comm.ReduceScatter.
func (c *Comm) ReduceScatter(st *acl.Stream, send, recv *aclnn.Tensor, op hccl.ReduceOp) error {
	return c.measured(st, "reduce-scatter", bytesOf(send), func() error { return c.Comm.ReduceScatter(st, send, recv, op) })
}

// AllToAll is hccl.Comm.AllToAll.
func (c *Comm) AllToAll(st *acl.Stream, send, recv *aclnn.Tensor) error {
	return c.measured(st, "all-to-all", bytesOf(send), func() error { return c.Comm.AllToAll(st, send, recv) })
}

// AllToAllV is hccl.Comm.AllToAllV.
func (c *Comm) AllToAllV(st *acl.Stream, send *aclnn.Tensor, out hccl.Blocks, recv *aclnn.Tensor, in hccl.Blocks) error {
	size := 1 << bits.Len(uint(max(bytesOf(send), bytesOf(recv))))
	return c.measured(st, "all-to-all-v", size, func() error { return c.Comm.AllToAllV(st, send, out, recv, in) })
}

// Exchange is hccl.Comm.Exchange.
func (c *Comm) Exchange(st *acl.Stream, messages ...hccl.Message) error {
	size := 0
	for _, m := range messages {
		size += m.Bytes()
	}
	return c.measured(st, "exchange", size, func() error { return c.Comm.Exchange(st, messages...) })
}

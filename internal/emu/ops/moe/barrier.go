package moe

import (
	"fmt"
	"slices"
	"time"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/op"
)

// barriers lists the operators that make ranks wait for each other.
var barriers = op.Table{"DistributeBarrier": distributeBarrier, "DistributeBarrierV2": distributeBarrier, "MoeDistributeBufferReset": bufferReset}.Selects("MoeDistributeBufferReset")

// distributeBarrier orders calls by xRef, which it leaves unchanged. The second version may bound the wait by the
// microseconds in timeOut, and let only those ranks wait for each other that elasticInfo lists.
func distributeBarrier(c *op.Call) (op.Run, error) {
	c.Plain(c.Tensor("xRef"))
	comm := c.Communicator("group")
	if n := c.Int("worldSize"); n != int64(comm.Size) {
		c.Unfit("worldSize is %d, but the group has %d ranks", n, comm.Size)
	}
	b := barrier{comm: comm}
	if c.Has("timeOut") {
		b.limit, b.elastic = c.Optional("timeOut"), c.Optional("elasticInfo")
	}
	for _, t := range []struct {
		*op.Tensor
		length int64
	}{{b.limit, 1}, {b.elastic, elasticHead + 2*int64(comm.Size)}} {
		if t.Tensor == nil {
			continue
		}
		c.Plain(t.Tensor)
		if t.DType != dtype.Int32 || !slices.Equal(t.Shape, []int64{t.length}) {
			c.Unfit("%v must be int32 [%d]", t.Tensor, t.length)
		}
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	if b.limit == nil && b.elastic == nil {
		c.Barrier(comm)
		return op.Nothing, nil
	}
	c.Compute(b.read)
	c.BarrierOf(comm, func() ([]int, time.Duration) { return b.ranks, b.within })
	return op.Nothing, nil
}

// elasticHead is the number of elements of elasticInfo before its tables: whether ranks have left, how many remain, the
// remaining ranks with shared experts, and the remaining experts. Two tables of all ranks follow: the new rank
// of each old one, and the old rank of each new one.
const elasticHead = 4

// barrier is a call with a limit of time or with ranks that have left.
type barrier struct {
	comm           op.Communicator
	limit, elastic *op.Tensor

	ranks  []int
	within time.Duration
}

// read reads the limit and the ranks when the device gets to the barrier.
func (b *barrier) read(*op.Exec) error {
	b.ranks, b.within = nil, 0
	if b.limit != nil {
		v, err := elementwise.Indices(b.limit.View())
		if err != nil {
			return err
		}
		if b.within = time.Duration(v[0]) * time.Microsecond; b.within <= 0 {
			return fmt.Errorf("%v holds %d; a barrier waits for at least a microsecond", b.limit, v[0])
		}
	}
	if b.elastic == nil {
		return nil
	}
	v, err := elementwise.Indices(b.elastic.View())
	if err != nil || v[0] != 1 {
		return err
	}
	if v[1] < 1 || v[1] > int64(b.comm.Size) {
		return fmt.Errorf("%v says that %d of %d ranks remain", b.elastic, v[1], b.comm.Size)
	}
	for _, r := range v[elasticHead+b.comm.Size:][:v[1]] {
		if r < 0 || r >= int64(b.comm.Size) {
			return fmt.Errorf("%v lists rank %d among those that remain; the group has %d", b.elastic, r, b.comm.Size)
		}
		b.ranks = append(b.ranks, int(r))
	}
	if !slices.Contains(b.ranks, b.comm.Rank) {
		return fmt.Errorf("%v does not list rank %d, which calls the barrier, among those that remain: %d", b.elastic, b.comm.Rank, b.ranks)
	}
	return nil
}

// bufferReset discards the remains of interrupted dispatches. In the emulator there are none,
// because every message belongs to a single call.
func bufferReset(c *op.Call) (op.Run, error) {
	links, comm := c.Tensor("elasticInfo"), c.Communicator("groupEp")
	c.Plain(links)
	c.DType(links, dtype.Int32)
	c.Fits(links, []int64{int64(comm.Size)}, "a flag for each rank")
	if n := c.Int("epWorldSize"); n != int64(comm.Size) {
		c.Unfit("epWorldSize is %d, but the group has %d ranks", n, comm.Size)
	}
	switch c.Int("needSync") {
	case 0:
	case 1:
		c.Barrier(comm)
	default:
		c.Unfit("needSync is %d; use 0 or 1", c.Int("needSync"))
	}
	return op.Nothing, c.Err()
}

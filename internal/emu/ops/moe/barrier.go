package moe

import (
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
)

// barriers lists the operators that make ranks wait for each other.
var barriers = op.Table{"DistributeBarrier": distributeBarrier, "DistributeBarrierV2": distributeBarrier, "MoeDistributeBufferReset": bufferReset}.Selects("MoeDistributeBufferReset")

// distributeBarrier orders calls by xRef, which it leaves unchanged.
func distributeBarrier(c *op.Call) (op.Run, error) {
	c.Plain(c.Tensor("xRef"))
	c.NoneOf("timeOut", "elasticInfo")
	comm := c.Communicator("group")
	if n := c.Int("worldSize"); n != int64(comm.Size) {
		c.Unfit("worldSize is %d, but the group has %d ranks", n, comm.Size)
	}
	c.Barrier(comm)
	return op.Nothing, c.Err()
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

package nn

import "github.com/goascend/cann/internal/dtype"

// barriers make ranks wait for each other.
var barriers = table{"DistributeBarrier": distributeBarrier, "DistributeBarrierV2": distributeBarrier, "MoeDistributeBufferReset": bufferReset}

// barrier makes the ranks of a group wait.
func (c *Call) barrier(comm Communicator) {
	c.collect(comm, "HcclBarrier", func(uint64) []uint64 { return nil })
}

// distributeBarrier orders calls by xRef, which it leaves alone.
func distributeBarrier(c *Call) (Run, error) {
	c.plain(c.Tensor("xRef"))
	c.noneOf("timeOut", "elasticInfo")
	comm := c.communicator("group")
	if n := c.Int("worldSize"); n != int64(comm.Size) {
		c.Unfit("worldSize is %d, but the group has %d ranks", n, comm.Size)
	}
	c.barrier(comm)
	return nothing, c.err
}

// bufferReset forgets what interrupted dispatches left behind, which here is nothing: every
// message of the emulator is part of one call.
func bufferReset(c *Call) (Run, error) {
	links, comm := c.Tensor("elasticInfo"), c.communicator("groupEp")
	c.plain(links)
	c.DType(links, dtype.Int32)
	c.fits(links, []int64{int64(comm.Size)}, "a flag for each rank")
	if n := c.Int("epWorldSize"); n != int64(comm.Size) {
		c.Unfit("epWorldSize is %d, but the group has %d ranks", n, comm.Size)
	}
	switch c.Int("needSync") {
	case 0:
	case 1:
		c.barrier(comm)
	default:
		c.Unfit("needSync is %d; use 0 or 1", c.Int("needSync"))
	}
	return nothing, c.err
}

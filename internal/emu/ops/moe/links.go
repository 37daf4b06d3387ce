package moe

import (
	"fmt"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/indexing"
	"github.com/goascend/cann/internal/emu/op"
)

// linkTests lists the operators that find out which ranks of a group reach each other.
var linkTests = op.Table{"ElasticReceivableTest": testLinks, "ElasticReceivableInfoCollect": collectLinks}

// world returns the group, whose size must be worldSize.
func world(c *op.Call) op.Communicator {
	comm := c.Communicator("group")
	if n := c.Int("worldSize"); c.Err() == nil && n != int64(comm.Size) {
		c.Invalid("worldSize is %d, but the group has %d ranks", n, comm.Size)
	}
	return comm
}

// testLinks sends a flag to each of some ranks without waiting for a reply.
func testLinks(c *op.Call) (op.Run, error) {
	ranks, comm, sent := c.Tensor("dstRank"), world(c), c.Links
	c.Plain(ranks)
	c.DType(ranks, dtype.Int32)
	c.Shape(ranks, []int64{c.Int("rank_num")}, "rank_num ranks")
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		list, err := elementwise.Indices(ranks.View())
		if err != nil {
			return err
		}
		for i, r := range list {
			if r < 0 || r >= int64(comm.Size) {
				return fmt.Errorf("%v holds rank %d at place %d; the group has %d", ranks, r, i, comm.Size)
			}
		}
		sent.Mark(comm, list)
		return nil
	}, nil
}

// collectLinks sets row i to the flags that rank i received since the previous call: s+1 from
// rank s, or 0. The row is 0 if this rank received no flag from rank i. Unlike on the device,
// the ranks wait for each other.
func collectLinks(c *op.Call) (op.Run, error) {
	y, comm, sent := c.Tensor("y"), world(c), c.Links
	size := int64(comm.Size)
	c.Plain(y)
	c.DType(y, dtype.Int32)
	c.Shape(y, []int64{size, size}, "a row and a column for each rank")
	if err := c.Err(); err != nil {
		return nil, err
	}
	mine, all := c.Scratch(dtype.Int32, size), c.Scratch(dtype.Int32, size, size)
	c.Compute(func(*op.Exec) error { return indexing.SetInts(mine.View(), sent.Take(comm)) })
	c.AllGather(comm, all, mine)
	return func(*op.Exec) error {
		from, err := elementwise.Indices(all.View()) // indexed by sender, then receiver
		if err != nil {
			return err
		}
		came := make([]int64, size*size)
		for i := range size {
			if from[i*size+int64(comm.Rank)] == 0 {
				continue
			}
			for s := range size {
				came[i*size+s] = from[s*size+i] * (s + 1)
			}
		}
		return indexing.SetInts(y.View(), came)
	}, nil
}

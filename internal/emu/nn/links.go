package nn

import (
	"fmt"
	"sync"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// linkTests find out which ranks of a group reach each other.
var linkTests = table{"ElasticReceivableTest": testLinks, "ElasticReceivableInfoCollect": collectLinks}

// links are the flags that the ranks of this process sent and nobody collected yet.
type links struct {
	mu   sync.Mutex
	sent map[uint64][]int64 // by communicator, 1 for each rank that was sent one
}

// mark notes flags to some ranks.
func (l *links) mark(comm Communicator, ranks []int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sent == nil {
		l.sent = make(map[uint64][]int64)
	}
	if l.sent[comm.Handle] == nil {
		l.sent[comm.Handle] = make([]int64, comm.Size)
	}
	for _, r := range ranks {
		l.sent[comm.Handle][r] = 1
	}
}

// take gives the flags and forgets them.
func (l *links) take(comm Communicator) []int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	sent := l.sent[comm.Handle]
	delete(l.sent, comm.Handle)
	if sent == nil {
		sent = make([]int64, comm.Size)
	}
	return sent
}

// world is the group, of worldSize ranks.
func (c *Call) world() Communicator {
	comm := c.communicator("group")
	if n := c.Int("worldSize"); c.err == nil && n != int64(comm.Size) {
		c.Invalid("worldSize is %d, but the group has %d ranks", n, comm.Size)
	}
	return comm
}

// testLinks sends a flag to each of some ranks and waits for none of them.
func testLinks(c *Call) (Run, error) {
	ranks, comm, sent := c.Tensor("dstRank"), c.world(), c.links
	c.plain(ranks)
	c.DType(ranks, dtype.Int32)
	c.Shape(ranks, []int64{c.Int("rank_num")}, "rank_num ranks")
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		list, err := kernel.Indices(ranks.View())
		if err != nil {
			return err
		}
		for i, r := range list {
			if r < 0 || r >= int64(comm.Size) {
				return fmt.Errorf("%v holds rank %d at place %d; the group has %d", ranks, r, i, comm.Size)
			}
		}
		sent.mark(comm, list)
		return nil
	}, nil
}

// collectLinks gives row i what came to rank i since the last time: s+1 from rank s, or 0. The
// row is 0 if nothing came from rank i to this one. The ranks wait for each other, as those of a
// device do not.
func collectLinks(c *Call) (Run, error) {
	y, comm, sent := c.Tensor("y"), c.world(), c.links
	size := int64(comm.Size)
	c.plain(y)
	c.DType(y, dtype.Int32)
	c.Shape(y, []int64{size, size}, "a row and a column for each rank")
	if err := c.Err(); err != nil {
		return nil, err
	}
	mine, all := c.scratch(dtype.Int32, size), c.scratch(dtype.Int32, size, size)
	c.compute(func(*Exec) error { return kernel.SetInts(mine.View(), sent.take(comm)) })
	c.allGather(comm, all, mine)
	return func(*Exec) error {
		from, err := kernel.Indices(all.View()) // by sender, then by receiver
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
		return kernel.SetInts(y.View(), came)
	}, nil
}

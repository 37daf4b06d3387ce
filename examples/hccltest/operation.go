package main

import (
	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/hccl"
)

// call is one rank's part in a collective. part is the number of elements per rank and block.
type call struct {
	*hccl.Comm
	st         *acl.Stream
	reduce     hccl.ReduceOp
	root       int
	part       int64
	send, recv *aclnn.Tensor
}

// operation is a collective that can be measured.
type operation struct {
	name    string
	reduces bool
	// shares says that the measured size is the total of all ranks' parts.
	shares bool
	// bus returns the ratio of bus bandwidth to algorithm bandwidth for n ranks.
	bus func(n float64) float64
	// send and recv return the number of elements in the buffers of a rank.
	send, recv func(c *call) int64
	queue      func(c *call) error
	// source returns which element of which rank's send buffer becomes element i of recv. The rank
	// is ignored in reductions.
	source  func(c *call, i int64) (rank int, element int64)
	defined func(c *call) bool
}

func one(c *call) int64 { return c.part }

func whole(c *call) int64 { return c.part * int64(c.Size()) }

func mine(c *call) int64 { return c.uneven().Counts[c.Rank()] }

func always(*call) bool { return true }

func atRoot(c *call) bool { return c.Rank() == c.root }

func ring(n float64) float64     { return 2 * (n - 1) / n }
func exchange(n float64) float64 { return (n - 1) / n }
func through(float64) float64    { return 1 }

// same maps an element to itself.
func same(_ *call, i int64) (int, int64) { return 0, i }

// own maps an element to this rank's block of the combined data.
func own(c *call, i int64) (int, int64) { return 0, int64(c.Rank())*c.part + i }

// uneven divides the data so that each rank has more than the previous one.
func (c *call) uneven() hccl.Blocks {
	n := int64(c.Size())
	var b hccl.Blocks
	for r := range n {
		b.Counts = append(b.Counts, 2*c.part*(r+1)/(n+1))
	}
	return b
}

// before returns where the block of a rank starts.
func before(b hccl.Blocks, rank int) int64 { return hccl.Packed(b.Counts[:rank]...).Total() }

// received returns the uneven blocks that this rank receives: every rank sends it the same amount.
func (c *call) received() (in hccl.Blocks) {
	for range c.Size() {
		in.Counts = append(in.Counts, mine(c))
	}
	return in
}

func (c *call) matrix() (m [][]int64) {
	for range c.Size() {
		m = append(m, c.uneven().Counts)
	}
	return m
}

// sendWhole returns the total length of the uneven blocks, which differs from that of even ones.
func sendWhole(c *call) int64 { return c.uneven().Total() }

func receivedTotal(c *call) int64 { return c.received().Total() }

func receivedSource(c *call, i int64) (int, int64) {
	return int(i / mine(c)), before(c.uneven(), c.Rank()) + i%mine(c)
}

var operations = []*operation{
	{name: "all_reduce", reduces: true, bus: ring, send: one, recv: one, source: same, defined: always,
		queue: func(c *call) error { return c.AllReduce(c.st, c.send, c.recv, c.reduce) }},
	{name: "reduce", reduces: true, bus: through, send: one, recv: one, source: same, defined: atRoot,
		queue: func(c *call) error { return c.Reduce(c.st, c.send, c.recv, c.reduce, c.root) }},
	{name: "reduce_scatter", reduces: true, shares: true, bus: exchange, send: whole, recv: one, source: own, defined: always,
		queue: func(c *call) error { return c.ReduceScatter(c.st, c.send, c.recv, c.reduce) }},
	{name: "reduce_scatterv", reduces: true, shares: true, bus: exchange, send: sendWhole, recv: mine, defined: always,
		queue:  func(c *call) error { return c.ReduceScatterV(c.st, c.send, c.recv, c.uneven(), c.reduce) },
		source: func(c *call, i int64) (int, int64) { return 0, before(c.uneven(), c.Rank()) + i }},
	{name: "broadcast", bus: through, send: one, recv: one, defined: always,
		queue: func(c *call) error {
			if c.Rank() == c.root {
				return c.Broadcast(c.st, c.send, c.root)
			}
			return c.Broadcast(c.st, c.recv, c.root)
		},
		source: func(c *call, i int64) (int, int64) { return c.root, i }},
	{name: "scatter", shares: true, bus: exchange, send: whole, recv: one, defined: always,
		queue:  func(c *call) error { return c.Scatter(c.st, c.send, c.recv, c.root) },
		source: func(c *call, i int64) (int, int64) { return c.root, int64(c.Rank())*c.part + i }},
	{name: "all_gather", shares: true, bus: exchange, send: one, recv: whole, defined: always,
		queue:  func(c *call) error { return c.AllGather(c.st, c.send, c.recv) },
		source: func(c *call, i int64) (int, int64) { return int(i / c.part), i % c.part }},
	{name: "all_gatherv", shares: true, bus: exchange, send: mine, recv: sendWhole, defined: always,
		queue: func(c *call) error { return c.AllGatherV(c.st, c.send, c.recv, c.uneven()) },
		source: func(c *call, i int64) (int, int64) {
			b, rank := c.uneven(), 0
			for ; i >= b.Counts[rank]; rank++ {
				i -= b.Counts[rank]
			}
			return rank, i
		}},
	{name: "alltoall", shares: true, bus: exchange, send: whole, recv: whole, defined: always,
		queue:  func(c *call) error { return c.AllToAll(c.st, c.send, c.recv) },
		source: func(c *call, i int64) (int, int64) { return int(i / c.part), int64(c.Rank())*c.part + i%c.part }},
	{name: "alltoallv", shares: true, bus: exchange, send: sendWhole, recv: receivedTotal, source: receivedSource, defined: always,
		queue: func(c *call) error { return c.AllToAllV(c.st, c.send, c.uneven(), c.recv, c.received()) }},
	{name: "alltoallvc", shares: true, bus: exchange, send: sendWhole, recv: receivedTotal, source: receivedSource, defined: always,
		queue: func(c *call) error { return c.AllToAllVC(c.st, c.send, c.recv, c.matrix()) }},
	{name: "sendrecv", bus: through, send: one, recv: one, defined: always,
		queue: func(c *call) error {
			next, last := (c.Rank()+1)%c.Size(), (c.Rank()+c.Size()-1)%c.Size()
			return c.Exchange(c.st, hccl.SendTo(next, c.send), hccl.RecvFrom(last, c.recv))
		},
		source: func(c *call, i int64) (int, int64) { return (c.Rank() + c.Size() - 1) % c.Size(), i }},
}

func operationNames() (names []string) {
	for _, p := range operations {
		names = append(names, p.name)
	}
	return names
}

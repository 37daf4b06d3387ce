package hccl

import (
	"runtime"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/cshim"
)

// Collectives whose blocks differ in size.
var (
	allGatherV     = cshim.NewFunc(cshim.HCCL, "HcclAllGatherV")
	reduceScatterV = cshim.NewFunc(cshim.HCCL, "HcclReduceScatterV")
	allToAllV      = cshim.NewFunc(cshim.HCCL, "HcclAlltoAllV")
	allToAllVC     = cshim.NewFunc(cshim.HCCL, "HcclAlltoAllVC")
)

// uneven is start for a collective between all blocks, which are written in one direction, and
// this rank's own.
func (p pass) uneven(all string, whole *aclnn.Tensor, own string, mine *aclnn.Tensor, b Blocks, written bool) (kind uint64, err error) {
	if kind, err = p.start(); err == nil {
		err = p.blocks(all, whole, b, written)
	}
	if err == nil && mine.Len() != b.Counts[p.c.rank] {
		err = p.refuse(ErrArgument, "%s has %d elements, and this rank's block %d", own, mine.Len(), b.Counts[p.c.rank])
	}
	if err == nil {
		err = p.apart(whole, mine)
	}
	return kind, err
}

// AllGatherV queues the joining of all ranks' send: that of rank r becomes block r of every
// rank's recv. All ranks give the same blocks; elements between them stay as they are. The
// tensors share no memory (HcclAllGatherV).
func (c *Comm) AllGatherV(st *acl.Stream, send, recv *aclnn.Tensor, blocks Blocks) error {
	p := pass{c, st, allGatherV, send, recv}
	kind, err := p.uneven("recv", recv, "send", send, blocks, true)
	if err != nil {
		return err
	}
	var pin runtime.Pinner
	defer pin.Unpin()
	counts, offsets := blocks.words()
	return p.call(send.Address(), uint64(send.Len()), recv.Address(), pinned(&pin, counts), pinned(&pin, offsets), kind, c.handle, st.Handle())
}

// ReduceScatterV queues the combination of all ranks' send; rank r gets block r of it in
// recv. All ranks give the same blocks; the tensors share no memory (HcclReduceScatterV).
func (c *Comm) ReduceScatterV(st *acl.Stream, send, recv *aclnn.Tensor, blocks Blocks, op ReduceOp) error {
	p := pass{c, st, reduceScatterV, send, recv}
	kind, err := p.uneven("send", send, "recv", recv, blocks, false)
	if err != nil {
		return err
	}
	var pin runtime.Pinner
	defer pin.Unpin()
	counts, offsets := blocks.words()
	return p.call(send.Address(), pinned(&pin, counts), pinned(&pin, offsets), recv.Address(), uint64(recv.Len()), kind, uint64(op), c.handle, st.Handle())
}

// AllToAllV queues the exchange of blocks: block r of send goes to rank r, and what rank r
// sends becomes block r of recv. Block r of recv is as large as what rank r sends here. The
// tensors share no memory; elements of recv outside its blocks stay as they are
// (HcclAlltoAllV).
func (c *Comm) AllToAllV(st *acl.Stream, send *aclnn.Tensor, out Blocks, recv *aclnn.Tensor, in Blocks) error {
	p := pass{c, st, allToAllV, send, recv}
	kind, err := p.start()
	if err == nil {
		err = p.blocks("send", send, out, false)
	}
	if err == nil {
		err = p.blocks("recv", recv, in, true)
	}
	if err == nil && out.Counts[c.rank] != in.Counts[c.rank] {
		err = p.refuse(ErrArgument, "rank %d sends itself %d elements and expects %d", c.rank, out.Counts[c.rank], in.Counts[c.rank])
	}
	if err == nil {
		err = p.apart(send, recv)
	}
	if err != nil {
		return err
	}
	var pin runtime.Pinner
	defer pin.Unpin()
	sendCounts, sendOffsets := out.words()
	recvCounts, recvOffsets := in.words()
	return p.call(send.Address(), pinned(&pin, sendCounts), pinned(&pin, sendOffsets), kind,
		recv.Address(), pinned(&pin, recvCounts), pinned(&pin, recvOffsets), kind, c.handle, st.Handle())
}

// AllToAllVC is AllToAllV for packed blocks whose sizes all ranks know: counts[i][j] elements
// go from rank i to rank j, the same on every rank. send has the elements of row Rank, recv
// those of column Rank. CANN 8.1 may lack it: the error is then ErrUnsupported, and AllToAllV
// does the same (HcclAlltoAllVC).
func (c *Comm) AllToAllVC(st *acl.Stream, send, recv *aclnn.Tensor, counts [][]int64) error {
	p := pass{c, st, allToAllVC, send, recv}
	kind, err := p.start()
	if err != nil {
		return err
	}
	matrix := make([]uint64, 0, c.size*c.size)
	var column int64
	for i, row := range counts {
		if len(row) != c.size {
			return p.refuse(ErrArgument, "row %d of the counts has %d entries for %d ranks", i, len(row), c.size)
		}
		for j, n := range row {
			if n < 0 {
				return p.refuse(ErrArgument, "%d elements from rank %d to rank %d", n, i, j)
			}
			matrix = append(matrix, uint64(n))
		}
		column += row[c.rank]
	}
	switch {
	case len(counts) != c.size:
		return p.refuse(ErrArgument, "the counts have %d rows for %d ranks", len(counts), c.size)
	case send.Len() != Packed(counts[c.rank]...).Total():
		return p.refuse(ErrArgument, "send has %d elements, and row %d of the counts %d", send.Len(), c.rank, Packed(counts[c.rank]...).Total())
	case recv.Len() != column:
		return p.refuse(ErrArgument, "recv has %d elements, and column %d of the counts %d", recv.Len(), c.rank, column)
	}
	if err := p.apart(send, recv); err != nil {
		return err
	}
	var pin runtime.Pinner
	defer pin.Unpin()
	return p.call(send.Address(), pinned(&pin, matrix), kind, recv.Address(), kind, c.handle, st.Handle())
}

// blocks refuses blocks that do not fit a tensor.
func (p pass) blocks(name string, t *aclnn.Tensor, b Blocks, written bool) error {
	if err := b.fit(name, t, p.c.size, written); err != nil {
		return p.refuse(ErrArgument, "%v", err)
	}
	return nil
}

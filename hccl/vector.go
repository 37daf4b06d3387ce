package hccl

import (
	"unsafe"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
)

// uneven is start for a collective between whole, which holds the blocks of all ranks, and mine,
// which holds this rank's block.
func (p pass) uneven(all string, whole *aclnn.Tensor, own string, mine *aclnn.Tensor, b Blocks, written bool) (kind hcclDataType, err error) {
	if kind, err = p.start(); err == nil {
		err = p.blocks(all, whole, b, written)
	}
	if err == nil && mine.Len() != b.Counts[p.c.rank] {
		err = p.refuse(acl.ErrInvalidArgument, "%s has %d elements, and this rank's block %d", own, mine.Len(), b.Counts[p.c.rank])
	}
	if err == nil {
		err = p.apart(whole, mine)
	}
	return kind, err
}

// AllGatherV queues a gather of all ranks' send (HcclAllGatherV): the data of rank r becomes block
// r of every rank's recv. All ranks pass the same blocks; elements between them are not changed.
// The tensors must not share memory.
func (c *Comm) AllGatherV(st *acl.Stream, send, recv *aclnn.Tensor, blocks Blocks) error {
	p := pass{c, st, fnHcclAllGatherV, send, recv}
	kind, err := p.uneven("recv", recv, "send", send, blocks, true)
	if err != nil {
		return err
	}
	counts, offsets := blocks.arrays()
	err = hcclAllGatherV(c.context, addressOf(send), uint64(send.Len()), addressOf(recv), unsafe.SliceData(counts), unsafe.SliceData(offsets), kind, c.handle, streamOf(st))
	return p.queued(err, agreement{})
}

// ReduceScatterV queues a reduction of all ranks' send; rank r receives block r of the result in
// recv (HcclReduceScatterV). All ranks pass the same blocks; the tensors must not share memory.
func (c *Comm) ReduceScatterV(st *acl.Stream, send, recv *aclnn.Tensor, blocks Blocks, op ReduceOp) error {
	p := pass{c, st, fnHcclReduceScatterV, send, recv}
	kind, err := p.uneven("send", send, "recv", recv, blocks, false)
	if err != nil {
		return err
	}
	counts, offsets := blocks.arrays()
	err = hcclReduceScatterV(c.context, addressOf(send), unsafe.SliceData(counts), unsafe.SliceData(offsets), addressOf(recv), uint64(recv.Len()), kind, hcclReduceOp(op), c.handle, streamOf(st))
	return p.queued(err, agreement{reduces: true, op: op})
}

// AllToAllV queues an exchange of blocks (HcclAlltoAllV): block r of send goes to rank r, and the
// data from rank r becomes block r of recv, which must have as many elements as rank r sends. The
// tensors must not share memory; elements of recv outside its blocks are not changed.
func (c *Comm) AllToAllV(st *acl.Stream, send *aclnn.Tensor, out Blocks, recv *aclnn.Tensor, in Blocks) error {
	p := pass{c, st, fnHcclAlltoAllV, send, recv}
	kind, err := p.start()
	if err == nil {
		err = p.blocks("send", send, out, false)
	}
	if err == nil {
		err = p.blocks("recv", recv, in, true)
	}
	if err == nil && out.Counts[c.rank] != in.Counts[c.rank] {
		err = p.refuse(acl.ErrInvalidArgument, "rank %d sends itself %d elements and expects %d", c.rank, out.Counts[c.rank], in.Counts[c.rank])
	}
	if err == nil {
		err = p.apart(send, recv)
	}
	if err != nil {
		return err
	}
	sendCounts, sendOffsets := out.arrays()
	recvCounts, recvOffsets := in.arrays()
	err = hcclAlltoAllV(c.context, addressOf(send), unsafe.SliceData(sendCounts), unsafe.SliceData(sendOffsets), kind,
		addressOf(recv), unsafe.SliceData(recvCounts), unsafe.SliceData(recvOffsets), kind, c.handle, streamOf(st))
	return p.queued(err, agreement{})
}

// AllToAllVC is AllToAllV for packed blocks whose sizes all ranks know (HcclAlltoAllVC).
// counts[i][j] elements go from rank i to rank j; counts is the same on every rank. send has the
// elements of row Rank, recv those of column Rank. CANN 8.1 lacks it: then the error is
// acl.ErrNotSupported, and AllToAllV does the same.
func (c *Comm) AllToAllVC(st *acl.Stream, send, recv *aclnn.Tensor, counts [][]int64) error {
	p := pass{c, st, fnHcclAlltoAllVC, send, recv}
	kind, err := p.start()
	if err != nil {
		return err
	}
	matrix := make([]uint64, 0, c.size*c.size)
	var column int64
	for i, row := range counts {
		if len(row) != c.size {
			return p.refuse(acl.ErrInvalidArgument, "row %d of the counts has %d entries for %d ranks", i, len(row), c.size)
		}
		for j, n := range row {
			if n < 0 {
				return p.refuse(acl.ErrInvalidArgument, "%d elements from rank %d to rank %d", n, i, j)
			}
			matrix = append(matrix, uint64(n))
		}
		column += row[c.rank]
	}
	switch {
	case len(counts) != c.size:
		return p.refuse(acl.ErrInvalidArgument, "the counts have %d rows for %d ranks", len(counts), c.size)
	case send.Len() != Packed(counts[c.rank]...).Total():
		return p.refuse(acl.ErrInvalidArgument, "send has %d elements, and row %d of the counts %d", send.Len(), c.rank, Packed(counts[c.rank]...).Total())
	case recv.Len() != column:
		return p.refuse(acl.ErrInvalidArgument, "recv has %d elements, and column %d of the counts %d", recv.Len(), c.rank, column)
	}
	if err := p.apart(send, recv); err != nil {
		return err
	}
	err = hcclAlltoAllVC(c.context, addressOf(send), unsafe.SliceData(matrix), kind, addressOf(recv), kind, c.handle, streamOf(st))
	return p.queued(err, agreement{})
}

// blocks refuses blocks that do not fit a tensor.
func (p pass) blocks(name string, t *aclnn.Tensor, b Blocks, written bool) error {
	if err := b.fit(name, t, p.c.size, written); err != nil {
		return p.refuse(acl.ErrInvalidArgument, "%v", err)
	}
	return nil
}

package parallel

import (
	"fmt"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/internal/check"
	"github.com/goascend/cann/ops/mask"
)

// Ulysses switches between a split of the sequence and a split of the heads (DeepSpeed Ulysses). A
// layer that needs whole sequences and treats each head independently, such as attention or the
// gated delta rule, runs between ToHeads and ToSequence: there every rank has all positions of its
// share of the heads. The number of heads, including key heads, must be a multiple of the number of
// ranks.
//
// Rank r holds the r-th block of heads and the positions that the split assigns to it. Whole
// sequences are in natural order, as a delta rule requires, even when the split is zig-zag.
// ToSequence computes the gradient of ToHeads and vice versa.
type Ulysses struct {
	comm  Communicator
	split mask.Split
}

// NewUlysses makes the exchange of one rank. comm may be nil for a group of one. split says which
// positions each rank holds, as in NewContextParallel.
func NewUlysses(comm Communicator, split mask.Split) *Ulysses {
	if comm != nil && comm.Size() == 1 {
		comm = nil
	}
	return &Ulysses{comm: comm, split: split}
}

// Size returns the number of ranks.
func (u *Ulysses) Size() int64 {
	if u == nil || u.comm == nil {
		return 1
	}
	return int64(u.comm.Size())
}

// Rank returns the number of this rank in the group.
func (u *Ulysses) Rank() int64 {
	if u == nil || u.comm == nil {
		return 0
	}
	return int64(u.comm.Rank())
}

// ToHeads redistributes x [B, S/n, N, D] into out [B, S, N/n, D] (layout BSND, n ranks).
func (u *Ulysses) ToHeads(st *acl.Stream, x, out *aclnn.Tensor) error {
	return u.exchange(st, "exchange to heads", x, out, 2, 1)
}

// ToSequence redistributes x [B, S, N/n, D] into out [B, S/n, N, D]. It is the inverse of ToHeads.
func (u *Ulysses) ToSequence(st *acl.Stream, x, out *aclnn.Tensor) error {
	return u.exchange(st, "exchange to the sequence", x, out, 1, 2)
}

// exchange splits one axis of x over the ranks and concatenates the received blocks along another
// axis of out.
func (u *Ulysses) exchange(st *acl.Stream, what string, x, out *aclnn.Tensor, split, join int) error {
	if err := given(what, u, st, x); err != nil {
		return err
	}
	ranks := u.Size()
	var c check.Args
	c.Tensor("X", x, check.Floats...)
	if c.OK() && x.Rank() != 4 {
		c.Fail("X is %v; it must be [batch, sequence, heads, head dimension]", x)
	}
	if c.OK() && x.Dim(split)%ranks != 0 {
		c.Fail("X is %v; dimension %d must be a multiple of the %d ranks", x, split, ranks)
	}
	if c.OK() {
		shape := x.Shape()
		shape[split] /= ranks
		shape[join] *= ranks
		c.Tensor("Out", out, x.DType())
		c.Shape("Out", out, shape...)
	}
	if c.Err != nil {
		return fmt.Errorf("%s: %w", what, c.Err)
	}
	return aclnn.Compose(st, func(s *aclnn.Scope) {
		if ranks == 1 || x.Len() == 0 {
			s.Copy(out, x)
			return
		}
		part := x.Shape()
		part[split] /= ranks
		blocks := append([]int64{ranks}, part...)
		send, recv := s.Tensor(x.DType(), blocks...), s.Tensor(x.DType(), blocks...)
		for r := range int(ranks) {
			u.eachBlock(s, x, split, r, send, func(inWhole, inBlock *aclnn.Tensor) { s.Copy(inBlock, inWhole) })
		}
		s.Do(func() error { return u.comm.AllToAll(st, send, recv) })
		for r := range int(ranks) {
			u.eachBlock(s, out, join, r, recv, func(inWhole, inBlock *aclnn.Tensor) { s.Copy(inWhole, inBlock) })
		}
	})
}

// eachBlock calls f with matching views of block r of an axis of whole and of blocks[r]. A block of
// heads is contiguous; a block of positions consists of the chunks that the split assigns.
func (u *Ulysses) eachBlock(s *aclnn.Scope, whole *aclnn.Tensor, axis, r int, blocks *aclnn.Tensor, f func(inWhole, inBlock *aclnn.Tensor)) {
	split := mask.Contiguous
	if axis == sequenceAxis {
		split = u.split
	}
	chunks, err := split.Chunks(whole.Dim(axis), r, u.comm.Size())
	if err != nil {
		s.Fail(fmt.Errorf("%w: %w", ops.ErrInvalid, err))
	}
	at := int64(0)
	for _, c := range chunks {
		f(whole.Narrow(axis, c.From, c.Len()), blocks.Select(0, int64(r)).Narrow(axis, at, c.Len()))
		at += c.Len()
	}
}

// sequenceAxis is the axis of positions in layout BSND.
const sequenceAxis = 1

package ops

import (
	"fmt"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/mask"
)

// Ulysses exchanges a split of the sequence for one of the heads: around a layer that needs
// whole sequences and treats each head by itself, such as attention or the gated delta rule,
// every rank gets all positions of its share of the heads. Each element travels once there
// and once back; the number of heads, of keys too, must be a multiple of the ranks.
//
// Rank r has the r-th block of heads, and the positions that the split gives it; whole sequences
// are in their natural order, which a delta rule needs though other layers may run zig-zag. The
// gradient of ToHeads is ToSequence, and the other way round.
type Ulysses struct {
	comm  Communicator
	split mask.Split
}

// NewUlysses makes the exchange of a rank. comm may be nil for a group of one. split says which
// positions a rank has, as in NewContextParallel.
func NewUlysses(comm Communicator, split mask.Split) *Ulysses {
	if comm != nil && comm.Size() == 1 {
		comm = nil
	}
	return &Ulysses{comm: comm, split: split}
}

// Size is the number of ranks.
func (u *Ulysses) Size() int64 {
	if u.comm == nil {
		return 1
	}
	return int64(u.comm.Size())
}

// Rank is this rank's number among them.
func (u *Ulysses) Rank() int64 {
	if u.comm == nil {
		return 0
	}
	return int64(u.comm.Rank())
}

// ToHeads turns x [B, S/n, N, D] into out [B, S, N/n, D]: layout BSND, of n ranks.
func (u *Ulysses) ToHeads(st *acl.Stream, x, out *aclnn.Tensor) error {
	return u.exchange(st, "exchange to heads", x, out, 2, 1)
}

// ToSequence turns x [B, S, N/n, D] into out [B, S/n, N, D], and so undoes ToHeads.
func (u *Ulysses) ToSequence(st *acl.Stream, x, out *aclnn.Tensor) error {
	return u.exchange(st, "exchange to the sequence", x, out, 1, 2)
}

// exchange splits one axis of x over the ranks and joins another in out.
func (u *Ulysses) exchange(st *acl.Stream, what string, x, out *aclnn.Tensor, split, join int) error {
	ranks := u.Size()
	var c check
	c.tensor("X", x, floats...)
	if c.ok() && x.Rank() != 4 {
		c.fail("X is %v; it must be [batch, sequence, heads, head dimension]", x)
	}
	if c.ok() && x.Dim(split)%ranks != 0 {
		c.fail("X is %v; dimension %d must be a multiple of the %d ranks", x, split, ranks)
	}
	if c.ok() {
		shape := x.Shape()
		shape[split] /= ranks
		shape[join] *= ranks
		c.tensor("Out", out, x.DType())
		c.shape("Out", out, shape...)
	}
	if c.err != nil {
		return fmt.Errorf("%s: %w", what, c.err)
	}
	return compose(st, func(s *steps) {
		if ranks == 1 || x.Len() == 0 {
			s.store(out, x)
			return
		}
		part := x.Shape()
		part[split] /= ranks
		blocks := append([]int64{ranks}, part...)
		send, recv := s.tensor(x.DType(), blocks...), s.tensor(x.DType(), blocks...)
		for r := range int(ranks) {
			u.eachBlock(s, x, split, r, send, func(inWhole, inBlock *aclnn.Tensor) { s.store(inBlock, inWhole) })
		}
		if s.err == nil {
			s.err = u.comm.AllToAll(st, send, recv)
		}
		for r := range int(ranks) {
			u.eachBlock(s, out, join, r, recv, func(inWhole, inBlock *aclnn.Tensor) { s.store(inWhole, inBlock) })
		}
	})
}

// eachBlock pairs the places of block r of an axis in whole with those in blocks[r]: heads lie
// together, positions as the split has them.
func (u *Ulysses) eachBlock(s *steps, whole *aclnn.Tensor, axis, r int, blocks *aclnn.Tensor, f func(inWhole, inBlock *aclnn.Tensor)) {
	split := mask.Contiguous
	if axis == sequenceAxis {
		split = u.split
	}
	chunks, err := split.Chunks(whole.Dim(axis), r, u.comm.Size())
	if err != nil && s.err == nil {
		s.err = fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	at := int64(0)
	for _, c := range chunks {
		f(whole.Narrow(axis, c.From, c.Len()), blocks.Select(0, int64(r)).Narrow(axis, at, c.Len()))
		at += c.Len()
	}
}

// sequenceAxis is that of positions in layout BSND.
const sequenceAxis = 1

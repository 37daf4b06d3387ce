package parallel

import (
	"errors"
	"fmt"
	"slices"

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
	return u.exchange(toHeads, st, x, out)
}

// ToSequence redistributes x [B, S, N/n, D] into out [B, S/n, N, D]. It is the inverse of ToHeads.
func (u *Ulysses) ToSequence(st *acl.Stream, x, out *aclnn.Tensor) error {
	return u.exchange(toSequence, st, x, out)
}

// BeginToHeads begins ToHeads on a stream of its own, beside the kernels that are queued on st until End. x may also be [B, S/n, n, N/n, D], with the heads of each
// rank in a dimension of their own; a part of these is then exchanged alone. The streams wait for each other by events, and the host does not wait. With a nil side the exchange runs on st.
// All ranks begin the same exchanges in the same order, all of a Ulysses with one side, which is on the device of st.
func (u *Ulysses) BeginToHeads(st, side *acl.Stream, x *aclnn.Tensor) (*UlyssesExchange, error) {
	return u.started(toHeads, st, side, x)
}

// BeginToSequence begins ToSequence as BeginToHeads does ToHeads. The tensor that End is given may also be [B, S/n, n, N/n, D].
func (u *Ulysses) BeginToSequence(st, side *acl.Stream, x *aclnn.Tensor) (*UlyssesExchange, error) {
	return u.started(toSequence, st, side, x)
}

// direction is a way of an exchange.
type direction string

const (
	toHeads    direction = "exchange to heads"
	toSequence direction = "exchange to the sequence"
)

// UlyssesExchange is an exchange that has begun. End or Close ends it.
type UlyssesExchange struct {
	u          *Ulysses
	way        direction
	st         *acl.Stream
	shape      []int64       // of the result
	block      []int64       // shape of what goes to one rank
	send, recv *aclnn.Tensor // a block for each rank
	arrived    *acl.Event    // nil once st has waited for the exchange
}

// exchange begins an exchange and ends it.
func (u *Ulysses) exchange(way direction, st *acl.Stream, x, out *aclnn.Tensor) error {
	h, err := u.prepare(way, st, x)
	if err == nil {
		err = h.accepts(out, x.DType())
	}
	switch {
	case err != nil:
		return err
	case u.comm == nil && x.Rank() == out.Rank():
		return aclnn.Copy(st, out, x)
	}
	if err := h.begin(nil, x); err != nil {
		return err
	}
	return h.End(out)
}

// started returns an exchange that has begun.
func (u *Ulysses) started(way direction, st, side *acl.Stream, x *aclnn.Tensor) (*UlyssesExchange, error) {
	h, err := u.prepare(way, st, x)
	if err == nil {
		err = h.begin(side, x)
	}
	if err != nil {
		return nil, err
	}
	return h, nil
}

// prepare checks the arguments of an exchange.
func (u *Ulysses) prepare(way direction, st *acl.Stream, x *aclnn.Tensor) (*UlyssesExchange, error) {
	if err := given(string(way), u, st, x); err != nil {
		return nil, err
	}
	shape, block, err := u.check(way, x)
	return &UlyssesExchange{u: u, way: way, st: st, shape: shape, block: block}, err
}

// check refuses what cannot be exchanged, and returns the shapes of the result and of the block of a rank.
func (u *Ulysses) check(way direction, x *aclnn.Tensor) (out, block []int64, err error) {
	ranks := u.Size()
	var c check.Args
	c.Tensor("X", x, check.Floats...)
	if c.OK() && x.Rank() != 4 && (way == toSequence || x.Rank() != 5 || x.Dim(2) != ranks) {
		c.Fail("X is %v; it must be [batch, sequence, heads, head dimension]", x)
	}
	if c.Err != nil {
		return nil, nil, fmt.Errorf("%s: %w", way, c.Err)
	}
	split, join := 2, sequenceAxis
	if way == toSequence {
		split, join = join, split
	}
	if out = x.Shape(); len(out) == 5 {
		out = []int64{out[0], out[1], out[2] * out[3], out[4]}
	}
	if out[split]%ranks != 0 {
		c.Fail("X is %v; dimension %d must be a multiple of the %d ranks", x, split, ranks)
		return nil, nil, fmt.Errorf("%s: %w", way, c.Err)
	}
	block = slices.Clone(out)
	block[split] /= ranks
	out[split] /= ranks
	out[join] *= ranks
	if _, err := u.split.Chunks(block[sequenceAxis]*ranks, 0, int(ranks)); err != nil {
		return nil, nil, fmt.Errorf("%s: %w: %w", way, ops.ErrInvalid, err)
	}
	return out, block, nil
}

// begin packs the blocks and queues their exchange.
func (h *UlyssesExchange) begin(side *acl.Stream, x *aclnn.Tensor) (err error) {
	for _, t := range []**aclnn.Tensor{&h.send, &h.recv} {
		if err == nil {
			*t, err = aclnn.New(h.st, x.DType(), append([]int64{h.u.Size()}, h.block...)...)
		}
	}
	if err == nil {
		err = h.copies(x, h.send, h.way == toHeads, func(inWhole, inBlock *aclnn.Tensor) (to, from *aclnn.Tensor) { return inBlock, inWhole })
	}
	if err == nil {
		err = h.queue(side)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("%s: %w", h.way, err), h.Close())
	}
	return nil
}

// queue queues the exchange of the blocks.
func (h *UlyssesExchange) queue(side *acl.Stream) error {
	switch {
	case h.send.Len() == 0:
		return nil
	case h.u.comm == nil:
		return aclnn.Copy(h.st, h.recv, h.send)
	case side == nil:
		return h.u.comm.AllToAll(h.st, h.send, h.recv)
	}
	err := side.WaitStream(h.st)
	if err == nil {
		err = h.u.comm.AllToAll(side, h.send, h.recv)
	}
	if err != nil {
		return err
	}
	if h.arrived, err = side.Record(); err != nil {
		h.send, h.recv = nil, nil // not freed: the exchange uses them, and nothing says until when
	}
	return err
}

// End makes the stream wait for the exchange, and stores its result in out.
func (h *UlyssesExchange) End(out *aclnn.Tensor) error {
	if h == nil || h.recv == nil {
		return fmt.Errorf("ulysses: %w", check.Invalid("the exchange has ended, or was not begun"))
	}
	err := h.accepts(out, h.recv.DType())
	if err == nil {
		err = h.arrive()
	}
	if err == nil {
		err = h.copies(out, h.recv, h.way == toSequence, func(inWhole, inBlock *aclnn.Tensor) (to, from *aclnn.Tensor) { return inWhole, inBlock })
	}
	return errors.Join(err, h.Close())
}

// accepts refuses a tensor that cannot have the result.
func (h *UlyssesExchange) accepts(out *aclnn.Tensor, dt aclnn.DType) error {
	var c check.Args
	c.Tensor("Out", out, dt)
	if c.OK() {
		shape := h.shape
		if h.way == toSequence && out.Rank() == 5 {
			n := h.u.Size()
			shape = []int64{shape[0], shape[1], n, shape[2] / n, shape[3]}
		}
		c.Shape("Out", out, shape...)
	}
	if c.Err != nil {
		return fmt.Errorf("%s: %w", h.way, c.Err)
	}
	return nil
}

// arrive makes the stream wait for the exchange, and frees what was sent.
func (h *UlyssesExchange) arrive() (err error) {
	if h.arrived != nil {
		err = errors.Join(h.st.Wait(h.arrived), h.arrived.Close())
		h.arrived = nil
	}
	if h.send != nil {
		err = errors.Join(err, h.send.Close())
		h.send = nil
	}
	return err
}

// Close ends an exchange without its result: the stream waits for it, because what follows there may use the same memory. Closing again does nothing.
func (h *UlyssesExchange) Close() error {
	if h == nil {
		return nil
	}
	err := h.arrive()
	if h.recv != nil {
		err = errors.Join(err, h.recv.Close())
		h.recv = nil
	}
	return err
}

// copies queues copies between a tensor and the blocks of all ranks: blocks of heads, or of the positions that the split gives to a rank.
func (h *UlyssesExchange) copies(whole, blocks *aclnn.Tensor, heads bool, way func(inWhole, inBlock *aclnn.Tensor) (to, from *aclnn.Tensor)) error {
	if whole.Len() == 0 {
		return nil
	}
	ranks := h.u.Size()
	if heads && whole.Rank() == 4 {
		whole = whole.Unflatten(2, ranks, whole.Dim(2)/ranks)
	}
	return aclnn.Compose(h.st, func(s *aclnn.Scope) {
		for r := range int(ranks) {
			block := blocks.Select(0, int64(r))
			if heads {
				s.Copy(way(whole.Select(2, int64(r)), block))
				continue
			}
			chunks, err := h.u.split.Chunks(whole.Dim(sequenceAxis), r, int(ranks))
			s.Fail(err)
			at := int64(0)
			for _, c := range chunks {
				s.Copy(way(whole.Narrow(sequenceAxis, c.From, c.Len()), block.Narrow(sequenceAxis, at, c.Len())))
				at += c.Len()
			}
		}
	})
}

// sequenceAxis is the axis of positions in layout BSND.
const sequenceAxis = 1

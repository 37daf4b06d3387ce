package model

import (
	"context"
	"errors"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/autograd"
	"github.com/goascend/cann/ops/parallel"
)

// pass is one forward pass and, if its tape records, one backward pass: the tape, which owns the activations
// and keeps the first error, and what else the layers need. After an error nothing is launched, so
// layers need not check errors; the caller checks once at the end.
type pass struct {
	*autograd.Tape
	memory aclnn.Scope // of what the layers read besides: tokens, tables, masks
	ctx    context.Context
	reg    *ops.Registry
	dt     aclnn.DType // of activations

	chunk     int  // of this rank's layers, which the pass computes
	backward  bool // the forward pass is over
	complete  bool // gradients are ready after the backward pass
	adds      bool // shards have gradients of earlier micro-batches
	tp        *parallel.TensorParallel
	cp        *parallel.ContextParallel
	ulysses   *parallel.Ulysses // for layers that need whole sequences
	headSide  *acl.Stream       // of its exchanges
	groups    int64             // Parallel.HeadGroups
	ep        *parallel.ExpertParallel
	store     storage
	trained   trained             // nil if no weights get gradients
	training  bool                // dropout applies
	adapter   *Adapter            // in use, or nil
	draws     map[*Adapter]uint64 // numbers of the pass for dropout
	draw      int64               // the first row of a chunk, whose mask of dropout is another one
	bank      *bankPass           // adapters of Advance, or nil
	multi     *multiAdapterPass   // adapters of GradientsEach, or nil
	narrow    narrowed            // the last input of a quantised product
	feed      *feed               // of a Trainer; nil otherwise
	detect    bool                // NaN and infinite elements
	balanced  bool                // the routing of experts has a loss
	balances  bool                // biases of experts learn their load
	room      expertRoom          // for rows of experts that share tokens
	routings  []autograd.Routing  // of the layers, if so
	copied    *int64              // of the model
	recompute Recompute
}

// Close frees the pass in stream order.
func (p *pass) Close() error {
	failed := p.Err()
	err := p.Tape.Close()
	if failed != nil { // the caller has it already
		err = nil
	}
	return errors.Join(err, p.memory.Close())
}

// do runs f unless the pass has failed.
func (p *pass) do(f func() error) {
	if p.Err() == nil {
		p.Fail(f())
	}
}

// queue runs operators that are not part of the tape, with memory that lives as long as the pass.
func (p *pass) queue(f func(s *aclnn.Scope)) {
	if p.Err() == nil {
		f(&p.memory)
		p.Fail(p.memory.Err())
	}
}

// enter returns x [tokens, ·] as the input of layers that are split over ranks: with sequence
// parallelism it gathers the rows of all ranks.
func (p *pass) enter(x *autograd.Var) *autograd.Var { return p.Gather(p.tp, x) }

// leave sums the partial outputs of such a layer over the ranks and keeps this rank's rows.
func (p *pass) leave(full *autograd.Var) *autograd.Var { return p.Reduce(p.tp, full) }

// tokens copies token ids to the device.
func (p *pass) tokens(ids []int32) (t *aclnn.Tensor) {
	p.queue(func(s *aclnn.Scope) {
		t = s.Tensor(aclnn.Int32, int64(len(ids)))
		s.Do(func() error {
			if p.feed != nil {
				return p.feed.take(s.Stream, t)
			}
			return aclnn.CopyToDevice(p.ctx, s.Stream, t, ids)
		})
	})
	return t
}

// read waits for a result and converts it to float32; it returns nil after an error.
func (p *pass) read(t *aclnn.Tensor) (values []float32) {
	p.do(func() error {
		values = make([]float32, t.Len())
		return fromDevice(p.ctx, p.Stream(), values, t)
	})
	if p.Err() != nil {
		return nil
	}
	return values
}

// scaled returns x times a factor.
func (p *pass) scaled(x *autograd.Var, factor float64) *autograd.Var {
	if factor == 1 {
		return x
	}
	return p.Scale(x, factor)
}

package model

import (
	"context"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/parallel"
)

// pass is one forward and backward pass: a scope, which owns the activations and keeps the first
// error, and other data that the layers need. After an error nothing is launched, so layers need
// not check errors; the caller checks once at the end.
type pass struct {
	aclnn.Scope
	ctx context.Context
	reg *ops.Registry
	dt  aclnn.DType // of activations

	accumulate bool // gradients are added to those of earlier micro-batches
	backward   bool // the forward pass is over
	tp         *parallel.TensorParallel
	cp         *parallel.ContextParallel
	ulysses    *parallel.Ulysses // for layers that need whole sequences
	exchange   bool              // whether attention is such a layer
	ep         *parallel.ExpertParallel
	store      storage
	trained    trained                // nil if no weights get gradients
	training   bool                   // dropout applies
	frozen     bool                   // the weights of the model get none
	adapter    *Adapter               // in use, or nil
	low        map[*Parameter]lowRank // of the adapter, by its first weight
	bank       *bankPass              // adapters of Advance, or nil
	multi      *multiAdapterPass      // adapters of GradientsEach, or nil
	narrow     narrowed               // the last input of a quantised product
	feed       *feed                  // of a Trainer; nil otherwise
	detect     bool                   // NaN and infinite elements
	balance    balance                // of the experts of all layers
	copied     *int64                 // of the model
}

// enter returns x [tokens, ·] as the input of layers that are split over ranks: with sequence
// parallelism it gathers the rows of all ranks.
func (p *pass) enter(x *aclnn.Tensor) *aclnn.Tensor {
	if !p.tp.Sequence() {
		return x
	}
	full := p.Tensor(x.DType(), x.Dim(0)*p.tp.Size(), x.Dim(1))
	p.Do(func() error { return p.tp.Gather(p.Stream, x, full) })
	return full
}

// leave sums the partial outputs of such a layer over the ranks and keeps this rank's rows.
func (p *pass) leave(full *aclnn.Tensor) *aclnn.Tensor {
	x := full
	if p.tp.Sequence() {
		x = p.Tensor(full.DType(), full.Dim(0)/p.tp.Size(), full.Dim(1))
	}
	p.Do(func() error { return p.tp.Reduce(p.Stream, full, x) })
	return x
}

// gradient returns the gradient of a weight. Operators that compute it together with that of their
// input get scratch memory for it if the weight is frozen.
func (p *pass) gradient(w *Parameter) *aclnn.Tensor {
	if !p.frozen {
		return w.Grad
	}
	return p.Tensor(aclnn.Float32, w.local()...)
}

// adding reports whether such operators add to the gradient of a weight.
func (p *pass) adding() bool { return p.accumulate && !p.frozen }

// add computes x += y.
func (p *pass) add(x, y *aclnn.Tensor) {
	aclnn.Launch(&p.Scope, aclnn.InplaceAdd, aclnn.InplaceAddParams{Self: x, Other: y, Alpha: aclnn.Float(1)})
}

// sum returns x + y in a new tensor.
func (p *pass) sum(x, y *aclnn.Tensor) *aclnn.Tensor {
	out := p.Like(x)
	aclnn.Launch(&p.Scope, aclnn.Add, aclnn.AddParams{Self: x, Other: y, Alpha: aclnn.Float(1), Out: out})
	return out
}

// product returns x·y in a new tensor; y broadcasts.
func (p *pass) product(x, y *aclnn.Tensor) *aclnn.Tensor {
	out := p.Like(x)
	aclnn.Launch(&p.Scope, aclnn.Mul, aclnn.MulParams{Self: x, Other: y, Out: out})
	return out
}

// tokens copies token ids to the device.
func (p *pass) tokens(ids []int32) *aclnn.Tensor {
	t := p.Tensor(aclnn.Int32, int64(len(ids)))
	if p.feed != nil {
		p.Do(func() error { return p.feed.take(p.Stream, t) })
		return t
	}
	p.Do(func() error { return aclnn.CopyToDevice(p.ctx, p.Stream, t, ids) })
	return t
}

// read waits for a result and converts it to float32; it returns nil after an error.
func (p *pass) read(t *aclnn.Tensor) (values []float32) {
	p.Do(func() error {
		wide := p.Cast(t, aclnn.Float32)
		if err := p.Err(); err != nil {
			return err
		}
		values = make([]float32, wide.Len())
		return aclnn.CopyFromDevice(p.ctx, p.Stream, values, wide)
	})
	return values
}

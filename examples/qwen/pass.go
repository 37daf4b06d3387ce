package qwen

import (
	"context"
	"errors"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
)

// pass is one forward and backward: it makes the activations and frees them together, and
// keeps the first error, after which it launches nothing more. So a layer reads like the
// formula, and the error is looked at once.
type pass struct {
	ctx  context.Context
	st   *acl.Stream
	reg  *ops.Registry
	dt   aclnn.DType // of activations
	made []*aclnn.Tensor
	err  error

	accumulate bool // gradients are added to those of earlier micro-batches
	tp         *ops.TensorParallel
	cp         *ops.ContextParallel
	ulysses    *ops.Ulysses // of layers that need whole sequences
	exchange   bool         // attention is one of them
	ep         *ops.ExpertParallel
	store      storage
	plans      []*ops.ExpertPlan
	balance    balance // of the experts of all layers
}

// enter is x [tokens, ·] as layers that are split over ranks read it: with sequence
// parallelism the rows of all of them.
func (p *pass) enter(x *aclnn.Tensor) *aclnn.Tensor {
	if p.err != nil || !p.tp.Sequence() {
		return x
	}
	full := p.tensor(x.DType(), x.Dim(0)*p.tp.Size(), x.Dim(1))
	if p.err == nil {
		p.err = p.tp.Gather(p.st, x, full)
	}
	return full
}

// leave sums what the ranks' shares of such a layer give, and keeps this rank's rows.
func (p *pass) leave(full *aclnn.Tensor) *aclnn.Tensor {
	x := full
	if p.err == nil && p.tp.Sequence() {
		x = p.tensor(full.DType(), full.Dim(0)/p.tp.Size(), full.Dim(1))
	}
	if p.err == nil {
		p.err = p.tp.Reduce(p.st, full, x)
	}
	return x
}

// tensor makes an activation.
func (p *pass) tensor(dt aclnn.DType, shape ...int64) *aclnn.Tensor {
	if p.err != nil {
		return nothing
	}
	t, err := aclnn.New(p.st, dt, shape...)
	if err != nil {
		p.err = err
		return nothing
	}
	p.made = append(p.made, t)
	return t
}

// nothing stands in for tensors after an error: no launch sees it.
var nothing = new(aclnn.Tensor)

// like makes an activation with the shape and dtype of another.
func (p *pass) like(t *aclnn.Tensor) *aclnn.Tensor { return p.tensor(t.DType(), t.Shape()...) }

// run runs an operator unless something failed before.
func run[A any](p *pass, op *ops.Op[A], args *A) {
	if p.err == nil {
		p.err = op.Run(p.ctx, p.st, args)
	}
}

// launch runs an aclnn operator unless something failed before.
func launch[P any](p *pass, operator func(*acl.Stream, P) error, params P) {
	if p.err == nil {
		p.err = operator(p.st, params)
	}
}

// add is x += y.
func (p *pass) add(x, y *aclnn.Tensor) {
	launch(p, aclnn.InplaceAdd, aclnn.InplaceAddParams{SelfRef: x, Other: y, Alpha: aclnn.Float(1)})
}

// sum is x + y in a new tensor.
func (p *pass) sum(x, y *aclnn.Tensor) *aclnn.Tensor {
	out := p.like(x)
	launch(p, aclnn.Add, aclnn.AddParams{Self: x, Other: y, Alpha: aclnn.Float(1), Out: out})
	return out
}

// product is x·y in a new tensor; y broadcasts.
func (p *pass) product(x, y *aclnn.Tensor) *aclnn.Tensor {
	out := p.like(x)
	launch(p, aclnn.Mul, aclnn.MulParams{Self: x, Other: y, Out: out})
	return out
}

// copy is dst = src, between views.
func (p *pass) copy(dst, src *aclnn.Tensor) {
	launch(p, aclnn.InplaceCopy, aclnn.InplaceCopyParams{SelfRef: dst, Src: src})
}

// tokens brings token ids to the device.
func (p *pass) tokens(ids []int32) (*aclnn.Tensor, error) {
	t := p.tensor(aclnn.Int32, int64(len(ids)))
	if p.err != nil {
		return nil, p.err
	}
	return t, aclnn.CopyToDevice(p.ctx, p.st, t, ids)
}

// read waits for a result and converts it to float32.
func (p *pass) read(t *aclnn.Tensor) ([]float32, error) {
	if p.err != nil {
		return nil, p.err
	}
	wide := p.tensor(aclnn.Float32, t.Shape()...)
	launch(p, aclnn.Cast, aclnn.CastParams{Self: t, Dtype: aclnn.Float32, Out: wide})
	if p.err != nil {
		return nil, p.err
	}
	values := make([]float32, wide.Len())
	return values, aclnn.CopyFromDevice(p.ctx, p.st, values, wide)
}

// close frees the activations, in stream order.
func (p *pass) close() error {
	var err error
	for _, t := range p.made {
		err = errors.Join(err, t.Close())
	}
	for _, plan := range p.plans {
		err = errors.Join(err, plan.Close())
	}
	p.made, p.plans = nil, nil
	return err
}

package qwen

import (
	"context"
	"errors"
	"fmt"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
)

// storage keeps the weights of a model: whole on every rank that computes with them, or in
// shards. A unit is open while layers read it.
type storage interface {
	open(p *pass, u int)
	close(p *pass, u int)
	// begin gives the open unit's parameters gradients to write; ready says that all that
	// goes into them in this step has been queued, finish that this is so for all units.
	begin(p *pass, u int)
	ready(p *pass, u int)
	finish() error

	// set and get copy this rank's part of a parameter from and to the host.
	set(ctx context.Context, q *Parameter, values []float32) error
	get(ctx context.Context, q *Parameter) ([]float32, error)
	slots() []slot
	Close() error
}

// slot is what the optimiser updates at once.
type slot struct {
	master, grad *aclnn.Tensor // float32
	copy         *aclnn.Tensor // of master in the dtype of the model, nil when it is float32
	copies       int           // ranks that have the same
}

// replicated is memory for all of each weight.
type replicated struct {
	st             *acl.Stream
	memory         memory
	ps             *parameters
	tp             *ops.TensorParallel
	dense, experts *ops.Gradients // exchanged over other ranks
	place          map[*Parameter]int
	list           []slot
}

func newReplicated(st *acl.Stream, ps *parameters, dt aclnn.DType, par *Parallel, tp *ops.TensorParallel) (*replicated, error) {
	r := &replicated{st: st, memory: memory{st: st}, ps: ps, tp: tp, place: map[*Parameter]int{}}
	if err := r.allocate(dt, par); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func (r *replicated) allocate(dt aclnn.DType, par *Parallel) (err error) {
	var shapes [2][][]int64 // dense, experts
	for _, u := range r.ps.units {
		for _, w := range u {
			if w.Value, err = r.memory.tensor(dt, w.local()...); err != nil {
				return err
			}
			w.Master = w.Value
			if dt != aclnn.Float32 {
				if w.Master, err = r.memory.tensor(aclnn.Float32, w.local()...); err != nil {
					return err
				}
			}
			kind := 0
			if w.spread.experts {
				kind = 1
			}
			r.place[w] = len(shapes[kind])
			shapes[kind] = append(shapes[kind], w.local())
		}
	}
	// The loss is a mean over the labels of all ranks already: gradients are summed.
	sum := ops.GradientsConfig{Scale: 1}
	if r.dense, err = ops.NewGradients(r.st, par.Data, aclnn.Float32, shapes[0], sum); err != nil {
		return err
	}
	if r.experts, err = ops.NewGradients(r.st, par.ExpertData, aclnn.Float32, shapes[1], sum); err != nil {
		return err
	}
	for _, u := range r.ps.units {
		for _, w := range u {
			w.Grad = r.gradients(w).Tensor(r.place[w])
			s := slot{master: w.Master, grad: w.Grad, copies: par.copies(w)}
			if w.Value != w.Master {
				s.copy = w.Value
			}
			r.list = append(r.list, s)
		}
	}
	for _, q := range r.ps.all {
		if w := q.stack; w != nil {
			rows := q.local()[0]
			q.Value, q.Master, q.Grad = w.Value.Narrow(0, q.row, rows), w.Master.Narrow(0, q.row, rows), w.Grad.Narrow(0, q.row, rows)
		}
	}
	return nil
}

func (r *replicated) gradients(w *Parameter) *ops.Gradients {
	if w.spread.experts {
		return r.experts
	}
	return r.dense
}

func (r *replicated) open(*pass, int)  {}
func (r *replicated) close(*pass, int) {}
func (r *replicated) begin(*pass, int) {}

func (r *replicated) ready(p *pass, u int) {
	for _, w := range r.ps.units[u] {
		p.sumParts(w)
		if p.err == nil {
			p.err = r.gradients(w).Ready(r.place[w])
		}
	}
}

// sumParts completes the gradient of a weight that tensor-parallel ranks have seen parts of.
func (p *pass) sumParts(w *Parameter) {
	switch {
	case p.err != nil || w.spread.parts > 0 || w.spread.experts:
	case w.heads:
		p.err = p.tp.Sum(p.st, w.Grad)
	default:
		p.err = p.tp.SumPartial(p.st, w.Grad)
	}
}

func (r *replicated) finish() error { return errors.Join(r.dense.Finish(), r.experts.Finish()) }

func (r *replicated) set(ctx context.Context, q *Parameter, values []float32) error {
	if err := aclnn.CopyToDevice(ctx, r.st, q.Master, values); err != nil {
		return fmt.Errorf("qwen: %v: %w", q, err)
	}
	if q.Master == q.Value {
		return nil
	}
	return aclnn.Cast(r.st, aclnn.CastParams{Self: q.Master, Dtype: q.Value.DType(), Out: q.Value})
}

func (r *replicated) get(ctx context.Context, q *Parameter) ([]float32, error) {
	values := make([]float32, q.Master.Len())
	return values, aclnn.CopyFromDevice(ctx, r.st, values, q.Master)
}

func (r *replicated) slots() []slot { return r.list }

func (r *replicated) Close() error {
	var errs []error
	for _, g := range []*ops.Gradients{r.experts, r.dense} {
		if g != nil {
			errs = append(errs, g.Close())
		}
	}
	return errors.Join(append(errs, r.memory.close())...)
}

package model

import (
	"context"
	"errors"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/examples/meter"
	"github.com/goascend/cann/ops/autograd"
	"github.com/goascend/cann/ops/parallel"
)

// replicated stores all of each weight on every rank that computes with it.
type replicated struct {
	st             *acl.Stream
	dt             aclnn.DType
	memory         aclnn.Scope
	ps             *parameters
	dense, experts *parallel.Gradients // exchanged over different ranks
	place          map[*Parameter]int  // index in its gradients
	slot           map[*Parameter]int  // index in list
	list           []slot
	meter          *meter.Meter
}

// newReplicated allocates weights; frozen ones have no gradients.
func newReplicated(st *acl.Stream, ps *parameters, dt aclnn.DType, par *Parallel, frozen bool) (*replicated, error) {
	r := &replicated{st: st, dt: dt, memory: aclnn.Scope{Stream: st}, ps: ps, place: map[*Parameter]int{}, slot: map[*Parameter]int{}, meter: par.Meter}
	if err := r.allocate(dt, par, frozen); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func (r *replicated) allocate(dt aclnn.DType, par *Parallel, frozen bool) error {
	for _, u := range r.ps.units {
		for _, w := range u {
			kept := dt
			if w.constant { // its few numbers choose, and are not rounded
				kept = aclnn.Float32
			}
			if w.deferred {
				w.Var = autograd.NewParameter(nil, nil)
				r.slot[w], r.list = len(r.list), append(r.list, slot{vectors: w.vector()})
				continue
			}
			w.Var = autograd.NewParameter(r.memory.Tensor(kept, w.local()...), nil)
			w.Master = w.Value
			if kept != aclnn.Float32 && !frozen {
				w.Master = r.memory.Tensor(aclnn.Float32, w.local()...)
			}
			s := slot{master: w.Master, copies: par.copies(w), vectors: w.vector(), constant: w.constant}
			if w.Value != w.Master {
				s.copy = w.Value
			}
			r.slot[w], r.list = len(r.list), append(r.list, s)
		}
	}
	if err := r.memory.Err(); err != nil {
		return err
	}
	if !frozen {
		if err := r.allocateGradients(par); err != nil {
			return err
		}
	}
	for _, q := range r.ps.all {
		w := q.stack
		if w == nil {
			continue
		}
		if w.deferred {
			q.Var = autograd.NewParameter(nil, nil)
			continue
		}
		rows := func(t *aclnn.Tensor) *aclnn.Tensor { return t.Narrow(0, q.row, q.local()[0]) }
		q.Var = autograd.NewParameter(rows(w.Value), nil)
		if q.Master = q.Value; w.Master != w.Value {
			q.Master = rows(w.Master)
		}
		if !frozen {
			q.Grad = rows(w.Grad)
		}
	}
	return nil
}

// hold allocates a weight that was deferred.
func (r *replicated) hold(w *Parameter) error {
	w.Value = r.memory.Tensor(r.dt, w.local()...)
	w.Master, r.list[r.slot[w]].master = w.Value, w.Value
	if err := r.memory.Err(); err != nil {
		return err
	}
	for _, q := range r.ps.all {
		if q.stack == w {
			q.Value = w.Value.Narrow(0, q.row, q.local()[0])
			q.Master = q.Value
		}
	}
	return nil
}

func (r *replicated) allocateGradients(par *Parallel) (err error) {
	var shapes [2][][]int64 // dense, experts
	for _, u := range r.ps.units {
		for _, w := range u {
			kind := 0
			if w.spread.experts {
				kind = 1
			}
			r.place[w] = len(shapes[kind])
			shapes[kind] = append(shapes[kind], w.local())
		}
	}
	// The loss is already a mean over the labels of all ranks, so gradients are summed.
	sum := parallel.GradientsConfig{Scale: 1, Stream: par.exchange}
	if r.dense, err = parallel.NewGradients(r.st, par.Data, aclnn.Float32, shapes[0], sum); err != nil {
		return err
	}
	if r.experts, err = parallel.NewGradients(r.st, par.ExpertData, aclnn.Float32, shapes[1], sum); err != nil {
		return err
	}
	for w, at := range r.slot {
		w.Var = autograd.NewParameter(w.Value, r.gradients(w).Tensor(r.place[w]))
		r.list[at].grad = w.Grad
	}
	return nil
}

func (r *replicated) gradients(w *Parameter) *parallel.Gradients {
	if w.spread.experts {
		return r.experts
	}
	return r.dense
}

func (r *replicated) parameters() []*parameters { return []*parameters{r.ps} }

func (r *replicated) open(*pass, []int, []int) {}
func (r *replicated) close(*pass, []int)       {}
func (r *replicated) begin(*pass, int)         {}

func (r *replicated) ready(p *pass, u int) {
	for _, w := range r.ps.units[u] {
		p.sumParts(w)
		p.do(func() error { return r.gradients(w).Ready(r.place[w]) })
	}
}

// sumParts sums the gradient of a weight of which tensor-parallel ranks have computed parts.
func (p *pass) sumParts(w *Parameter) {
	switch {
	case w.spread.Of > 0 || w.spread.experts:
	case w.heads:
		p.do(func() error { return p.tp.Sum(p.Stream(), w.Grad) })
	default:
		p.do(func() error { return p.tp.SumPartial(p.Stream(), w.Grad) })
	}
}

func (r *replicated) finish(*pass) error {
	return r.meter.Join(func() error { return errors.Join(r.dense.Finish(), r.experts.Finish()) })
}

// zero clears the gradients.
func (r *replicated) zero() error { return errors.Join(r.dense.Zero(), r.experts.Zero()) }

func (r *replicated) restart() error { return errors.Join(r.dense.Restart(), r.experts.Restart()) }

// view returns a parameter's part of a tensor of its weight's slot.
func (r *replicated) view(q *Parameter, of func(slot int) *aclnn.Tensor) *aclnn.Tensor {
	if w := q.stack; w != nil {
		return of(r.slot[w]).Narrow(0, q.row, q.local()[0])
	}
	return of(r.slot[q])
}

func (r *replicated) read(ctx context.Context, q *Parameter, of func(slot int) *aclnn.Tensor) ([]float32, error) {
	t := r.view(q, of)
	values := make([]float32, t.Len())
	return values, fromDevice(ctx, r.st, values, t)
}

func (r *replicated) write(ctx context.Context, q *Parameter, of func(slot int) *aclnn.Tensor, values source) error {
	t := r.view(q, of)
	all, err := values(0, t.Len())
	if err != nil {
		return err
	}
	return toDevice(ctx, r.st, t, all)
}

func (r *replicated) publish(q *Parameter) error {
	if q.Master == q.Value {
		return nil
	}
	return aclnn.Cast(r.st, aclnn.CastParams{Self: q.Master, Dtype: q.Value.DType(), Out: q.Value})
}

func (r *replicated) slots() []slot           { return r.list }
func (r *replicated) slotOf(w *Parameter) int { return r.slot[w] }
func (r *replicated) updated() error          { return nil }

func (r *replicated) Close() error {
	var errs []error
	for _, g := range []*parallel.Gradients{r.experts, r.dense} {
		if g != nil {
			errs = append(errs, g.Close())
		}
	}
	return errors.Join(append(errs, r.memory.Close())...)
}

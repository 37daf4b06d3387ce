package qwen

import (
	"context"
	"errors"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
)

// sharded keeps a flat shard of the weights of each unit on every data-parallel rank; a unit
// is gathered while layers read it, and its gradients are reduced to shards as soon as they
// are complete (ZeRO stage 3, arXiv:1910.02054).
type sharded struct {
	st     *acl.Stream
	memory memory
	units  [][]*shards
	all    []*shards // the slots
	place  map[*Parameter]shardPlace
}

// shards are weights of a unit that go the same way: the parts of experts over other ranks
// than the rest, and what tensor-parallel ranks divide apart from what they all have.
type shards struct {
	*ops.Sharded
	comm    ops.Communicator
	weights []*Parameter
	slot    slot
	grads   memory // whole gradients, between begin and ready
}

// shardPlace is where a weight is: part i of the shards of a slot.
type shardPlace struct{ slot, part int }

// groupedWeights are those that grouped products read.
var groupedWeights = []ops.ShardRule{{Module: "mlp.experts", Weight: "*_proj", Role: ops.GroupedWeight}}

func newSharded(st *acl.Stream, reg *ops.Registry, ps *parameters, cfg Config, dt aclnn.DType, par *Parallel) (*sharded, error) {
	s := &sharded{st: st, memory: memory{st: st}, place: map[*Parameter]shardPlace{}}
	for _, u := range ps.units {
		s.units = append(s.units, nil)
		for _, kind := range []func(w *Parameter) bool{
			func(w *Parameter) bool { return w.spread.experts },
			func(w *Parameter) bool { return !w.spread.experts && w.spread.parts > 0 },
			func(w *Parameter) bool { return !w.spread.experts && w.spread.parts == 0 },
		} {
			if err := s.group(reg, u, kind, cfg, dt, par); err != nil {
				return nil, errors.Join(err, s.Close())
			}
		}
	}
	return s, nil
}

// group makes the shards of some weights of a unit, the last so far.
func (s *sharded) group(reg *ops.Registry, u unit, member func(*Parameter) bool, cfg Config, dt aclnn.DType, par *Parallel) error {
	g := &shards{comm: par.Data, grads: memory{st: s.st}}
	var list []ops.ShardedParameter
	for _, w := range u {
		if member(w) {
			s.place[w] = shardPlace{len(s.all), len(list)}
			g.weights, list = append(g.weights, w), append(list, ops.ShardedParameter{Name: w.Name, Shape: w.local()})
		}
	}
	if len(list) == 0 {
		return nil
	}
	config := ops.ShardConfig{Scale: 1} // the loss is a mean over all ranks already
	if cfg.GroupedNZ {
		config.Rules = groupedWeights
	}
	ranks := size(par.Data)
	if g.weights[0].spread.experts {
		g.comm, ranks = par.ExpertData, size(par.ExpertData)
	}
	var err error
	if g.Sharded, err = ops.NewSharded(s.st, reg, g.comm, dt, list, config); err != nil {
		return err
	}
	s.all = append(s.all, g)
	s.units[len(s.units)-1] = append(s.units[len(s.units)-1], g)
	g.slot = slot{master: g.Shard(), copies: par.copies(g.weights[0]) / int(ranks)}
	if dt != aclnn.Float32 {
		g.slot.copy = g.Shard()
		if g.slot.master, err = s.memory.zeros(aclnn.Float32, g.Layout.Total); err != nil {
			return err
		}
	}
	g.slot.grad, err = s.memory.zeros(aclnn.Float32, g.Layout.Total)
	return err
}

func (s *sharded) open(p *pass, u int) {
	for _, g := range s.units[u] {
		if p.err != nil {
			return
		}
		p.err = g.Gather(p.ctx, p.st)
		for i, w := range g.weights {
			w.Value = g.Weight(i)
		}
	}
}

func (s *sharded) close(p *pass, u int) {
	for _, g := range s.units[u] {
		err := g.Release()
		if p.err == nil {
			p.err = err
		}
		for _, w := range g.weights {
			w.Value = nil
		}
	}
}

func (s *sharded) begin(p *pass, u int) {
	for _, g := range s.units[u] {
		for _, w := range g.weights {
			if p.err == nil && w.Grad == nil { // else of an earlier micro-batch
				w.Grad, p.err = g.grads.tensor(aclnn.Float32, w.local()...)
			}
		}
	}
}

func (s *sharded) ready(p *pass, u int) {
	for _, g := range s.units[u] {
		var grads []*aclnn.Tensor
		for _, w := range g.weights {
			p.sumParts(w)
			grads = append(grads, w.Grad)
			w.Grad = nil
		}
		if p.err == nil {
			p.err = g.Reduce(p.st, grads, g.slot.grad)
		}
		if err := g.grads.close(); p.err == nil {
			p.err = err
		}
	}
}

func (s *sharded) finish() error { return nil }

func (s *sharded) restart() error {
	var errs []error
	for _, g := range s.all {
		for _, w := range g.weights {
			w.Grad = nil
		}
		errs = append(errs, g.grads.close())
	}
	return errors.Join(errs...)
}

func (s *sharded) slots() []slot {
	list := make([]slot, len(s.all))
	for i, g := range s.all {
		list[i] = g.slot
	}
	return list
}

// find is where a parameter is: its shards, their part, and its elements of that.
func (s *sharded) find(q *Parameter) (place shardPlace, from, to int64) {
	w := q
	if q.stack != nil {
		w = q.stack
	}
	n := count(q.local())
	from = n / max(q.local()[0], 1) * q.row
	return s.place[w], from, from + n
}

// owned calls f with the elements of a parameter, counted from its first, that a rank's shard
// has, and where in the shard.
func (g *shards) owned(part int, rank, from, to int64, f func(lo, hi, at int64)) {
	p := &g.Layout.Parts[part]
	lo, hi := p.Owned(rank)
	if a, b := max(lo, from), min(hi, to); a < b {
		f(a-from, b-from, p.Start+a-lo)
	}
}

func (s *sharded) read(ctx context.Context, q *Parameter, of func(slot int) *aclnn.Tensor) (values []float32, err error) {
	place, from, to := s.find(q)
	g, mine := s.all[place.slot], of(place.slot)
	total := g.Layout.Total
	whole := memory{st: s.st}
	defer func() { err = errors.Join(err, whole.close()) }()
	all := mine
	if g.Layout.Ranks > 1 {
		if all, err = whole.tensor(aclnn.Float32, g.Layout.Ranks*total); err != nil {
			return nil, err
		}
		if err := g.comm.AllGather(s.st, mine, all); err != nil {
			return nil, err
		}
	}
	flat := make([]float32, all.Len())
	if err := aclnn.CopyFromDevice(ctx, s.st, flat, all); err != nil {
		return nil, err
	}
	values = make([]float32, to-from)
	for rank := range g.Layout.Ranks {
		g.owned(place.part, rank, from, to, func(lo, hi, at int64) { copy(values[lo:hi], flat[rank*total+at:]) })
	}
	return values, nil
}

func (s *sharded) write(ctx context.Context, q *Parameter, of func(slot int) *aclnn.Tensor, values []float32) (err error) {
	place, from, to := s.find(q)
	g := s.all[place.slot]
	g.owned(place.part, index(g.comm), from, to, func(lo, hi, at int64) {
		err = aclnn.CopyToDevice(ctx, s.st, of(place.slot).Narrow(0, at, hi-lo), values[lo:hi])
	})
	return err
}

func (s *sharded) publish(q *Parameter) (err error) {
	place, from, to := s.find(q)
	g := s.all[place.slot]
	if g.slot.copy == nil {
		return nil
	}
	g.owned(place.part, index(g.comm), from, to, func(lo, hi, at int64) {
		narrow, wide := g.slot.copy.Narrow(0, at, hi-lo), g.slot.master.Narrow(0, at, hi-lo)
		err = aclnn.Cast(s.st, aclnn.CastParams{Self: wide, Dtype: narrow.DType(), Out: narrow})
	})
	return err
}

func (s *sharded) Close() error {
	var errs []error
	for _, g := range s.all {
		errs = append(errs, g.grads.close(), g.Sharded.Close())
	}
	return errors.Join(append(errs, s.memory.close())...)
}

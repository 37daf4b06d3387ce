package model

import (
	"context"
	"errors"
	"fmt"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/examples/meter"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/autograd"
	"github.com/goascend/cann/ops/parallel"
)

// sharded keeps a flat shard of the weights of each unit on every data-parallel rank; a unit
// is gathered while layers read it, and its gradients of a micro-batch are reduced to shards as soon as they
// are complete (ZeRO stage 3, arXiv:1910.02054). With keep they are whole until those of the last micro-batch are.
type sharded struct {
	st     *acl.Stream
	memory aclnn.Scope
	ps     *parameters
	beside *parallel.ShardStream
	meter  *meter.Meter
	nz     nzUse
	keep   bool // weights stay gathered until the optimiser updates them
	units  [][]*shards
	all    []*shards // the slots
	place  map[*Parameter]shardPlace
}

// shards are weights of a unit that are exchanged over the same ranks: experts differ from other
// weights, and so do weights that tensor-parallel ranks divide and weights that they all have. Of
// these vectors and constants are apart, as the optimiser may treat them otherwise.
type shards struct {
	*parallel.Sharded
	comm    parallel.Communicator
	copies  parallel.Communicator // ranks with the same shards, or nil
	weights []*Parameter
	slot    slot
	grads   aclnn.Scope // whole gradients, between begin and ready
}

// shardPlace is the location of a weight: part i of the shards of a slot.
type shardPlace struct{ slot, part int }

// groupedWeights are the rules with Config.GroupedNZ, unless there are others.
var groupedWeights = []parallel.ShardRule{{Module: "mlp.experts", Weight: "*_proj", Role: parallel.GroupedWeight}}

func newSharded(st *acl.Stream, reg *ops.Registry, ps *parameters, cfg Config, dt aclnn.DType, par *Parallel) (*sharded, error) {
	s := &sharded{st: st, memory: aclnn.Scope{Stream: st}, ps: ps, meter: par.Meter, nz: cfg.nzUse(), place: map[*Parameter]shardPlace{}}
	var err error
	if s.beside, err = parallel.NewShardStream(st); err != nil {
		return nil, err
	}
	par.exchange = s.beside.Stream()
	if s.keep = par.DistributedOptimizer; s.keep && s.nz.forward != s.nz.backward {
		s.nz = nzUse{} // they stay in one format
	}
	kinds := []func(w *Parameter) bool{
		func(w *Parameter) bool { return w.spread.experts },
		func(w *Parameter) bool { return !w.spread.experts && w.spread.Of > 0 && !w.vector() },
		func(w *Parameter) bool { return !w.spread.experts && w.spread.Of > 0 && w.vector() },
		func(w *Parameter) bool { return !w.spread.experts && w.spread.Of == 0 && !w.vector() },
		func(w *Parameter) bool { return !w.spread.experts && w.spread.Of == 0 && w.vector() && !w.constant },
		func(w *Parameter) bool { return w.constant },
	}
	for _, u := range ps.units {
		s.units = append(s.units, nil)
		for _, whole := range []bool{false, true} {
			for _, kind := range kinds {
				if err := s.group(reg, u, kind, whole, cfg, dt, par); err != nil {
					return nil, errors.Join(err, s.Close())
				}
			}
		}
	}
	for _, q := range ps.all {
		if q.stack != nil {
			q.Var = autograd.NewOpenedParameter(false) // its rows are read as those of the weight that has them
		}
	}
	if err := s.decisive(cfg, par.ShardRules); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// decisive refuses rules that decide for no weight, in any stage of a pipeline.
func (s *sharded) decisive(cfg Config, rules []parallel.ShardRule) error {
	if len(rules) == 0 {
		return nil
	}
	whole, used := &Model{Config: cfg}, map[parallel.ShardRule]bool{}
	whole.build()
	config := parallel.ShardConfig{Rules: rules}
	for _, u := range whole.params.units {
		for _, w := range u {
			rule, err := config.Rule(w.Name)
			if err != nil {
				return err
			}
			used[rule] = true
		}
	}
	for _, r := range rules {
		if !used[r] {
			return fmt.Errorf("model: the rule of shards %s/%s decides for no weight of this model", r.Module, r.Weight)
		}
	}
	return nil
}

// group makes the shards of some weights of the last unit added, of those that stay whole or of the others.
func (s *sharded) group(reg *ops.Registry, u unit, member func(*Parameter) bool, whole bool, cfg Config, dt aclnn.DType, par *Parallel) error {
	g := &shards{grads: aclnn.Scope{Stream: s.st}}
	config := parallel.ShardConfig{Scale: 1, Align: par.ShardAlign, Rules: par.ShardRules} // the loss is already a mean over all ranks
	if config.Rules == nil && cfg.GroupedNZ {
		config.Rules = groupedWeights
	}
	var list []parallel.ShardedParameter
	for _, w := range u {
		if !member(w) {
			continue
		}
		rule, err := config.Rule(w.Name)
		if err != nil {
			return err
		}
		if (rule.Role == parallel.WholeWeight) != whole {
			continue
		}
		if w.transposed = rule.Role == parallel.GroupedWeight; w.transposed && !w.expert {
			return fmt.Errorf("model: a rule says that grouped products read %v; they read weights of experts only", w)
		}
		s.place[w] = shardPlace{len(s.all), len(list)}
		w.Var = autograd.NewOpenedParameter(!cfg.Frozen)
		g.weights, list = append(g.weights, w), append(list, parallel.ShardedParameter{Name: w.Name, Shape: w.kept()})
	}
	if len(list) == 0 {
		return nil
	}
	if g.comm, g.copies = par.shards(g.weights[0].spread.experts); whole {
		g.comm, g.copies = nil, par.same(g.weights[0].spread.experts)
		config.Align = max(config.Align, parallel.ShardAlignment) // layers read views of the weights
	}
	var err error
	if g.Sharded, err = parallel.NewSharded(s.st, reg, g.comm, dt, list, config); err != nil {
		return err
	}
	s.all = append(s.all, g)
	s.units[len(s.units)-1] = append(s.units[len(s.units)-1], g)
	g.slot = slot{master: g.Shard(), copies: par.copies(g.weights[0]) / int(size(g.comm)), vectors: g.weights[0].vector(), constant: g.weights[0].constant}
	if cfg.Frozen {
		return nil
	}
	if dt != aclnn.Float32 {
		g.slot.copy = g.Shard()
		g.slot.master = zeros(&s.memory, aclnn.Float32, g.Layout().Total)
	}
	g.slot.grad = zeros(&s.memory, aclnn.Float32, g.Layout().Total)
	return s.memory.Err()
}

func (s *sharded) parameters() []*parameters { return []*parameters{s.ps} }

func (s *sharded) open(p *pass, units, next []int) {
	groups, list := s.of(units)
	p.do(func() error { return s.beside.Gather(p.ctx, s.nz.in(p), list...) })
	for _, g := range groups {
		*p.copied += int64(g.Traffic())
		for i, w := range g.weights {
			w.Value = w.turn(g.Weight(i))
		}
	}
	_, list = s.of(next)
	p.do(func() error { return s.beside.Prefetch(list...) })
}

// of lists the shards of units, with keep those that are not gathered.
func (s *sharded) of(units []int) (groups []*shards, list []*parallel.Sharded) {
	for _, u := range units {
		for _, g := range s.units[u] {
			if !s.keep || g.Weight(0) == nil {
				groups, list = append(groups, g), append(list, g.Sharded)
			}
		}
	}
	return groups, list
}

func (s *sharded) close(p *pass, units []int) {
	if s.keep {
		return
	}
	for _, u := range units {
		for _, g := range s.units[u] {
			p.Fail(g.release())
		}
	}
}

// release frees the gathered weights.
func (g *shards) release() error {
	for _, w := range g.weights {
		w.Value = nil
	}
	return g.Release()
}

func (s *sharded) updated() (err error) {
	if s.keep {
		for _, g := range s.all {
			err = errors.Join(err, g.release())
		}
	}
	return err
}

func (s *sharded) begin(p *pass, u int) {
	for _, g := range s.units[u] {
		for _, w := range g.weights {
			if p.Err() == nil && w.Grad == nil { // an earlier micro-batch may have made it
				w.Grad = w.turn(g.grads.Tensor(aclnn.Float32, w.kept()...))
				if w.constant {
					g.grads.Zero(w.Grad)
				}
				p.Fail(g.grads.Err())
			}
		}
	}
}

func (s *sharded) ready(p *pass, u int) {
	var list []parallel.ShardGradients
	for _, g := range s.units[u] {
		var grads []*aclnn.Tensor
		for _, w := range g.weights {
			p.sumParts(w)
			grads = append(grads, w.turn(w.Grad))
			w.Grad = nil
		}
		list = append(list, parallel.ShardGradients{Shards: g.Sharded, Gradients: grads, Grad: g.slot.grad, Replicas: g.copies, Accumulate: p.adds})
	}
	p.do(func() error { return s.beside.Reduce(list...) })
	for _, g := range s.units[u] {
		p.Fail(g.freeGrads())
	}
}

// freeGrads frees the whole gradients, so that the next step can allocate its own.
func (g *shards) freeGrads() error {
	err := g.grads.Close()
	g.grads = aclnn.Scope{Stream: g.grads.Stream}
	return err
}

func (s *sharded) finish(*pass) error { return s.meter.Join(s.beside.Join) }

func (s *sharded) restart() error {
	errs := []error{s.beside.Join()}
	for _, g := range s.all {
		for _, w := range g.weights {
			w.Grad = nil
		}
		errs = append(errs, g.freeGrads())
	}
	return errors.Join(errs...)
}

func (s *sharded) slotOf(w *Parameter) int { return s.place[w].slot }

func (s *sharded) slots() []slot {
	list := make([]slot, len(s.all))
	for i, g := range s.all {
		list[i] = g.slot
	}
	return list
}

// find returns the location of a parameter: its shards, the part, and its elements in that part.
func (s *sharded) find(q *Parameter) (place shardPlace, from, to int64) {
	w := q
	if q.stack != nil {
		w = q.stack
	}
	n := count(q.local())
	from = n / max(q.local()[0], 1) * q.row
	return s.place[w], from, from + n
}

// owned calls f with the range of a parameter's elements that a rank's shard has, counted from the
// parameter's first element, and with their offset in the shard.
func (g *shards) owned(part int, rank, from, to int64, f func(lo, hi, at int64)) {
	p := &g.Layout().Parts[part]
	lo, hi := p.Owned(rank)
	if a, b := max(lo, from), min(hi, to); a < b {
		f(a-from, b-from, p.Start+a-lo)
	}
}

func (s *sharded) read(ctx context.Context, q *Parameter, of func(slot int) *aclnn.Tensor) (values []float32, err error) {
	place, from, to := s.find(q)
	g, mine := s.all[place.slot], of(place.slot)
	total := g.Layout().Total
	flat := make([]float32, g.Layout().Ranks*total)
	err = aclnn.Compose(s.st, func(s *aclnn.Scope) {
		all := mine
		if g.Layout().Ranks > 1 {
			all = s.Tensor(mine.DType(), g.Layout().Ranks*total)
			s.Do(func() error { return g.comm.AllGather(s.Stream, mine, all) })
		}
		s.Do(func() error { return fromDevice(ctx, s.Stream, flat, all) })
	})
	if err != nil {
		return nil, err
	}
	values = make([]float32, to-from)
	for rank := range g.Layout().Ranks {
		g.owned(place.part, rank, from, to, func(lo, hi, at int64) { copy(values[lo:hi], flat[rank*total+at:]) })
	}
	return q.restored(values), nil
}

func (s *sharded) write(ctx context.Context, q *Parameter, of func(slot int) *aclnn.Tensor, values source) (err error) {
	place, from, to := s.find(q)
	g := s.all[place.slot]
	values = q.keep(values)
	g.owned(place.part, index(g.comm), from, to, func(lo, hi, at int64) {
		var mine []float32
		if mine, err = values(lo, hi); err == nil {
			err = toDevice(ctx, s.st, of(place.slot).Narrow(0, at, hi-lo), mine)
		}
	})
	return err
}

func (s *sharded) publish(q *Parameter) (err error) {
	if err := s.updated(); err != nil {
		return err
	}
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
		errs = append(errs, g.grads.Close(), g.Sharded.Close())
	}
	return errors.Join(append(errs, s.beside.Close(), s.memory.Close())...)
}

package qwen

import (
	"context"
	"errors"
	"fmt"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
)

// Rack holds adapters of one model side by side, so that one pass of Advance serves sequences with
// different adapters: each layer computes the products of all of them with one grouped product. Close it
// before the model.
type Rack struct {
	m      *Model
	places int
	rank   int64
	memory aclnn.Scope
	stacks map[*Parameter][]*stack // by the weight that a product reads
	err    error                   // why the rack cannot be used
}

// stack holds the weights of one layer for all places. Places whose adapter has a smaller rank, or nothing
// for this layer, have zeros.
type stack struct {
	on   *Parameter
	row  int64         // of the product's features, the first one of this layer
	a, b *aclnn.Tensor // [places, rank, in] with the scale, and [places, out, rank]
}

// NewRack makes a rack with places for adapters of a rank, or smaller ones. Its memory grows with the layers
// that adapters have. The model must have Config.Frozen.
func (m *Model) NewRack(places, rank int) (*Rack, error) {
	switch {
	case places < 1 || rank < 1:
		return nil, fmt.Errorf("qwen: a rack of %d places for rank %d; both must be positive", places, rank)
	case !m.Config.Frozen:
		return nil, errors.New("qwen: adapters need a model with Config.Frozen")
	}
	if err := m.together("NewRack"); err != nil {
		return nil, err
	}
	return &Rack{m: m, places: places, rank: int64(rank), memory: aclnn.Scope{Stream: m.st}, stacks: map[*Parameter][]*stack{}}, nil
}

// Places returns the number of places.
func (r *Rack) Places() int { return r.places }

// Load reads a PEFT folder into a place, from 0, and replaces what was there. After an error of the device
// the place is undefined.
func (r *Rack) Load(ctx context.Context, place int, folder string) (err error) {
	if place < 0 || place >= r.places {
		return fmt.Errorf("qwen: place %d of a rack of %d", place, r.places)
	}
	a, err := LoadAdapter(ctx, r.m, folder, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	for _, pairs := range a.pairs {
		for _, l := range pairs {
			switch rank := l.a.shape[0]; {
			case l.experts == 0 && rank > r.rank:
				return fmt.Errorf("qwen: %s: %s has rank %d; the rack takes up to %d", folder, l.module, rank, r.rank)
			case l.experts > 0:
				return fmt.Errorf("qwen: %s: a rack adapts no stacked weights of experts, and %s is one; merge the adapter into a model instead", folder, l.on.Name)
			case l.on == r.m.head.weight:
				return fmt.Errorf("qwen: %s: a rack adapts no output head, which has rows of its own", folder)
			}
		}
	}
	own := map[*stack]pair{}
	for w, pairs := range a.pairs {
		for _, l := range pairs {
			s, err := r.stack(w, l)
			if err != nil {
				return err
			}
			own[s] = l
		}
	}
	for _, all := range r.stacks {
		for _, s := range all {
			if err := r.fill(ctx, a, s, place, own[s]); err != nil {
				return err
			}
		}
	}
	return nil
}

// stack returns the weights of a layer, which it makes if no adapter had the layer before.
func (r *Rack) stack(w *Parameter, l pair) (*stack, error) {
	for _, s := range r.stacks[w] {
		if s.on == l.on {
			return s, nil
		}
	}
	n := int64(r.places)
	s := &stack{on: l.on, row: l.row, a: zeros(&r.memory, r.m.dt, n, r.rank, l.a.local()[1]), b: zeros(&r.memory, r.m.dt, n, l.b.local()[0], r.rank)}
	if err := r.memory.Err(); err != nil {
		r.err = err
		return nil, err
	}
	r.stacks[w] = append(r.stacks[w], s)
	return s, nil
}

// fill writes an adapter's weights of a layer, or zeros if it has none.
func (r *Rack) fill(ctx context.Context, from *Adapter, s *stack, place int, l pair) error {
	in, out := s.a.Dim(2), s.b.Dim(1)
	a, b := make([]float32, r.rank*in), make([]float32, out*r.rank)
	if l.a != nil {
		first, err := from.Get(ctx, l.a)
		if err != nil {
			return err
		}
		second, err := from.Get(ctx, l.b)
		if err != nil {
			return err
		}
		for i, v := range first {
			a[i] = float32(float64(v) * l.scale)
		}
		rank := l.a.shape[0]
		for i := range out {
			copy(b[i*r.rank:][:rank], second[i*rank:])
		}
	}
	if err := toDevice(ctx, r.m.st, s.a.Select(0, int64(place)), a); err != nil {
		return err
	}
	return toDevice(ctx, r.m.st, s.b.Select(0, int64(place)), b)
}

// Close frees the adapters.
func (r *Rack) Close() error {
	r.stacks = nil
	return r.memory.Close()
}

// racked adds to a rack which rows of a pass have an adapter, by place.
type racked struct {
	*Rack
	rows  *aclnn.Tensor // numbers of the rows, those of the first place first
	sizes []int64       // rows of each place
}

// forward adds the products of the adapters to the rows that have one; y is the layer's own product.
func (r *racked) forward(p *pass, w *Parameter, x, y *aclnn.Tensor) {
	if r == nil || len(r.stacks[w]) == 0 || p.Err() != nil {
		return
	}
	read := p.pick(x, r.rows)
	for _, s := range r.stacks[w] {
		part := y
		if n := s.b.Dim(1); n != y.Dim(-1) {
			part = y.Narrow(-1, s.row, n)
		}
		groups := ops.Groups{Host: r.sizes}
		inner := p.Tensor(p.dt, read.Dim(0), r.rank)
		run(p, p.reg.GroupedMatmul(), &ops.GroupedMatmulArgs{X: read, Weight: s.a.Transpose(1, 2), Groups: groups, Out: inner})
		more := p.Tensor(p.dt, read.Dim(0), s.b.Dim(1))
		run(p, p.reg.GroupedMatmul(), &ops.GroupedMatmulArgs{X: inner, Weight: s.b.Transpose(1, 2), Groups: groups, Out: more})
		if p.Err() != nil {
			return
		}
		sum := p.pick(part, r.rows)
		p.add(sum, more)
		p.put(part, r.rows, sum)
	}
}

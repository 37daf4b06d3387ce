package model

import (
	"context"
	"errors"
	"fmt"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/autograd"
)

// AdapterBank holds adapters of one model side by side, so that one pass of Advance serves sequences with
// different adapters: each layer computes the products of all of them with one grouped product. Close it
// before the model.
type AdapterBank struct {
	m      *Model
	slots  int
	rank   int64
	memory aclnn.Scope
	layers map[*Parameter][]*bankLayer // by the weight that a product reads
	err    error                       // why the adapter bank cannot be used
}

// bankLayer holds the weights of one layer for all slots. Slots whose adapter has a smaller rank, or nothing
// for this layer, have zeros.
type bankLayer struct {
	on   *Parameter
	row  int64         // of the product's features, the first one of this layer
	a, b *aclnn.Tensor // [slots, rank, in] with the scale, and [slots, out, rank]
}

// NewAdapterBank makes an adapter bank with slots for adapters of a rank, or smaller ones. Its memory grows with the layers
// that adapters have. The model must have Config.Frozen.
func (m *Model) NewAdapterBank(slots, rank int) (*AdapterBank, error) {
	switch {
	case slots < 1 || rank < 1:
		return nil, fmt.Errorf("model: an adapter bank of %d slots for rank %d; both must be positive", slots, rank)
	case !m.Config.Frozen:
		return nil, errors.New("model: adapters need a model with Config.Frozen")
	}
	if err := m.together("NewAdapterBank"); err != nil {
		return nil, err
	}
	return &AdapterBank{m: m, slots: slots, rank: int64(rank), memory: aclnn.Scope{Stream: m.st}, layers: map[*Parameter][]*bankLayer{}}, nil
}

// Slots returns the number of slots.
func (bank *AdapterBank) Slots() int { return bank.slots }

// Load reads a PEFT folder into a slot, from 0, and replaces what was there. After an error of the device
// the slot is undefined.
func (bank *AdapterBank) Load(ctx context.Context, slot int, folder string) (err error) {
	if slot < 0 || slot >= bank.slots {
		return fmt.Errorf("model: slot %d of an adapter bank of %d", slot, bank.slots)
	}
	a, err := LoadAdapter(ctx, bank.m, folder, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	for _, pairs := range a.pairs {
		for _, l := range pairs {
			switch rank := l.a.shape[0]; {
			case l.experts == 0 && rank > bank.rank:
				return fmt.Errorf("model: %s: %s has rank %d; the adapter bank takes up to %d", folder, l.module, rank, bank.rank)
			case l.experts > 0:
				return fmt.Errorf("model: %s: an adapter bank adapts no stacked weights of experts, and %s is one; merge the adapter into a model instead", folder, l.on.Name)
			case l.on.absorbed:
				return fmt.Errorf("model: %s: an adapter bank does not adapt %s, through which queries pass to the latents of a cache; merge the adapter into a model instead", folder, l.on.Name)
			case l.on == bank.m.head.weight:
				return fmt.Errorf("model: %s: an adapter bank adapts no output head, which has rows of its own", folder)
			}
		}
	}
	own := map[*bankLayer]pair{}
	for w, pairs := range a.pairs {
		for _, l := range pairs {
			s, err := bank.layer(w, l)
			if err != nil {
				return err
			}
			own[s] = l
		}
	}
	for _, all := range bank.layers {
		for _, s := range all {
			if err := bank.fill(ctx, a, s, slot, own[s]); err != nil {
				return err
			}
		}
	}
	return nil
}

// layer returns the weights of a layer, which it makes if no adapter had the layer before.
func (bank *AdapterBank) layer(w *Parameter, l pair) (*bankLayer, error) {
	for _, s := range bank.layers[w] {
		if s.on == l.on {
			return s, nil
		}
	}
	n := int64(bank.slots)
	s := &bankLayer{on: l.on, row: l.row, a: zeros(&bank.memory, bank.m.dt, n, bank.rank, l.a.local()[1]), b: zeros(&bank.memory, bank.m.dt, n, l.b.local()[0], bank.rank)}
	if err := bank.memory.Err(); err != nil {
		bank.err = err
		return nil, err
	}
	bank.layers[w] = append(bank.layers[w], s)
	return s, nil
}

// fill writes an adapter's weights of a layer, or zeros if it has none.
func (bank *AdapterBank) fill(ctx context.Context, from *Adapter, s *bankLayer, slot int, l pair) error {
	in, out := s.a.Dim(2), s.b.Dim(1)
	a, b := make([]float32, bank.rank*in), make([]float32, out*bank.rank)
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
			copy(b[i*bank.rank:][:rank], second[i*rank:])
		}
	}
	if err := toDevice(ctx, bank.m.st, s.a.Select(0, int64(slot)), a); err != nil {
		return err
	}
	return toDevice(ctx, bank.m.st, s.b.Select(0, int64(slot)), b)
}

// Close frees the adapters.
func (bank *AdapterBank) Close() error {
	bank.layers = nil
	return bank.memory.Close()
}

// bankPass adds to an adapter bank which rows of a pass have an adapter, by slot.
type bankPass struct {
	*AdapterBank
	rows  *aclnn.Tensor // numbers of the rows, those of the first slot first
	sizes []int64       // rows of each slot
}

// forward returns the layer's own product y plus the products of the adapters for the rows that have one. It has no gradient.
func (bank *bankPass) forward(p *pass, w *Parameter, x, y *autograd.Var) *autograd.Var {
	if bank == nil || len(bank.layers[w]) == 0 {
		return y
	}
	return p.Record("adapter bank", []*autograd.Var{x, y}, func(c *autograd.Call) {
		c.View(y, y.Value)
		c.Do(func() error {
			return aclnn.Compose(p.Stream(), func(s *aclnn.Scope) { bank.add(p, s, w, x.Value, y.Value) })
		})
	})[0]
}

func (bank *bankPass) add(p *pass, s *aclnn.Scope, w *Parameter, x, y *aclnn.Tensor) {
	read := selectRows(s, x, bank.rows)
	groups := ops.Groups{Host: bank.sizes}
	for _, l := range bank.layers[w] {
		part := y
		if n := l.b.Dim(1); n != y.Dim(-1) {
			part = y.Narrow(-1, l.row, n)
		}
		inner, more := s.Tensor(p.dt, bank.rows.Len(), bank.rank), s.Tensor(p.dt, bank.rows.Len(), l.b.Dim(1))
		ops.Queue(p.ctx, s, p.reg.GroupedMatmul(), &ops.GroupedMatmulArgs{X: read, Weight: l.a.Transpose(1, 2), Groups: groups, Out: inner})
		ops.Queue(p.ctx, s, p.reg.GroupedMatmul(), &ops.GroupedMatmulArgs{X: inner, Weight: l.b.Transpose(1, 2), Groups: groups, Out: more})
		sum := selectRows(s, part, bank.rows)
		aclnn.Launch(s, aclnn.InplaceAdd, aclnn.InplaceAddParams{Self: sum, Other: more, Alpha: aclnn.Float(1)})
		replaceRows(s, part, bank.rows, sum)
	}
}

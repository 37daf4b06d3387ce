package model

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
)

// multiAdapter trains several adapters in one pass, of which each sample of a batch chooses one. The samples of
// an adapter are brought together, so that its rows follow each other in all layers, and a layer computes
// the products of all adapters with one grouped product.
type multiAdapter struct {
	m        *Model
	adapters []*Adapter
	layers   map[*Parameter][]multiAdapterLayer // by the weight that a product reads
}

// multiAdapterLayer is a linear layer that adapters add to. pairs has an entry for each adapter, which is
// empty if the adapter adds nothing.
type multiAdapterLayer struct {
	on    *Parameter
	row   int64
	pairs []pair
}

var errEach = fmt.Errorf("model: a batch with Adapters is for GradientsEach after UseEach, and no other batch is: %w", acl.ErrInvalidArgument)

// UseEach lets GradientsEach train several adapters in one pass, until Use or UseEach is called again;
// Batch.Adapters says which sample has which. They may differ in their layers, ranks, scales, dropout and
// optimisers. Other passes then read the model's own weights only.
//
//	err := m.UseEach(a, b)
//	losses, err := m.GradientsEach(ctx, batch) // batch.Adapters is {1, 2, 2, 0}
//	norm, err := optimizerOfA.Step(ctx)
//	norm, err = optimizerOfB.Step(ctx)
//
// Every parallelism of the model is possible. Errors match acl.ErrInvalidArgument, or acl.ErrNotSupported: for
// adapters of stacked weights of experts, for float16, whose loss scale the adapters would share, and for a
// model with a load balancing loss, which is one of all tokens.
func (m *Model) UseEach(adapters ...*Adapter) error {
	if len(adapters) == 0 {
		return fmt.Errorf("model: UseEach needs an adapter: %w", acl.ErrInvalidArgument)
	}
	for i, a := range adapters {
		if a == nil || a.m != m || a.store == nil || slices.Contains(adapters[:i], a) {
			return fmt.Errorf("model: adapter %d is closed, of another model, or there twice: %w", i+1, acl.ErrInvalidArgument)
		}
		for w, pairs := range a.pairs {
			if pairs[0].experts > 0 {
				return fmt.Errorf("model: adapter %d adds to %s, a stacked weight of experts; train it alone, with Use: %w", i+1, w.Name, acl.ErrNotSupported)
			}
		}
	}
	switch {
	case m.dt == aclnn.Float16:
		return fmt.Errorf("model: several adapters in one pass would share the loss scale of float16; use bfloat16: %w", acl.ErrNotSupported)
	case m.Config.balanceScale() != 0:
		return fmt.Errorf("model: several adapters in one pass would share the load balancing loss; switch it off (Config.RouterLoss): %w", acl.ErrNotSupported)
	}
	j := &multiAdapter{m: m, adapters: slices.Clone(adapters), layers: map[*Parameter][]multiAdapterLayer{}}
	for i, a := range j.adapters {
		for w, pairs := range a.pairs {
			for _, l := range pairs {
				j.layer(w, l).pairs[i] = l
			}
		}
	}
	for _, layers := range j.layers { // as in a pass of one adapter, for the same dropout
		slices.SortFunc(layers, func(x, y multiAdapterLayer) int { return cmp.Compare(x.row, y.row) })
	}
	m.adapter, m.multi = nil, j
	return nil
}

// layer returns the layer to which an adapter adds, and makes it if no other adapter has it.
func (j *multiAdapter) layer(w *Parameter, l pair) *multiAdapterLayer {
	at := slices.IndexFunc(j.layers[w], func(x multiAdapterLayer) bool { return x.on == l.on })
	if at < 0 {
		at = len(j.layers[w])
		j.layers[w] = append(j.layers[w], multiAdapterLayer{on: l.on, row: l.row, pairs: make([]pair, len(j.adapters))})
	}
	return &j.layers[w][at]
}

// checkPlain refuses a batch whose samples choose their adapter.
func (m *Model) checkPlain(b Batch) error {
	if b.Adapters != nil {
		return errEach
	}
	if b.Numbers != nil || m.Config.Score {
		return errSequences
	}
	return b.validate(m.Config.VocabSize)
}

// GradientsEach runs forward and backward on this rank's batch for the adapters of UseEach. Each gets the
// gradients of its own loss, the mean cross-entropy over the counted labels of its samples on all ranks, as
// Gradients computes them for these samples alone. It returns the losses by the numbers of Batch.Adapters, so the first
// is that of the samples without an adapter; NaN stands for no labels. An adapter without labels gets no
// gradients, and Step of its optimiser does nothing.
func (m *Model) GradientsEach(ctx context.Context, b Batch) (losses []float64, err error) {
	if m.multi == nil {
		return nil, errEach
	}
	losses, targets, err := m.gradients(ctx, b)
	if err != nil {
		return nil, err
	}
	for i, n := range targets {
		if n == 0 {
			losses[i] = math.NaN()
		}
	}
	return losses, nil
}

// targets checks the numbers of the adapters, and returns the counted labels of each number over all ranks.
func (j *multiAdapter) targets(b Batch) ([]int, error) {
	invalid := func(format string, args ...any) error {
		return fmt.Errorf("model: %s: %w", fmt.Sprintf(format, args...), acl.ErrInvalidArgument)
	}
	own := make([]int, len(j.adapters)+1)
	for i, n := range b.Adapters {
		if n < 0 || n >= len(own) {
			return nil, invalid("sample %d has adapter %d; there are %d, and 0 is none", i, n, len(j.adapters))
		}
		from, to := b.sample(i)
		own[n] += counted(b.Labels[from:to])
	}
	if b.Targets != 0 {
		return nil, invalid("Targets is %d; each adapter has its own number, in AdapterTargets", b.Targets)
	}
	if b.AdapterTargets == nil {
		if ranks := size(j.m.par.Data) / size(j.m.par.Context); ranks > 1 {
			return nil, invalid("%d ranks have different samples; AdapterTargets must say how many labels of each adapter they have together", ranks)
		}
		return own, nil
	}
	if len(b.AdapterTargets) != len(own) {
		return nil, invalid("AdapterTargets has %d numbers; it needs %d, the first for samples without an adapter", len(b.AdapterTargets), len(own))
	}
	for i, n := range b.AdapterTargets {
		if n < own[i] {
			return nil, invalid("AdapterTargets has %d labels of adapter %d, and this rank alone has %d", n, i, own[i])
		}
	}
	return b.AdapterTargets, nil
}

// start clears the gradients of the adapters that have labels in a step; the others rest.
func (j *multiAdapter) start(targets []int) error {
	for i, a := range j.adapters {
		a.rests = targets[i+1] == 0
		if a.rests {
			continue
		}
		if err := a.store.zero(); err != nil {
			return err
		}
	}
	return nil
}

// active returns the adapters that get gradients.
func (j *multiAdapter) active() []*Adapter {
	return slices.DeleteFunc(slices.Clone(j.adapters), func(a *Adapter) bool { return a.rests })
}

// parameters lists the weights of the adapters that get gradients.
func (j *multiAdapter) parameters() (all []*parameters) {
	for _, a := range j.active() {
		all = append(all, &a.params)
	}
	return all
}

func (j *multiAdapter) begin(*pass, int) {}
func (j *multiAdapter) ready(*pass, int) {}

// finish exchanges the gradients of one adapter after the other, because they share the communicator, and in the same
// order on all ranks.
func (j *multiAdapter) finish(p *pass) error {
	for _, a := range j.active() {
		for unit := range a.params.units {
			a.store.ready(p, unit)
		}
		p.do(func() error { return a.store.finish(p) })
	}
	return p.Err()
}

func (j *multiAdapter) restart() error {
	var errs []error
	for _, a := range j.active() {
		errs = append(errs, a.store.restart())
	}
	return errors.Join(errs...)
}

package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Adapter adds products of low rank to linear layers of a model with frozen weights (LoRA,
// arXiv:2106.09685): a layer with weight W computes x·Wᵀ + scale·(x·Aᵀ)·Bᵀ. A [rank, in] and B [out,
// rank] are trained in place of W. Several adapters may be made on one model and used in turns (Model.Use),
// or in one pass (Model.UseEach). The parallelism of the model is theirs too, and each rank that has a part of
// W has the matching part of A or B. Close an adapter before its model.
type Adapter struct {
	m      *Model
	lora   LoRA
	params parameters
	store  *replicated
	pairs  map[*Parameter][]pair      // by the weight that a product reads
	config map[string]json.RawMessage // of the folder that it was loaded from
	nested bool                       // the names there are those of a model that sees images

	// Masks of dropout depend on these: the number of updates, and of passes since.
	seed, steps, passes uint64

	rests bool // it had no labels in the last step, and has no gradients
}

// pair holds the two weights that an adapter adds to a linear layer, or to some rows of one.
type pair struct {
	module string
	on     *Parameter // the layer's weight
	a, b   *Parameter
	row    int64 // of the product's features, the first one of this layer
	scale  float64

	experts int64 // of this rank, if the layer is of experts
}

var errFrozen = errors.New("model: the weights are frozen; make an adapter and Use it, or train another model")

// NewAdapter makes an adapter of a model whose configuration says Frozen. Its products are zero, as
// those of PEFT are, until it is trained or loaded. A depends on the seed and the layer's name only.
func NewAdapter(ctx context.Context, m *Model, lora LoRA, seed uint64) (*Adapter, error) {
	if !m.Config.Frozen {
		return nil, errors.New("model: adapters need a model with Config.Frozen, or its weights would be trained too")
	}
	a := &Adapter{m: m, lora: lora, seed: seed, pairs: map[*Parameter][]pair{}}
	if err := a.build(); err != nil {
		return nil, err
	}
	var err error
	if a.store, err = newReplicated(m.st, &a.params, m.dt, &m.par, false); err != nil {
		return nil, err
	}
	for _, p := range a.params.all {
		if err := put(ctx, a.store, p, p.initial(seed, 0)); err != nil {
			return nil, errors.Join(err, a.Close())
		}
	}
	return a, nil
}

// build describes the weights: a unit for each unit of the model.
func (a *Adapter) build() error {
	targets, err := a.lora.compile()
	if err != nil {
		return err
	}
	inner := map[*Parameter][]*Parameter{} // layers by the weight that has their rows
	for _, q := range a.m.params.all {
		w := q
		if q.stack != nil {
			w = q.stack
		}
		inner[w] = append(inner[w], q)
	}
	a.params.tensor = a.m.params.tensor
	for _, u := range a.m.params.units {
		a.params.begin()
		for _, w := range u {
			for _, q := range inner[w] {
				if t, ok := targets.of(q); ok {
					a.pairs[w] = append(a.pairs[w], a.pair(q, t))
				} else if t, module, ok := targets.ofExperts(q); ok {
					if n := q.spread.inner.Of; n > 0 {
						return fmt.Errorf("model: an adapter of %s, of which %d ranks have a shard each (ExpertTP): adapters of experts need each expert whole on its rank", q.Name, n)
					}
					a.pairs[w] = append(a.pairs[w], a.expertPair(q, t, module))
				}
			}
		}
	}
	return targets.unused(a.m)
}

// pair describes the weights of one layer. Ranks that divide a layer's output divide B like it, and
// those that divide its input A. Each of them computes only its share of the other gradient.
func (a *Adapter) pair(q *Parameter, t target) pair {
	rank, out, in := int64(t.rank), q.shape[0], q.shape[1]
	module := q.module()
	p := pair{
		module: module, on: q, row: q.row, scale: t.scale,
		a: a.weight(module+".lora_A.weight", kaiming(in), rank, in),
		b: a.weight(module+".lora_B.weight", zero, out, rank),
	}
	switch {
	case q.spread.Of == 0:
		p.a.heads, p.b.heads = q.heads, q.heads
	case q.spread.Axis == 0:
		p.b.spread, p.a.heads = q.spread, true
	default:
		p.a.spread, p.b.heads = q.spread, true
	}
	return p
}

// weight makes a weight of the adapter.
func (a *Adapter) weight(name string, start func(*rand.Rand) float32, shape ...int64) *Parameter {
	return a.params.named(a.params.own(&Parameter{Name: peftPrefix + name, shape: shape, start: start}))
}

// kaiming are the initial values of A, which has so many inputs.
func kaiming(in int64) func(*rand.Rand) float32 {
	return func(r *rand.Rand) float32 { return float32((2*r.Float64() - 1) / math.Sqrt(float64(in))) }
}

// module is the name of the layer of a weight.
func (p *Parameter) module() string { return p.Name[:max(0, len(p.Name)-len(".weight"))] }

// Use lets the following passes go through an adapter, or with nil through the model's own weights
// only.
func (m *Model) Use(a *Adapter) error {
	if a != nil && (a.m != m || a.store == nil) {
		return errors.New("model: the adapter is closed, or of another model")
	}
	m.adapter, m.multi = a, nil
	return nil
}

// trained returns where the gradients of a step go, or nil.
func (m *Model) trained() trained {
	switch {
	case !m.Config.Frozen:
		return m.store
	case m.multi != nil:
		return m.multi
	case m.adapter != nil:
		return m.adapter.store
	}
	return nil
}

// trainedAdapters lists the adapters in use.
func (m *Model) trainedAdapters() []*Adapter {
	switch {
	case m.multi != nil:
		return m.multi.adapters
	case m.adapter != nil:
		return []*Adapter{m.adapter}
	}
	return nil
}

// Close frees the adapter's weights; a model that uses it goes on without.
func (a *Adapter) Close() error {
	if a == nil || a.store == nil {
		return nil
	}
	a.leave()
	err := a.store.Close()
	a.store = nil
	return err
}

// leave takes the adapter out of use.
func (a *Adapter) leave() {
	if a.m.adapter == a {
		a.m.adapter = nil
	}
	if j := a.m.multi; j != nil && slices.Contains(j.adapters, a) {
		a.m.multi = nil
	}
}

// Parameters lists the adapter's weights of which this rank has a part. Their names are PEFT's.
func (a *Adapter) Parameters() []*Parameter { return a.params.all }

// Options returns what the adapter was made with.
func (a *Adapter) Options() LoRA { return a.lora }

// Set sets the values of a weight of the adapter, as Model.Set does.
func (a *Adapter) Set(ctx context.Context, q *Parameter, values []float32) error {
	if int64(len(values)) != count(q.shape) {
		return fmt.Errorf("model: %d values for %v", len(values), q)
	}
	return put(ctx, a.store, q, q.Part(values))
}

// Get returns this rank's part of a weight of the adapter.
func (a *Adapter) Get(ctx context.Context, q *Parameter) ([]float32, error) {
	return a.store.read(ctx, q, masters(a.store))
}

// begin starts the step after a number of updates.
func (a *Adapter) begin(steps int) {
	if a != nil {
		a.steps, a.passes = uint64(steps), 0
	}
}

// NewOptimizer makes an optimiser of the adapter's weights. Close it before the adapter.
func (a *Adapter) NewOptimizer(options AdamW) (*Optimizer, error) {
	return newOptimizer(a.m, a, a.store, &a.params, options)
}

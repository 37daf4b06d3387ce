package qwen

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/mask"
)

// Cache is what a model remembers of the tokens that it has read, so that the next ones cost
// the same however many came before: keys and values of attention, states of delta nets. Its
// sequences have the same length. Close it before the model.
type Cache struct {
	m               *Model
	batch, capacity int64
	length          int64
	layers          []*past
	err             error // why the cache is of no use any more
}

// past is what one layer remembers.
type past struct {
	keys, values *aclnn.Tensor // of attention, [batch, capacity, heads, features]
	inputs       *aclnn.Tensor // of a delta net's convolution, the last ones, [batch, channels, taps]
	state        *aclnn.Tensor // of its rule, [batch, heads, key features, value features], float32
}

// NewCache makes an empty cache for size sequences of at most length tokens.
func (m *Model) NewCache(size, length int) (*Cache, error) {
	if err := m.alone("NewCache"); err != nil {
		return nil, err
	}
	if size <= 0 || length <= 0 {
		return nil, fmt.Errorf("qwen: a cache of %d sequences of %d tokens; both must be positive", size, length)
	}
	c := &Cache{m: m, batch: int64(size), capacity: int64(length)}
	for i := range m.Config.Layers {
		l, err := c.layer(i)
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		c.layers = append(c.layers, l)
	}
	return c, nil
}

func (c *Cache) layer(index int) (*past, error) {
	l, cfg := &past{}, c.m.Config
	type tensor struct {
		to    **aclnn.Tensor
		dt    aclnn.DType
		shape []int64
	}
	cells := []int64{c.batch, c.capacity, int64(cfg.KVHeads), int64(cfg.HeadDim)}
	tensors := []tensor{{&l.keys, c.m.dt, cells}, {&l.values, c.m.dt, cells}}
	if cfg.linear(index) {
		hk, hv, dk, dv := int64(cfg.LinearKeyHeads), int64(cfg.LinearValueHeads), int64(cfg.LinearKeyDim), int64(cfg.LinearValueDim)
		tensors = []tensor{
			{&l.inputs, c.m.dt, []int64{c.batch, 2*hk*dk + hv*dv, int64(cfg.LinearTaps)}},
			{&l.state, aclnn.Float32, []int64{c.batch, hv, dk, dv}},
		}
	}
	for _, t := range tensors {
		made, err := aclnn.New(c.m.st, t.dt, t.shape...)
		if err != nil {
			return nil, errors.Join(err, l.close())
		}
		*t.to = made
	}
	return l, nil
}

func (l *past) close() error {
	return errors.Join(l.keys.Close(), l.values.Close(), l.inputs.Close(), l.state.Close())
}

// Close frees the cache.
func (c *Cache) Close() error {
	var err error
	for _, l := range c.layers {
		err = errors.Join(err, l.close())
	}
	c.layers = nil
	return err
}

// Len is the number of tokens of each sequence so far.
func (c *Cache) Len() int { return int(c.length) }

// Reset forgets all tokens.
func (c *Cache) Reset() { c.length, c.err = 0, nil }

// remember adds keys and values of new tokens and returns those of all tokens. A layer
// without a past has the new ones only.
func (m *inputs) remember(p *pass, k, v *aclnn.Tensor) (keys, values *aclnn.Tensor) {
	if m.past == nil {
		return k, v
	}
	p.copy(m.past.keys.Narrow(1, m.from, m.length), k)
	p.copy(m.past.values.Narrow(1, m.from, m.length), v)
	return m.past.keys.Narrow(1, 0, m.from+m.length), m.past.values.Narrow(1, 0, m.from+m.length)
}

// resume lets a delta net go on from the states of its past, and leave its own there.
func (m *inputs) resume(conv *ops.CausalConvArgs, rule *ops.GatedDeltaArgs) {
	if m.past == nil {
		return
	}
	conv.FinalState, rule.FinalState = m.past.inputs, m.past.state
	if m.from > 0 {
		conv.InitialState, rule.InitialState = m.past.inputs, m.past.state
	}
}

// Extend reads the next tokens of each sequence, [size, n] in row-major order, and returns
// the logits of what follows the last one, [size, vocabulary]. After an error of the device
// the cache must be Reset.
func (m *Model) Extend(ctx context.Context, c *Cache, tokens []int32) (logits []float32, err error) {
	n := int64(len(tokens)) / c.batch
	switch {
	case c.m != m:
		return nil, errors.New("qwen: the cache is of another model")
	case c.layers == nil:
		return nil, errors.New("qwen: the cache is closed")
	case c.err != nil:
		return nil, fmt.Errorf("qwen: the cache has to be Reset after: %w", c.err)
	case n == 0 || int64(len(tokens))%c.batch != 0:
		return nil, fmt.Errorf("qwen: %d tokens for %d sequences; give each the same number, at least one", len(tokens), c.batch)
	case c.length+n > c.capacity:
		return nil, fmt.Errorf("qwen: the cache has %d of %d tokens; %d more do not fit, make a longer one", c.length, c.capacity, n)
	}
	for i, id := range tokens {
		if id < 0 || int(id) >= m.Config.VocabSize {
			return nil, fmt.Errorf("qwen: token %d is %d; the vocabulary has %d tokens", i, id, m.Config.VocabSize)
		}
	}
	p := m.pass(ctx)
	defer func() {
		err = errors.Join(err, p.close())
		c.err = err
	}()
	in := &inputs{
		batch: c.batch, length: n, from: c.length, scale: 1 / math.Sqrt(float64(m.Config.HeadDim)), mask: mask.Causal{Anchor: mask.BottomRight}, cache: c,
	}
	if in.ids, err = p.tokens(tokens); err != nil {
		return nil, err
	}
	if in.rope, err = m.rope.get(ctx, m.st, m.Config, m.dt, c.length, n); err != nil {
		return nil, err
	}
	if logits, err = p.read(m.forward(p, in, nil).out); err == nil {
		c.length += n
	}
	return logits, err
}

// newest is what the head computes for, of x [tokens, hidden]: with a cache the last token
// of each sequence, and else all tokens.
func (m *inputs) newest(p *pass, x *aclnn.Tensor) *aclnn.Tensor {
	if m.cache == nil || p.err != nil {
		return x
	}
	last := p.tensor(p.dt, m.batch, x.Dim(1))
	p.copy(last, x.Reshape(m.batch, m.length, -1).Select(1, m.length-1))
	return last
}

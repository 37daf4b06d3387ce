package model

import (
	"context"
	"errors"
	"fmt"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/autograd"
	"github.com/goascend/cann/ops/decode"
)

// Cache holds keys and values of attention and states of delta nets for the tokens read so far, so
// that later tokens need not read them again. Its sequences have the same length. Close it before
// the model.
type Cache struct {
	m               *Model
	batch, capacity int64
	length          int64
	layers          []*past
	memory          aclnn.Scope
	ops             *decode.Operators
	err             error // why the cache can no longer be used
}

// past is the cache of one layer.
type past struct {
	keys, values *aclnn.Tensor // of attention, [batch, capacity, heads, features]; latents and rotated keys of latent attention
	inputs       *aclnn.Tensor // last inputs of a delta net's convolution, [batch, channels, taps]
	state        *aclnn.Tensor // of its rule, [batch, heads, key features, value features], float32
}

// NewCache makes an empty cache for size sequences of at most length tokens.
func (m *Model) NewCache(size, length int) (*Cache, error) {
	if err := m.alone("NewCache"); err != nil {
		return nil, err
	}
	if size <= 0 || length <= 0 {
		return nil, fmt.Errorf("model: a cache of %d sequences of %d tokens; both must be positive", size, length)
	}
	dec, err := decode.New(m.reg)
	if err != nil {
		return nil, err
	}
	c := &Cache{m: m, batch: int64(size), capacity: int64(length), memory: aclnn.Scope{Stream: m.st}, ops: dec}
	for i := range m.Config.Layers {
		c.layers = append(c.layers, c.layer(i))
	}
	if err := c.memory.Err(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Cache) layer(index int) *past {
	cfg, dt := c.m.Config, c.m.dt
	if !cfg.linear(index) {
		heads, key, value := cfg.cells()
		// Hidden places get a weight of zero, but zero times the NaN of used memory would be NaN.
		return &past{keys: zeros(&c.memory, dt, c.batch, c.capacity, heads, key), values: zeros(&c.memory, dt, c.batch, c.capacity, heads, value)}
	}
	hk, hv, dk, dv := int64(cfg.LinearKeyHeads), int64(cfg.LinearValueHeads), int64(cfg.LinearKeyDim), int64(cfg.LinearValueDim)
	return &past{
		inputs: c.memory.Tensor(dt, c.batch, 2*hk*dk+hv*dv, int64(cfg.LinearTaps)),
		state:  c.memory.Tensor(aclnn.Float32, c.batch, hv, dk, dv),
	}
}

// cells returns the heads of a token in a cache, and the features of each in the two tensors of a layer.
func (c Config) cells() (heads, key, value int64) {
	if c.family().latent {
		return 1, int64(c.KVRank), int64(c.RotatedHeadDim)
	}
	return int64(c.KVHeads), int64(c.HeadDim), int64(c.HeadDim)
}

// Close frees the cache.
func (c *Cache) Close() error {
	c.layers = nil
	return c.memory.Close()
}

// Len returns the number of tokens of each sequence so far.
func (c *Cache) Len() int { return int(c.length) }

// Reset forgets all tokens.
func (c *Cache) Reset() { c.length, c.err = 0, nil }

// attend appends keys and values of new tokens to the cache and returns the attention of these tokens
// to all tokens. It has no gradient.
func (m *inputs) attend(p *pass, q, k, v, sinks *autograd.Var, window int64) *autograd.Var {
	return p.Record("attention to the cache", withSinks(sinks, q, k, v), func(c *autograd.Call) {
		past, dec := m.past, m.cache.ops
		a := decode.AttentionArgs{
			Query: q.Value, Layout: ops.BSND, Keys: past.keys, Values: past.values, Lengths: []int64{m.from + m.length}, Scale: m.scale,
			Out: c.Output(p.dt, q.Shape()...),
		}
		a.Hidden, a.Window = m.hidden.of(window)
		if sinks != nil {
			a.Sinks = sinks.Value
		}
		c.Do(func() error {
			if m.slots == nil {
				return errors.Join(aclnn.Copy(p.Stream(), past.keys.Narrow(1, m.from, m.length), k.Value), aclnn.Copy(p.Stream(), past.values.Narrow(1, m.from, m.length), v.Value))
			}
			a.Lengths[0] = m.places
			width := past.keys.Dim(2) * past.keys.Dim(3)
			return dec.Write().Run(p.ctx, p.Stream(), &decode.WriteArgs{
				Keys: k.Value.Reshape(-1, k.Dim(2), k.Dim(3)), Values: v.Value.Reshape(-1, v.Dim(2), v.Dim(3)), Slots: m.slots,
				KeyCache: past.keys.Reshape(m.batch, -1, width), ValueCache: past.values.Reshape(m.batch, -1, width),
			})
		})
		c.Do(func() error { return dec.Attention().Run(p.ctx, p.Stream(), &a) })
	})[0]
}

// withSinks lists what attention to a cache reads, where sinks may be nil.
func withSinks(sinks *autograd.Var, others ...*autograd.Var) []*autograd.Var {
	if sinks == nil {
		return others
	}
	return append(others, sinks)
}

// resume makes a delta net start from the states in the cache and store its final states there.
func (m *inputs) resume(conv *ops.CausalConvArgs, rule *ops.GatedDeltaArgs) {
	if m.past == nil {
		return
	}
	conv.FinalState, rule.FinalState = m.past.inputs, m.past.state
	if m.from > 0 {
		conv.InitialState, rule.InitialState = m.past.inputs, m.past.state
	}
}

// Extend reads the next tokens of each sequence, [size, n] in row-major order, and returns the
// logits after the last one, [size, vocabulary]. After an error of the device the cache must be
// Reset.
func (m *Model) Extend(ctx context.Context, c *Cache, tokens []int32) (logits []float32, err error) {
	if c.m != m {
		return nil, errors.New("model: the cache is of another model")
	}
	if err := c.fits(tokens); err != nil {
		return nil, err
	}
	n := int64(len(tokens)) / c.batch
	p := m.pass(ctx, autograd.Options{NoGrad: true})
	defer func() {
		err = errors.Join(err, p.Close())
		c.err = err
	}()
	in := &inputs{
		batch: c.batch, length: n, from: c.length, scale: m.Config.attentionScale(), cache: c,
	}
	in.ids = p.tokens(tokens)
	if in.rope, err = m.rope.get(ctx, m.st, m.Config, m.dt, c.length, n); err != nil {
		return nil, err
	}
	logits = p.read(m.forward(p, in, nil).Value)
	if p.Err() != nil {
		return nil, p.Err()
	}
	c.length += n
	return logits, nil
}

// fits refuses tokens that the cache cannot take.
func (c *Cache) fits(tokens []int32) error {
	n := int64(len(tokens)) / c.batch
	switch {
	case c.layers == nil:
		return errors.New("model: the cache is closed")
	case c.err != nil:
		return fmt.Errorf("model: the cache has to be Reset after: %w", c.err)
	case n == 0 || int64(len(tokens))%c.batch != 0:
		return fmt.Errorf("model: %d tokens for %d sequences; give each the same number, at least one", len(tokens), c.batch)
	case c.m.Config.longest() > 0 && int(c.length+n) > c.m.Config.longest():
		return fmt.Errorf("model: the cache would have %d tokens: %w", c.length+n, c.m.Config.tooLong())
	case c.length+n > c.capacity:
		return fmt.Errorf("model: the cache has %d of %d tokens; %d more do not fit, make a longer one", c.length, c.capacity, n)
	}
	return c.m.known(tokens)
}

// known refuses tokens that the vocabulary lacks.
func (m *Model) known(tokens []int32) error {
	for i, id := range tokens {
		if id < 0 || int(id) >= m.Config.VocabSize {
			return fmt.Errorf("model: token %d is %d; the vocabulary has %d tokens", i, id, m.Config.VocabSize)
		}
	}
	return nil
}

// newest returns the rows of x [tokens, hidden] for which the head computes logits: with a cache
// the last token of each sequence, with pages those in last if that is set, otherwise all tokens.
func (m *inputs) newest(p *pass, x *autograd.Var) *autograd.Var {
	if x == nil || m.cache == nil && m.last == nil {
		return x
	}
	return p.Record("newest tokens", []*autograd.Var{x}, func(c *autograd.Call) {
		if m.last != nil {
			out := c.Output(p.dt, m.last.Len(), x.Dim(1))
			c.Do(func() error {
				return aclnn.IndexSelect(p.Stream(), aclnn.IndexSelectParams{Self: x.Value, Dim: 0, Index: m.last, Out: out})
			})
			return
		}
		out := c.Output(p.dt, m.batch, x.Dim(1))
		c.Do(func() error {
			return aclnn.Copy(p.Stream(), out, x.Value.Reshape(m.batch, m.length, -1).Select(1, m.length-1))
		})
	})[0]
}

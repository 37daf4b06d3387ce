package model

import (
	"context"
	"errors"
	"fmt"
	"math"

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
	read            [][]int32 // tokens of each sequence, where keys may have to be rotated anew (Config.SwitchesAfter)
	layers          []*past
	memory          aclnn.Scope
	ops             *decode.Operators
	err             error // why the cache can no longer be used
}

// past is the cache of one layer.
type past struct {
	cells                // of attention, a row for each sequence
	inputs *aclnn.Tensor // last inputs of a delta net's convolution, [batch, channels, taps]
	state  *aclnn.Tensor // of its rule, [batch, heads, key features, value features], float32
}

// cells hold keys and values of a layer's attention, or latents and rotated keys of latent attention, [rows, places, heads·features]. With
// Config.Int8Cache they are codes, with scales [rows, heads, places].
type cells struct{ keys, values, keyScales, valueScales *aclnn.Tensor }

// newCells makes the cells of this rank.
func (m *Model) newCells(s *aclnn.Scope, rows, places int64) (c cells) {
	heads, key, value := m.Config.cells()
	if heads > 1 {
		heads /= m.tp.Size()
	}
	dt := m.dt
	if m.Config.Int8Cache {
		dt = aclnn.Int8
		c.keyScales, c.valueScales = zeros(s, aclnn.Float32, rows, heads, places), zeros(s, aclnn.Float32, rows, heads, places)
	}
	// Hidden places get a weight of zero, but zero times the NaN of used memory would be NaN.
	c.keys, c.values = zeros(s, dt, rows, places, heads*key), zeros(s, dt, rows, places, heads*value)
	return c
}

// checkCells refuses models whose keys and values are not kept in int8.
func (m *Model) checkCells() error {
	switch {
	case !m.Config.Int8Cache:
		return nil
	case m.Config.family().latent:
		return fmt.Errorf("model: Int8Cache with model_type %s: CANN's attention takes no latents in int8 with rotated keys besides", m.Config.ModelType)
	case m.dt == aclnn.Float32:
		return errors.New("model: Int8Cache needs a dtype of 16 bits, of which aclnnDynamicQuant makes the codes")
	}
	return nil
}

// of adds the cache to the arguments of attention.
func (c cells) of(a *decode.AttentionArgs) {
	a.Keys, a.Values, a.KeyScales, a.ValueScales = c.keys, c.values, c.keyScales, c.valueScales
}

// write stores keys and values, [tokens, heads, features].
func (c cells) write(p *pass, dec *decode.Operators, keys, values, slots *aclnn.Tensor) error {
	return dec.Write().Run(p.ctx, p.Stream(), &decode.WriteArgs{
		Keys: keys, Values: values, KeyCache: c.keys, ValueCache: c.values, KeyScales: c.keyScales, ValueScales: c.valueScales, Slots: slots,
	})
}

// NewCache makes an empty cache for size sequences of at most length tokens.
func (m *Model) NewCache(size, length int) (*Cache, error) {
	if err := m.alone("NewCache"); err != nil {
		return nil, err
	}
	if m.Config.Encoder() {
		return nil, errEncoder
	}
	if m.Config.Score {
		return nil, errSequences
	}
	if size <= 0 || length <= 0 || length > math.MaxInt32/size {
		return nil, fmt.Errorf("model: a cache of %d sequences of %d tokens; both must be positive, and all tokens less than 2³¹", size, length)
	}
	if err := m.checkCells(); err != nil {
		return nil, err
	}
	dec, err := decode.New(m.reg)
	if err != nil {
		return nil, err
	}
	c := &Cache{m: m, batch: int64(size), capacity: int64(length), read: make([][]int32, size), memory: aclnn.Scope{Stream: m.st}, ops: dec}
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
		return &past{cells: c.m.newCells(&c.memory, c.batch, c.capacity)}
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
func (c *Cache) Reset() {
	c.length, c.err = 0, nil
	clear(c.read)
}

// switches reports whether the next tokens give all keys in the cache another rotation.
func (c *Cache) switches(n int64) bool { return c.length > 0 && !c.long(0) && c.long(n) }

// long reports whether sequences of n more tokens have the rotation of long ones.
func (c *Cache) long(n int64) bool {
	limit := int64(c.m.Config.SwitchesAfter())
	return limit > 0 && c.length+n > limit
}

// note keeps the tokens that a pass has read.
func (c *Cache) note(tokens []int32) {
	n := len(tokens) / int(c.batch)
	if c.length += int64(n); c.m.Config.SwitchesAfter() > 0 {
		for i := range c.read {
			c.read[i] = append(c.read[i], tokens[i*n:][:n]...)
		}
	}
}

// attend appends keys and values of new tokens to the cache and returns the attention of these tokens
// to all tokens. It has no gradient.
func (m *inputs) attend(p *pass, q, k, v, sinks *autograd.Var, window int64) *autograd.Var {
	return p.Record("attention to the cache", withSinks(sinks, q, k, v), func(c *autograd.Call) {
		past, dec := m.past, m.cache.ops
		a := decode.AttentionArgs{
			Query: q.Value, Layout: ops.BSND, Lengths: []int64{m.places}, Scale: m.scale, Out: c.Output(p.dt, q.Shape()...),
		}
		past.of(&a)
		a.Keys, a.Values = a.Keys.Unflatten(2, k.Dim(2), k.Dim(3)), a.Values.Unflatten(2, v.Dim(2), v.Dim(3))
		a.Hidden, a.Window = m.hidden.of(window)
		if sinks != nil {
			a.Sinks = sinks.Value
		}
		c.Do(func() error {
			return past.write(p, dec, k.Value.Reshape(-1, k.Dim(2), k.Dim(3)), v.Value.Reshape(-1, v.Dim(2), v.Dim(3)), m.slots)
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
// logits after the last one, [size, vocabulary]. Where these tokens end the first rotation of LongRoPE
// (Config.SwitchesAfter), it reads all tokens of the cache again, with the second. After an error of the device the cache
// must be Reset.
func (m *Model) Extend(ctx context.Context, c *Cache, tokens []int32) (logits []float32, err error) {
	if c.m != m {
		return nil, errors.New("model: the cache is of another model")
	}
	if err := c.fits(tokens); err != nil {
		return nil, err
	}
	n := int64(len(tokens)) / c.batch
	if c.switches(n) {
		var all []int32
		for i, read := range c.read {
			all = append(append(all, read...), tokens[int64(i)*n:][:n]...)
		}
		c.Reset()
		tokens, n = all, int64(len(all))/c.batch
	}
	p := m.pass(ctx, autograd.Options{NoGrad: true})
	defer func() {
		err = errors.Join(err, p.Close())
		c.err = err
	}()
	in := &inputs{
		batch: c.batch, length: n, from: c.length, places: c.length + n, scale: m.Config.attentionScale(), cache: c,
	}
	in.ids, in.slots = p.tokens(tokens), p.tokens(c.next(n))
	if err := m.rope.cached(ctx, m.st, m.Config, m.dt, c.length+n); err != nil {
		return nil, err
	}
	row := m.rope.row(c.length, c.long(n))
	in.rope = rotation{m.rope.cos.Narrow(1, row, n), m.rope.sin.Narrow(1, row, n)}
	logits = p.read(m.forward(p, in, nil).Value)
	if p.Err() != nil {
		return nil, p.Err()
	}
	c.note(tokens)
	return logits, nil
}

// next returns the slots of the next tokens.
func (c *Cache) next(n int64) (slots []int32) {
	for row := range c.batch {
		for i := range n {
			slots = append(slots, int32(row*c.capacity+c.length+i))
		}
	}
	return slots
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
	case c.length+n > c.capacity:
		return fmt.Errorf("model: the cache has %d of %d tokens; %d more do not fit, make a longer one", c.length, c.capacity, n)
	}
	if err := c.m.Config.fitsCache(int(c.length + n)); err != nil {
		return fmt.Errorf("model: the cache: %w", err)
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

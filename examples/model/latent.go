package model

import (
	"fmt"
	"math"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/autograd"
	"github.com/goascend/cann/ops/decode"
)

// latentAttention is multi-head latent attention (DeepSeek V2, arXiv:2405.04434). A token has one latent, from which keys and values of all heads
// are computed, and one rotated key that all heads share. A cache holds these two: queries and results then pass
// the halves of kvB in place of keys and values.
type latentAttention struct {
	q, qA, qB          linear // q, or with a rank of queries qA and qB
	qNorm, kvNorm      norm
	kvA, kvB, o        linear
	heads              int64 // of this rank
	plain, rotated, dv int64 // features of a head of queries and keys, those that are rotated, and those of its values
	rank               int64 // features of a latent
	interleaved        bool  // rotates pairs of neighbouring features
	scale              float64
}

func newLatentAttention(ps *parameters, c Config, prefix string) latentAttention {
	h, heads := int64(c.HiddenSize), int64(c.Heads)
	a := latentAttention{
		heads: heads / max(ps.tensor.Of, 1), plain: int64(c.PlainHeadDim), rotated: int64(c.RotatedHeadDim), dv: int64(c.ValueHeadDim), rank: int64(c.KVRank),
		interleaved: c.neighbours(), scale: c.latentScale(),
	}
	// Every rank has these whole, and uses them for its own heads.
	shared := func(name string, out, in int64) linear {
		l := ps.linear(ps.add(prefix+name+".weight", out, in))
		l.weight.heads = true
		return l
	}
	normed := func(name string, size int64) norm {
		n := newNorm(ps, c, prefix+name+".weight", size)
		n.scale.heads = true
		return n
	}
	if c.QRank == 0 {
		a.q = ps.linear(ps.addSplit(prefix+"q_proj.weight", 0, heads*(a.plain+a.rotated), h))
	} else {
		a.qA = shared("q_a_proj", int64(c.QRank), h)
		a.qNorm = normed("q_a_layernorm", int64(c.QRank))
		a.qB = ps.linear(ps.addSplit(prefix+"q_b_proj.weight", 0, heads*(a.plain+a.rotated), int64(c.QRank)))
	}
	a.kvA = shared("kv_a_proj_with_mqa", a.rank+a.rotated, h)
	a.kvNorm = normed("kv_a_layernorm", a.rank)
	a.kvB = ps.linear(ps.addSplit(prefix+"kv_b_proj.weight", 0, heads*(a.plain+a.dv), a.rank))
	a.kvB.weight.absorbed = true
	a.o = ps.linear(ps.addSplit(prefix+"o_proj.weight", 1, h, heads*a.dv))
	return a
}

func (a latentAttention) forward(p *pass, x *autograd.Var, m *inputs) *autograd.Var {
	b, n := m.batch, m.length
	x = p.enter(x)
	q := a.q
	queries := x
	if a.qA.weight != nil {
		queries, q = a.qNorm.forward(p, a.qA.forward(p, x)), a.qB
	}
	parts := p.Split(p.Reshape(q.forward(p, queries), b, n, a.heads, -1), 3, a.plain, a.rotated)
	latent := p.Split(a.kvA.forward(p, x), 1, a.rank, a.rotated)
	c := a.kvNorm.forward(p, p.Contiguous(latent[0]))
	rotate := p.RoPE
	if a.interleaved {
		rotate = p.RoPEInterleaved
	}
	query, key := rotate(p.Contiguous(parts[1]), p.Reshape(p.Contiguous(latent[1]), b, n, 1, a.rotated), m.rope.cos, m.rope.sin)
	var y *autograd.Var
	if m.paged != nil || m.past != nil {
		y = a.cached(p, m, parts[0], query, c, key)
	} else {
		kv := p.Split(p.Reshape(a.kvB.forward(p, c), b, n, a.heads, -1), 3, a.plain, a.dv)
		own := *m
		own.scale = a.scale
		groups := p.headGroups(a.heads, b*n*a.heads*(a.plain+a.rotated)*int64(p.dt.Size()))
		queries := p.send(p.Join(3, parts[0], query), groups)
		keys, values := p.send(p.Join(3, kv[0], p.Repeat(key, 2, a.heads)), groups), p.send(p.Contiguous(kv[1]), groups)
		y = p.attend(queries, keys, values, nil, &own, 0)
	}
	return p.leave(a.o.forward(p, p.Reshape(y, b*n, a.heads*a.dv)))
}

// cached appends latents and rotated keys of new tokens to the cache, and returns the attention of these tokens to all tokens. It has no gradient.
func (a latentAttention) cached(p *pass, m *inputs, query, rotated, latent, key *autograd.Var) *autograd.Var {
	b, n := m.batch, m.length
	return p.Record("attention to latents", []*autograd.Var{query, rotated, latent, key}, func(c *autograd.Call) {
		out := c.Output(p.dt, b, n, a.heads, a.dv)
		s := aclnn.Scope{Stream: p.Stream()}
		c.Do(func() error { return a.attend(p, &s, m, query.Value, rotated.Value, latent.Value, key.Value, out) })
		p.Fail(s.Close())
	})[0]
}

func (a latentAttention) attend(p *pass, s *aclnn.Scope, m *inputs, query, rotated, latent, key, out *aclnn.Tensor) error {
	tokens := m.batch * m.length
	weight := a.absorbed(p, s)
	// [heads, tokens, plain] · [heads, plain, rank]
	inner := s.Tensor(p.dt, m.batch, m.length, a.heads, a.rank)
	if s.Err() != nil {
		return s.Err()
	}
	flat := func(t *aclnn.Tensor) *aclnn.Tensor { return t.Reshape(tokens, a.heads, -1).Transpose(0, 1) }
	ops.Queue(p.ctx, s, p.reg.MatMul(), &ops.MatMulArgs{A: flat(s.Contiguous(query)), B: weight.Narrow(1, 0, a.plain), Out: flat(inner)})
	result := s.Tensor(p.dt, m.batch, m.length, a.heads, a.rank)
	a.read(p, s, m, inner, rotated, latent.Reshape(m.batch, m.length, 1, a.rank), key, result)
	ops.Queue(p.ctx, s, p.reg.MatMul(), &ops.MatMulArgs{A: flat(result), B: weight.Narrow(1, a.plain, a.dv).Transpose(1, 2), Out: flat(out)})
	return s.Err()
}

// absorbed returns the weight of keys and values, [heads, plain + dv, rank], with what the adapter in use adds.
func (a latentAttention) absorbed(p *pass, s *aclnn.Scope) *aclnn.Tensor {
	w := a.kvB.weight
	value := w.Value
	if p.adapter != nil {
		for _, l := range p.adapter.pairs[w] {
			sum := s.Like(value)
			s.Copy(sum, value)
			product := s.Like(value)
			ops.Queue(p.ctx, s, p.reg.MatMul(), &ops.MatMulArgs{A: l.b.Value, B: l.a.Value, Out: product})
			aclnn.Launch(s, aclnn.InplaceAdd, aclnn.InplaceAddParams{Self: sum, Other: product, Alpha: aclnn.Float(l.scale)})
			value = sum
		}
	}
	return value.Reshape(a.heads, a.plain+a.dv, a.rank)
}

// read writes latents and rotated keys into the cache, and computes the attention of queries to all latents.
func (a latentAttention) read(p *pass, s *aclnn.Scope, m *inputs, query, rotated, latent, key, out *aclnn.Tensor) {
	args := decode.AttentionArgs{Query: query, QueryRope: s.Contiguous(rotated), Layout: ops.BSND, Scale: a.scale, Out: out}
	if m.paged != nil {
		args.Keys, args.Values, args.KeyRope = m.paged.keys, m.paged.keys, m.paged.values
		s.Do(func() error { return m.paged.write(p, m.pages.ops, latent.Squeeze(0), key.Squeeze(0), m.slots) })
		for i := range m.subBatches {
			sub := &m.subBatches[i]
			part := args
			part.Query, part.QueryRope, part.Out = sub.of(args.Query), sub.of(args.QueryRope), sub.of(out)
			part.Blocks, part.Lengths = sub.blocks, sub.lengths
			part.Hidden, part.Window = sub.hidden.of(0)
			ops.Queue(p.ctx, s, m.pages.ops.Attention(), &part)
		}
		return
	}
	past := m.past
	args.Keys, args.KeyRope, args.Lengths = past.keys.Unsqueeze(2), past.values.Unsqueeze(2), []int64{m.places}
	args.Values = args.Keys
	args.Hidden, args.Window = m.hidden.of(0)
	s.Do(func() error {
		return past.write(p, m.cache.ops, latent.Reshape(-1, 1, a.rank), key.Reshape(-1, 1, a.rotated), m.slots)
	})
	ops.Queue(p.ctx, s, m.cache.ops.Attention(), &args)
}

// neighbours reports whether rotations turn pairs of neighbouring features.
func (c Config) neighbours() bool {
	f := c.family()
	return f.interleaved || f.latent && (c.Interleaved || !f.sigmoid)
}

// latentScale is the factor of attention's scores, with that of YaRN for all features.
func (c Config) latentScale() float64 {
	scale := 1 / math.Sqrt(float64(c.PlainHeadDim+c.RotatedHeadDim))
	if c.Rope.kind() != "default" && c.Rope.MScaleAllDim != 0 && c.Rope.Factor > 1 {
		grown := 0.1*c.Rope.MScaleAllDim*math.Log(c.Rope.Factor) + 1
		scale *= grown * grown
	}
	return scale
}

// validateLatent checks the fields of latent attention.
func (c Config) validateLatent() error {
	for _, f := range []struct {
		name  string
		value int
	}{{"kv_lora_rank", c.KVRank}, {"qk_nope_head_dim", c.PlainHeadDim}, {"qk_rope_head_dim", c.RotatedHeadDim}, {"v_head_dim", c.ValueHeadDim}} {
		if f.value <= 0 {
			return fmt.Errorf("model: %s is %d; it must be positive", f.name, f.value)
		}
	}
	switch {
	case c.QRank < 0:
		return fmt.Errorf("model: q_lora_rank is %d; it must be positive, or 0 for none", c.QRank)
	case c.RotatedHeadDim%2 != 0:
		return fmt.Errorf("model: qk_rope_head_dim is %d; rotary embedding needs pairs", c.RotatedHeadDim)
	case c.ValueHeadDim > c.PlainHeadDim+c.RotatedHeadDim:
		return fmt.Errorf("model: v_head_dim is %d; CANN's attention takes values with up to as many features as keys, %d (qk_nope_head_dim and qk_rope_head_dim)", c.ValueHeadDim, c.PlainHeadDim+c.RotatedHeadDim)
	}
	return nil
}

// latentParameters returns the number of weights of a layer's attention.
func (c Config) latentParameters() int {
	queries := c.Heads * (c.PlainHeadDim + c.RotatedHeadDim)
	n := c.HiddenSize * queries
	if c.QRank > 0 {
		n = c.QRank * (c.HiddenSize + queries + 1)
	}
	n += c.HiddenSize*(c.KVRank+c.RotatedHeadDim) + c.KVRank
	return n + c.Heads*((c.PlainHeadDim+c.ValueHeadDim)*c.KVRank+c.ValueHeadDim*c.HiddenSize)
}

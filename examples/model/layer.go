package model

import (
	"fmt"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/autograd"
)

// linear is a projection, weight [out, in], with a bias or nil.
type linear struct{ weight, bias *Parameter }

func (l linear) forward(p *pass, x *autograd.Var) *autograd.Var {
	var y *autograd.Var
	switch q := l.weight.quantized; {
	case q != nil && l.bias != nil:
		y = p.AddBias(q.multiply(p, x), l.bias.Var)
	case q != nil:
		y = q.multiply(p, x)
	case l.bias != nil:
		y = p.Linear(x, l.weight.Var, l.bias.Var)
	default:
		y = p.Linear(x, l.weight.Var, nil)
	}
	y = p.adapter.forward(p, l.weight, x, y)
	y = p.bank.forward(p, l.weight, x, y)
	return p.multi.forward(p, l.weight, x, y)
}

// norm is RMSNorm over the last dimension, or with a shift LayerNorm.
type norm struct {
	scale   *Parameter
	shift   *Parameter // or nil
	epsilon float64
	centred bool // the weight is the scale minus one
}

func newNorm(ps *parameters, c Config, name string, size int64) norm {
	start := one
	centred := c.family().hybrid || c.family().gemma
	if centred {
		start = zero
	}
	return norm{scale: ps.addVector(name, size, start), epsilon: c.RMSNormEps, centred: centred}
}

func (n norm) forward(p *pass, x *autograd.Var) *autograd.Var {
	if n.scale == nil { // the family has none here
		return x
	}
	if n.shift != nil {
		return p.LayerNorm(x, n.scale.Var, n.shift.Var, n.epsilon)
	}
	return p.RMSNorm(x, n.factor(p), n.epsilon)
}

// after normalises x + y, and returns that sum too; without y, x.
func (n norm) after(p *pass, x, y *autograd.Var) (sum, normed *autograd.Var) {
	if y == nil {
		return x, n.forward(p, x)
	}
	if n.shift != nil {
		x = p.Add(x, y)
		return x, n.forward(p, x)
	}
	return p.AddRMSNorm(x, y, n.factor(p), n.epsilon)
}

// factor returns the factor of the normalised features.
func (n norm) factor(p *pass) *autograd.Var {
	if !n.centred {
		return n.scale.Var
	}
	return p.Derive(n.scale.Var, func(s *aclnn.Scope, weight *aclnn.Tensor) *aclnn.Tensor {
		scale := s.Like(weight)
		aclnn.Launch(s, aclnn.Adds, aclnn.AddsParams{Self: weight, Other: aclnn.Float(1), Alpha: aclnn.Float(1), Out: scale})
		return scale
	}, func(d *aclnn.Tensor) *aclnn.Tensor { return d })
}

// viewOf makes a variable of a view of a weight.
func (p *pass) viewOf(w *Parameter, view func(*aclnn.Tensor) *aclnn.Tensor) *autograd.Var {
	return p.Derive(w.Var, func(_ *aclnn.Scope, value *aclnn.Tensor) *aclnn.Tensor { return view(value) }, view)
}

// mixer exchanges information between the tokens of a sequence: attention, or a gated delta net. x
// is [tokens, hidden].
type mixer interface {
	forward(p *pass, x *autograd.Var, m *inputs) *autograd.Var
}

// attention is grouped-query attention with rotated queries and keys, which most families normalise first. Gated attention
// multiplies its result by a sigmoid; in the weight q the gate's rows follow each head's query.
// heads and kv count this rank's heads.
type attention struct {
	q, k, v, o   linear
	qkv          linear     // in place of q, k and v, with their rows
	outBias      *Parameter // of the sum over the ranks that divide o, or nil
	qNorm, kNorm norm
	heads, kv    int64
	dim          int64
	gated        bool
	rotated      int64      // features of the tables' parts, or 0 if they have one
	interleaved  bool       // rotates pairs of neighbouring features
	unrotated    bool       // of encoders, whose embeddings have the positions
	window       int64      // tokens that a token sees, itself included; 0 for all
	sinks        *Parameter // of the heads, or nil
}

// rotation holds the tables of the rotary embedding, which all layers share.
type rotation struct{ cos, sin *aclnn.Tensor }

// of returns the tables of a layer, of which those with a window may have the second part.
func (r rotation) of(a attention) rotation {
	if a.rotated == 0 {
		return r
	}
	from := int64(0)
	if a.window > 0 {
		from = a.rotated
	}
	return rotation{r.cos.Narrow(3, from, a.rotated), r.sin.Narrow(3, from, a.rotated)}
}

func (a attention) forward(p *pass, x *autograd.Var, m *inputs) *autograd.Var {
	b, n := m.batch, m.length
	x = p.enter(x)
	var q, k, v, gate *autograd.Var
	var queries, keys, values *headsUnderWay
	whole := m.paged == nil && m.past == nil
	groups := p.headGroups(a.kv, b*n*a.heads*a.dim*int64(p.dt.Size()))
	if whole && p.ulysses.Size() > 1 && a.qkv.weight == nil { // queries are exchanged while keys are computed, and these while values are
		q, gate = a.gate(p, p.Reshape(a.q.forward(p, x), b, n, a.heads, -1))
		q, _ = a.rotate(p, a.qNorm.forward(p, q), nil, m)
		queries = p.send(q, groups)
		k, _ = a.rotate(p, a.kNorm.forward(p, p.Reshape(a.k.forward(p, x), b, n, a.kv, a.dim)), nil, m)
		keys = p.send(k, groups)
		values = p.send(p.Reshape(a.v.forward(p, x), b, n, a.kv, a.dim), groups)
	} else {
		q, k, v = a.project(p, x, b, n)
		q, gate = a.gate(p, q)
		q, k = a.rotate(p, a.qNorm.forward(p, q), a.kNorm.forward(p, k), m)
		if whole {
			queries, keys, values = p.send(q, groups), p.send(k, groups), p.send(v, groups)
		}
	}
	var y, sinks *autograd.Var
	if a.sinks != nil {
		sinks = p.Cast(p.own(a.sinks), aclnn.Float32)
	}
	switch {
	case m.paged != nil:
		y = m.attendPages(p, q, k, v, sinks, a.window)
	case m.past != nil:
		y = m.attend(p, q, k, v, sinks, a.window)
	default:
		y = p.attend(queries, keys, values, sinks, m, a.window)
	}
	if a.gated {
		y = p.Mul(y, gate)
	}
	y = p.leave(a.o.forward(p, p.Reshape(y, b*n, a.heads*a.dim)))
	if a.outBias != nil {
		y = p.AddBias(y, a.outBias.Var)
	}
	return y
}

// gate splits the gate of the result, if there is one, from queries.
func (a attention) gate(p *pass, q *autograd.Var) (_, gate *autograd.Var) {
	if !a.gated {
		return q, nil
	}
	halves := p.Split(q, 3, a.dim, a.dim)
	return halves[0], p.Sigmoid(halves[1])
}

// rotate rotates queries, and keys if they are not nil, by their positions.
func (a attention) rotate(p *pass, q, k *autograd.Var, m *inputs) (_, _ *autograd.Var) {
	if a.unrotated {
		return q, k
	}
	rope, rotate := m.rope.of(a), p.RoPE
	if a.interleaved {
		rotate = p.RoPEInterleaved
	}
	return rotate(q, k, rope.cos, rope.sin)
}

// project computes queries, keys and values, [batch, length, heads, features].
func (a attention) project(p *pass, x *autograd.Var, batch, length int64) (q, k, v *autograd.Var) {
	if a.qkv.weight == nil {
		q = p.Reshape(a.q.forward(p, x), batch, length, a.heads, -1)
		return q, p.Reshape(a.k.forward(p, x), batch, length, a.kv, a.dim), p.Reshape(a.v.forward(p, x), batch, length, a.kv, a.dim)
	}
	all := p.Reshape(a.qkv.forward(p, x), batch, length, a.heads+2*a.kv, a.dim)
	parts := p.Split(all, 2, a.heads, a.kv, a.kv)
	return parts[0], parts[1], p.Contiguous(parts[2]) // the others become so when they are rotated
}

// attend computes the attention of whole sequences, group by group of the heads.
func (p *pass) attend(q, k, v *headsUnderWay, sinks *autograd.Var, m *inputs, window int64) *autograd.Var {
	groups := len(q.groups)
	var sinksOf []*autograd.Var
	if sinks != nil && groups > 1 {
		sizes := make([]int64, groups)
		for i := range sizes {
			sizes[i] = sinks.Dim(0) / int64(groups)
		}
		sinksOf = p.Split(sinks, 0, sizes...)
	}
	var results []*autograd.HeadExchange
	for i := range groups {
		query, key, value := q.arrived(i), k.arrived(i), v.arrived(i)
		for _, h := range []*headsUnderWay{q, k, v} {
			h.next()
		}
		if sinksOf != nil {
			sinks = sinksOf[i]
		}
		a := ops.AttentionArgs{Layout: m.layout(), Heads: int(query.Dim(2)), Mask: within(m.mask, window), Scale: m.scale}
		shape := []int64{query.Dim(0), query.Dim(1), query.Dim(2), value.Dim(-1)}
		y := p.ContextAttention(p.cp, m.packed(p, query), m.packed(p, key), m.packed(p, value), sinks, a)
		if m.cu != nil {
			y = p.Reshape(y, shape...)
		}
		results = append(results, p.BeginToSequence(p.ulysses, p.headSide, y))
	}
	return p.EndExchange(results...)
}

// feedForward computes on each token independently: a gated unit, or experts, of which it returns the
// routing. x is [tokens, hidden].
type feedForward interface {
	forward(p *pass, x *autograd.Var) (*autograd.Var, *autograd.Routing)
}

// mlp is the gated feed-forward layer; gateUp has the rows of the gate, then those of the up
// projection.
type mlp struct {
	gateUp, down linear
	activation   string // see Config
}

func newMLP(ps *parameters, c Config, prefix string, inner int64) mlp {
	hidden := int64(c.HiddenSize)
	if c.family().joined.units {
		return mlp{
			activation: c.Activation,
			gateUp:     ps.linear(ps.addBlocks(prefix+"gate_up_proj.weight", []int64{inner, inner}, 2*inner, hidden)),
			down:       ps.linear(ps.addSplit(prefix+"down_proj.weight", 1, hidden, inner)),
		}
	}
	return mlp{
		activation: c.Activation,
		gateUp:     linear{weight: ps.addStacked(prefix+"gate_proj.weight", prefix+"up_proj.weight", inner, hidden)},
		down:       ps.linear(ps.addSplit(prefix+"down_proj.weight", 1, hidden, inner)),
	}
}

func (f mlp) forward(p *pass, x *autograd.Var) (*autograd.Var, *autograd.Routing) {
	return p.leave(f.down.forward(p, f.activate(p, f.gateUp.forward(p, p.enter(x))))), nil
}

// activate multiplies the activation of the gate by the up projection.
func (f mlp) activate(p *pass, x *autograd.Var) *autograd.Var {
	if f.activation == "" || f.activation == "silu" {
		return p.SwiGLU(x)
	}
	halves := p.Split(x, -1, x.Dim(-1)/2, x.Dim(-1)/2)
	return p.Mul(p.Gelu(halves[0], f.activation == "gelu_pytorch_tanh"), halves[1])
}

// layer is a transformer block: a mixer and a feed-forward layer, each on the normalised residual. Some families normalise the results of both too, before
// they add them.
type layer struct {
	number                               int  // in the model
	post                                 bool // the stream goes on with what the norms give
	mixerNorm, mixerEnd, mlpNorm, mlpEnd norm
	mixer                                mixer
	feedForward                          feedForward
}

func layerPrefix(index int) string { return fmt.Sprintf("model.layers.%d.", index) }

// newLayer describes a layer, whose weights have names with a prefix. The one behind the last predicts a further token.
func newLayer(ps *parameters, c Config, index int, prefix string) layer {
	h, i := int64(c.HiddenSize), int64(c.IntermediateSize)
	l := layer{number: index}
	for i, n := range []*norm{&l.mixerNorm, &l.mixerEnd, &l.mlpNorm, &l.mlpEnd} {
		if name := c.normNames()[i]; name != "" {
			*n = newNorm(ps, c, prefix+name+".weight", h)
		}
	}
	switch {
	case c.sparse(index) && c.family().shared && (c.SharedExperts > 0 || !c.family().deepseek):
		l.feedForward = newSharedExperts(ps, c, prefix+"mlp.")
	case c.sparse(index):
		l.feedForward = newExperts(ps, c, prefix+"mlp.")
	default:
		l.feedForward = newMLP(ps, c, prefix+"mlp.", i)
	}
	switch {
	case c.linear(index):
		l.mixer = newDeltaNet(ps, c, prefix+"linear_attn.")
	case c.family().latent:
		l.mixer = newLatentAttention(ps, c, prefix+"self_attn.")
	default:
		l.mixer = newAttention(ps, c, prefix+"self_attn.", c.window(index))
	}
	return l
}

func newAttention(ps *parameters, c Config, prefix string, window int64) attention {
	h, d, q, kv := int64(c.HiddenSize), int64(c.HeadDim), int64(c.Heads), int64(c.KVHeads)
	rows, gated := q*d, c.family().hybrid
	if gated {
		rows *= 2
	}
	project := func(name string, axis int, out, in int64) linear {
		return ps.linear(ps.addSplit(prefix+name, axis, out, in))
	}
	ranks := max(ps.tensor.Of, 1)
	a := attention{heads: q / ranks, kv: kv / ranks, dim: d, gated: gated, window: window, interleaved: c.family().interleaved}
	if c.family().gemma {
		a.rotated = int64(c.rotaryDim())
	}
	inputs := []*linear{&a.q, &a.k, &a.v}
	if c.family().joined.inputs {
		a.qkv = ps.linear(ps.addBlocks(prefix+"qkv_proj.weight", []int64{q * d, kv * d, kv * d}, (q+2*kv)*d, h))
		inputs = nil
	} else {
		a.q, a.k, a.v = project("q_proj.weight", 0, rows, h), project("k_proj.weight", 0, kv*d, h), project("v_proj.weight", 0, kv*d, h)
	}
	a.o = project("o_proj.weight", 1, h, q*d)
	biased, output := c.biased()
	for _, l := range inputs {
		if biased {
			l.bias = ps.addHeads(l.weight.module()+".bias", l.weight.shape[0], zero)
		}
	}
	if output {
		a.outBias = ps.addVector(prefix+"o_proj.bias", h, zero)
	}
	if c.family().sinks {
		a.sinks = ps.addHeads(prefix+"sinks", q, nil)
	}
	if c.normsHeads() {
		a.qNorm, a.kNorm = newNorm(ps, c, prefix+"q_norm.weight", d), newNorm(ps, c, prefix+"k_norm.weight", d)
		a.qNorm.scale.heads, a.kNorm.scale.heads = true, true
	}
	return a
}

// forward returns the residual stream after the layer as two terms, which the norm of the next layer
// adds up, and the routing of experts. x [tokens, hidden] is the stream before the layer; y, if not nil, is its other term.
func (l layer) forward(p *pass, x, y *autograd.Var, m *inputs) (_, _ *autograd.Var, _ *autograd.Routing) {
	x, normed := l.mixerNorm.after(p, x, y)
	if l.post {
		x = normed
	}
	mixed, run := normed, p.Block
	if p.recompute == RecomputeAttention {
		run = p.Checkpoint
	}
	y = l.mixerEnd.forward(p, run("attention or delta net", func() *autograd.Var { return l.mixer.forward(p, mixed, m) }))
	x, normed = l.mlpNorm.after(p, x, y)
	if l.post {
		x = normed
	}
	result, routing := l.feedForward.forward(p, normed)
	return x, l.mlpEnd.forward(p, result), routing
}

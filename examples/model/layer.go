package model

import (
	"fmt"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
)

// linear is a projection without bias, weight [out, in].
type linear struct{ weight *Parameter }

func (l linear) forward(p *pass, x *aclnn.Tensor) *aclnn.Tensor {
	shape := x.Shape()
	shape[len(shape)-1] = l.weight.Value.Dim(0)
	y := p.Tensor(p.dt, shape...)
	if q := l.weight.quantized; q != nil {
		q.multiply(p, x, y)
	} else {
		ops.Queue(p.ctx, &p.Scope, p.reg.Linear(), &ops.LinearArgs{X: x, Weight: l.weight.Value, Out: y})
	}
	p.adapter.forward(p, l.weight, x, y)
	p.bank.forward(p, l.weight, x, y)
	p.multi.forward(p, l.weight, x, y)
	return y
}

// backward returns dx and writes the gradient of the weight, or of an adapter on a frozen weight.
func (l linear) backward(p *pass, x, dy *aclnn.Tensor) *aclnn.Tensor {
	dx := p.Like(x)
	ops.Queue(p.ctx, &p.Scope, p.reg.LinearGrad(), &ops.LinearGradArgs{X: x, Weight: l.weight.Value, DOut: dy, DX: dx, DWeight: l.weight.Grad, Accumulate: p.accumulate})
	p.adapter.backward(p, l.weight, x, dy, dx)
	p.multi.backward(p, l.weight, dy, dx)
	return dx
}

// norm is RMSNorm over the last dimension.
type norm struct {
	scale   *Parameter
	epsilon float64
	centred bool // the weight is the scale minus one
}

func newNorm(ps *parameters, c Config, name string, size int64) norm {
	start := one
	if c.family().hybrid {
		start = zero
	}
	return norm{scale: ps.addVector(name, size, start), epsilon: c.RMSNormEps, centred: c.family().hybrid}
}

type normState struct{ x, rstd *aclnn.Tensor }

func (n norm) forward(p *pass, x *aclnn.Tensor) (*aclnn.Tensor, normState) {
	shape := x.Shape()
	shape[len(shape)-1] = 1
	y, rstd := p.Like(x), p.Tensor(aclnn.Float32, shape...)
	ops.Queue(p.ctx, &p.Scope, p.reg.RMSNorm(), &ops.RMSNormArgs{X: x, Weight: n.factor(p), Epsilon: n.epsilon, Out: y, RStd: rstd})
	return y, normState{x, rstd}
}

// after normalises x + y, and returns that sum too; without y, x.
func (n norm) after(p *pass, x, y *aclnn.Tensor) (sum, normed *aclnn.Tensor, s normState) {
	if y == nil {
		normed, s = n.forward(p, x)
		return x, normed, s
	}
	shape := x.Shape()
	shape[len(shape)-1] = 1
	sum, normed, s.rstd = p.Like(x), p.Like(x), p.Tensor(aclnn.Float32, shape...)
	s.x = sum
	ops.Queue(p.ctx, &p.Scope, p.reg.AddRMSNorm(), &ops.AddRMSNormArgs{X: x, Residual: y, Weight: n.factor(p), Epsilon: n.epsilon, Sum: sum, Out: normed, RStd: s.rstd})
	return sum, normed, s
}

// factor returns the factor of the normalised features.
func (n norm) factor(p *pass) *aclnn.Tensor {
	if !n.centred {
		return n.scale.Value
	}
	scale := p.Like(n.scale.Value)
	aclnn.Launch(&p.Scope, aclnn.Adds, aclnn.AddsParams{Self: n.scale.Value, Other: aclnn.Float(1), Alpha: aclnn.Float(1), Out: scale})
	return scale
}

func (n norm) backward(p *pass, s normState, dy *aclnn.Tensor) *aclnn.Tensor {
	dx := p.Like(s.x)
	ops.Queue(p.ctx, &p.Scope, p.reg.RMSNormGrad(), &ops.RMSNormGradArgs{DOut: dy, X: s.x, RStd: s.rstd, Weight: n.factor(p), DX: dx, DWeight: p.gradient(n.scale), Accumulate: p.adding()})
	return dx
}

// mixer exchanges information between the tokens of a sequence: attention, or a gated delta net. x
// is [tokens, hidden]; the result includes the state for the backward pass.
type mixer interface {
	forward(p *pass, x *aclnn.Tensor, m *inputs) (*aclnn.Tensor, mixed)
}

// mixed is the state of a mixer's forward pass: backward computes the gradient of the input from
// that of the result, and writes the gradients of the weights.
type mixed interface {
	backward(p *pass, m *inputs, dy *aclnn.Tensor) *aclnn.Tensor
}

// attention is grouped-query attention with normalised, rotated queries and keys. Gated attention
// multiplies its result by a sigmoid; in the weight q the gate's rows follow each head's query.
// heads and kv count this rank's heads.
type attention struct {
	q, k, v, o   linear
	qNorm, kNorm norm
	heads, kv    int64
	dim          int64
	gated        bool
}

type attentionState struct {
	attention
	x, q, k, v, out *aclnn.Tensor
	local, mixed    *aclnn.Tensor // this rank's positions of out, and the input of the projection
	gate            *aclnn.Tensor // after the sigmoid
	max, sum        *aclnn.Tensor
	qNorm, kNorm    normState
}

// rotation holds the tables of the rotary embedding, which all layers share.
type rotation struct{ cos, sin *aclnn.Tensor }

// forward rotates queries and keys.
func (r rotation) forward(p *pass, q, k *aclnn.Tensor) (rotatedQ, rotatedK *aclnn.Tensor) {
	a := ops.RoPEArgs{X: q, Key: k, Cos: r.cos, Sin: r.sin, Out: p.Like(q), KeyOut: p.Like(k)}
	ops.Queue(p.ctx, &p.Scope, p.reg.RoPE(), &a)
	return a.Out, a.KeyOut
}

// backward returns the gradients of queries and keys from those of the rotated ones.
func (r rotation) backward(p *pass, dq, dk *aclnn.Tensor) (_, _ *aclnn.Tensor) {
	a := ops.RoPEGradArgs{DOut: dq, DKeyOut: dk, Cos: r.cos, Sin: r.sin, DX: p.Like(dq), DKey: p.Like(dk)}
	ops.Queue(p.ctx, &p.Scope, p.reg.RoPEGrad(), &a)
	return a.DX, a.DKey
}

func (s *attentionState) args(m *inputs) ops.AttentionArgs {
	return ops.AttentionArgs{
		Query: m.tokens(s.q), Key: m.tokens(s.k), Value: m.tokens(s.v), Layout: m.layout(), Heads: int(s.q.Dim(2)), Mask: m.mask, Scale: m.scale,
		Out: m.tokens(s.out), SoftmaxMax: s.max, SoftmaxSum: s.sum,
	}
}

func (a attention) forward(p *pass, x *aclnn.Tensor, m *inputs) (*aclnn.Tensor, mixed) {
	b, n := m.batch, m.length
	x = p.enter(x)
	s := &attentionState{attention: a, x: x}
	q := a.q.forward(p, x).Reshape(b, n, a.heads, -1)
	if a.gated {
		s.gate = p.Tensor(p.dt, b, n, a.heads, a.dim)
		aclnn.Launch(&p.Scope, aclnn.Sigmoid, aclnn.SigmoidParams{Self: q.Narrow(-1, a.dim, a.dim), Out: s.gate})
		q = q.Narrow(-1, 0, a.dim)
	}
	k := a.k.forward(p, x).Reshape(b, n, a.kv, a.dim)
	s.v = a.v.forward(p, x).Reshape(b, n, a.kv, a.dim)
	q, s.qNorm = a.qNorm.forward(p, q)
	k, s.kNorm = a.kNorm.forward(p, k)
	s.q, s.k = m.rope.forward(p, q, k)
	switch {
	case m.paged != nil:
		s.local = m.attendPages(p, s.q, s.k, s.v)
	case m.past != nil:
		s.local = m.attend(p, s.q, s.k, s.v)
	default:
		a.attend(p, s, m)
	}
	s.mixed = s.local
	if a.gated {
		s.mixed = p.product(s.local, s.gate)
	}
	s.mixed = s.mixed.Reshape(b*n, a.heads*a.dim)
	return p.leave(a.o.forward(p, s.mixed)), s
}

// attend computes the attention of whole sequences, and what its gradient needs.
func (a attention) attend(p *pass, s *attentionState, m *inputs) {
	if p.exchange {
		s.q, s.k, s.v = p.toHeads(s.q), p.toHeads(s.k), p.toHeads(s.v)
	}
	s.out = p.Like(s.q)
	stats := m.stats(s.q)
	s.max, s.sum = p.Tensor(aclnn.Float32, stats...), p.Tensor(aclnn.Float32, stats...)
	args := s.args(m)
	p.Do(func() error { return p.cp.Attention(p.ctx, p.Stream, &args) })
	s.local = s.out
	if p.exchange {
		s.local = p.toSequence(s.out, a.heads)
	}
}

func (s *attentionState) backward(p *pass, m *inputs, dy *aclnn.Tensor) *aclnn.Tensor {
	a, b, n := s.attention, m.batch, m.length
	dOut := a.o.backward(p, s.mixed, p.enter(dy)).Reshape(b, n, a.heads, a.dim)
	var dGate *aclnn.Tensor
	if a.gated {
		dGate = p.product(dOut, s.local)
		dOut = p.product(dOut, s.gate)
	}
	if p.exchange {
		dOut = p.toHeads(dOut)
	}
	dq, dk, dv := p.Like(s.q), p.Like(s.k), p.Like(s.v)
	grad := ops.AttentionGradArgs{AttentionArgs: s.args(m), DOut: m.tokens(dOut), DQuery: m.tokens(dq), DKey: m.tokens(dk), DValue: m.tokens(dv)}
	p.Do(func() error { return p.cp.AttentionGrad(p.ctx, p.Stream, &grad) })
	if p.exchange {
		dq, dk, dv = p.toSequence(dq, a.heads), p.toSequence(dk, a.kv), p.toSequence(dv, a.kv)
	}
	dq, dk = m.rope.backward(p, dq, dk)
	dq, dk = a.qNorm.backward(p, s.qNorm, dq), a.kNorm.backward(p, s.kNorm, dk)
	if a.gated {
		both := p.Tensor(p.dt, b, n, a.heads, 2*a.dim)
		p.Copy(both.Narrow(-1, 0, a.dim), dq)
		aclnn.Launch(&p.Scope, aclnn.SigmoidBackward, aclnn.SigmoidBackwardParams{GradOutput: dGate, Output: s.gate, GradInput: both.Narrow(-1, a.dim, a.dim)})
		dq = both
	}
	dx := a.q.backward(p, s.x, dq.Reshape(b*n, -1))
	p.add(dx, a.k.backward(p, s.x, dk.Reshape(b*n, a.kv*a.dim)))
	p.add(dx, a.v.backward(p, s.x, dv.Reshape(b*n, a.kv*a.dim)))
	return p.leave(dx)
}

// feedForward computes on each token independently: a gated unit, or experts. x is [tokens,
// hidden].
type feedForward interface {
	forward(p *pass, x *aclnn.Tensor) (*aclnn.Tensor, fed)
}

// fed is the state of a feedForward's forward pass, like mixed for a mixer.
type fed interface {
	backward(p *pass, dy *aclnn.Tensor) *aclnn.Tensor
}

// mlp is the gated feed-forward layer; gateUp has the rows of the gate, then those of the up
// projection.
type mlp struct{ gateUp, down linear }

type mlpState struct {
	mlp
	x, gateUp, act *aclnn.Tensor
}

func newMLP(ps *parameters, prefix string, hidden, inner int64) mlp {
	return mlp{
		gateUp: linear{ps.addStacked(prefix+"gate_proj.weight", prefix+"up_proj.weight", inner, hidden)},
		down:   ps.linear(ps.addSplit(prefix+"down_proj.weight", 1, hidden, inner)),
	}
}

func (f mlp) forward(p *pass, x *aclnn.Tensor) (*aclnn.Tensor, fed) {
	x = p.enter(x)
	s := &mlpState{mlp: f, x: x, gateUp: f.gateUp.forward(p, x)}
	s.act = p.Tensor(p.dt, x.Dim(0), f.down.weight.Value.Dim(1))
	ops.Queue(p.ctx, &p.Scope, p.reg.SwiGLU(), &ops.SwiGLUArgs{X: s.gateUp, Out: s.act})
	return p.leave(f.down.forward(p, s.act)), s
}

func (s *mlpState) backward(p *pass, dy *aclnn.Tensor) *aclnn.Tensor {
	f := s.mlp
	dAct := f.down.backward(p, s.act, p.enter(dy))
	dGateUp := p.Like(s.gateUp)
	ops.Queue(p.ctx, &p.Scope, p.reg.SwiGLUGrad(), &ops.SwiGLUGradArgs{DOut: dAct, X: s.gateUp, DX: dGateUp})
	return p.leave(f.gateUp.backward(p, s.x, dGateUp))
}

// layer is a transformer block: a mixer and a feed-forward layer, each on the normalised residual.
type layer struct {
	mixerNorm, mlpNorm norm
	mixer              mixer
	feedForward        feedForward
}

type layerState struct {
	mixerNorm, mlpNorm normState
	mixed              mixed
	fed                fed
}

func newLayer(ps *parameters, c Config, index int) layer {
	prefix := fmt.Sprintf("model.layers.%d.", index)
	h, i := int64(c.HiddenSize), int64(c.IntermediateSize)
	l := layer{
		mixerNorm: newNorm(ps, c, prefix+"input_layernorm.weight", h),
		mlpNorm:   newNorm(ps, c, prefix+"post_attention_layernorm.weight", h),
	}
	switch {
	case c.sparse(index) && c.family().shared:
		l.feedForward = newSharedExperts(ps, c, prefix+"mlp.")
	case c.sparse(index):
		l.feedForward = newExperts(ps, c, prefix+"mlp.")
	default:
		l.feedForward = newMLP(ps, prefix+"mlp.", h, i)
	}
	if c.linear(index) {
		l.mixer = newDeltaNet(ps, c, prefix+"linear_attn.")
	} else {
		l.mixer = newAttention(ps, c, prefix+"self_attn.")
	}
	return l
}

func newAttention(ps *parameters, c Config, prefix string) attention {
	h, d, q, kv := int64(c.HiddenSize), int64(c.HeadDim), int64(c.Heads), int64(c.KVHeads)
	rows, gated := q*d, c.family().hybrid
	if gated {
		rows *= 2
	}
	project := func(name string, axis int, out, in int64) linear {
		return ps.linear(ps.addSplit(prefix+name, axis, out, in))
	}
	ranks := max(ps.tensor.parts, 1)
	a := attention{
		q: project("q_proj.weight", 0, rows, h), k: project("k_proj.weight", 0, kv*d, h),
		v: project("v_proj.weight", 0, kv*d, h), o: project("o_proj.weight", 1, h, q*d),
		qNorm: newNorm(ps, c, prefix+"q_norm.weight", d), kNorm: newNorm(ps, c, prefix+"k_norm.weight", d),
		heads: q / ranks, kv: kv / ranks, dim: d, gated: gated,
	}
	a.qNorm.scale.heads, a.kNorm.scale.heads = true, true
	return a
}

// forward returns the residual stream after the layer as two terms, which the norm of the next layer
// adds up. x [tokens, hidden] is the stream before the layer; y, if not nil, is its other term.
func (l layer) forward(p *pass, x, y *aclnn.Tensor, m *inputs) (_, _ *aclnn.Tensor, s layerState) {
	var normed *aclnn.Tensor
	x, normed, s.mixerNorm = l.mixerNorm.after(p, x, y)
	y, s.mixed = l.mixer.forward(p, normed, m)
	x, normed, s.mlpNorm = l.mlpNorm.after(p, x, y)
	y, s.fed = l.feedForward.forward(p, normed)
	return x, y, s
}

// backward computes the gradient of the layer's input from that of its output, in place in dy.
func (l layer) backward(p *pass, s layerState, m *inputs, dy *aclnn.Tensor) *aclnn.Tensor {
	p.add(dy, l.mlpNorm.backward(p, s.mlpNorm, s.fed.backward(p, dy)))
	p.add(dy, l.mixerNorm.backward(p, s.mixerNorm, s.mixed.backward(p, m, dy)))
	return dy
}

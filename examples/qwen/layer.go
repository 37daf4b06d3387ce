package qwen

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
	y := p.tensor(p.dt, shape...)
	run(p, p.reg.Linear, &ops.LinearArgs{X: x, Weight: l.weight.Value, Out: y})
	return y
}

// backward returns dx and writes the weight's gradient.
func (l linear) backward(p *pass, x, dy *aclnn.Tensor) *aclnn.Tensor {
	dx := p.like(x)
	run(p, p.reg.LinearGrad, &ops.LinearGradArgs{X: x, Weight: l.weight.Value, DOut: dy, DX: dx, DWeight: l.weight.Grad})
	return dx
}

// norm is RMSNorm over the last dimension.
type norm struct {
	scale   *Parameter
	epsilon float64
}

type normState struct{ x, rstd *aclnn.Tensor }

func (n norm) forward(p *pass, x *aclnn.Tensor) (*aclnn.Tensor, normState) {
	shape := x.Shape()
	shape[len(shape)-1] = 1
	y, rstd := p.like(x), p.tensor(aclnn.Float32, shape...)
	run(p, p.reg.RMSNorm, &ops.RMSNormArgs{X: x, Weight: n.scale.Value, Epsilon: n.epsilon, Out: y, RStd: rstd})
	return y, normState{x, rstd}
}

func (n norm) backward(p *pass, s normState, dy *aclnn.Tensor) *aclnn.Tensor {
	dx := p.like(s.x)
	run(p, p.reg.RMSNormGrad, &ops.RMSNormGradArgs{DOut: dy, X: s.x, RStd: s.rstd, Weight: n.scale.Value, DX: dx, DWeight: n.scale.Grad})
	return dx
}

// attention is grouped-query attention with normalised, rotated queries and keys.
type attention struct {
	q, k, v, o   linear
	qNorm, kNorm norm
	heads, kv    int64
	dim          int64
}

type attentionState struct {
	x, q, k, v, out, mixed *aclnn.Tensor
	max, sum               *aclnn.Tensor
	qNorm, kNorm           normState
}

// rotation is what all layers share of the rotary embedding.
type rotation struct{ cos, sin *aclnn.Tensor }

func (r rotation) forward(p *pass, x *aclnn.Tensor) *aclnn.Tensor {
	y := p.like(x)
	run(p, p.reg.RoPE, &ops.RoPEArgs{X: x, Cos: r.cos, Sin: r.sin, Out: y})
	return y
}

func (r rotation) backward(p *pass, dy *aclnn.Tensor) *aclnn.Tensor {
	dx := p.like(dy)
	run(p, p.reg.RoPEGrad, &ops.RoPEGradArgs{DOut: dy, Cos: r.cos, Sin: r.sin, DX: dx})
	return dx
}

func (a attention) args(p *pass, s *attentionState, m *inputs) ops.AttentionArgs {
	return ops.AttentionArgs{
		Query: s.q, Key: s.k, Value: s.v, Layout: ops.BSND, Heads: int(a.heads), Mask: m.mask, Scale: m.scale,
		Out: s.out, SoftmaxMax: s.max, SoftmaxSum: s.sum,
	}
}

func (a attention) forward(p *pass, x *aclnn.Tensor, m *inputs) (*aclnn.Tensor, *attentionState) {
	b, n := m.batch, m.length
	s := &attentionState{x: x}
	q := a.q.forward(p, x).Reshape(b, n, a.heads, a.dim)
	k := a.k.forward(p, x).Reshape(b, n, a.kv, a.dim)
	s.v = a.v.forward(p, x).Reshape(b, n, a.kv, a.dim)
	q, s.qNorm = a.qNorm.forward(p, q)
	k, s.kNorm = a.kNorm.forward(p, k)
	s.q, s.k = m.rope.forward(p, q), m.rope.forward(p, k)
	s.out = p.like(s.q)
	s.max, s.sum = p.tensor(aclnn.Float32, b, a.heads, n, 8), p.tensor(aclnn.Float32, b, a.heads, n, 8)
	args := a.args(p, s, m)
	run(p, p.reg.Attention, &args)
	s.mixed = s.out.Reshape(b*n, a.heads*a.dim)
	return a.o.forward(p, s.mixed), s
}

func (a attention) backward(p *pass, s *attentionState, m *inputs, dy *aclnn.Tensor) *aclnn.Tensor {
	b, n := m.batch, m.length
	dOut := a.o.backward(p, s.mixed, dy).Reshape(b, n, a.heads, a.dim)
	dq, dk, dv := p.like(s.q), p.like(s.k), p.like(s.v)
	run(p, p.reg.AttentionGrad, &ops.AttentionGradArgs{AttentionArgs: a.args(p, s, m), DOut: dOut, DQuery: dq, DKey: dk, DValue: dv})
	dq = a.qNorm.backward(p, s.qNorm, m.rope.backward(p, dq))
	dk = a.kNorm.backward(p, s.kNorm, m.rope.backward(p, dk))
	dx := a.q.backward(p, s.x, dq.Reshape(b*n, a.heads*a.dim))
	p.add(dx, a.k.backward(p, s.x, dk.Reshape(b*n, a.kv*a.dim)))
	p.add(dx, a.v.backward(p, s.x, dv.Reshape(b*n, a.kv*a.dim)))
	return dx
}

// mlp is the gated feed-forward layer; gateUp has the gate's rows, then the up projection's.
type mlp struct{ gateUp, down linear }

type mlpState struct{ x, gateUp, act *aclnn.Tensor }

func (f mlp) forward(p *pass, x *aclnn.Tensor) (*aclnn.Tensor, mlpState) {
	s := mlpState{x: x, gateUp: f.gateUp.forward(p, x)}
	s.act = p.tensor(p.dt, x.Dim(0), f.down.weight.Value.Dim(1))
	run(p, p.reg.SwiGLU, &ops.SwiGLUArgs{X: s.gateUp, Out: s.act})
	return f.down.forward(p, s.act), s
}

func (f mlp) backward(p *pass, s mlpState, dy *aclnn.Tensor) *aclnn.Tensor {
	dAct := f.down.backward(p, s.act, dy)
	dGateUp := p.like(s.gateUp)
	run(p, p.reg.SwiGLUGrad, &ops.SwiGLUGradArgs{DOut: dAct, X: s.gateUp, DX: dGateUp})
	return f.gateUp.backward(p, s.x, dGateUp)
}

// layer is a transformer block: attention and feed-forward, each on the normalised residual.
type layer struct {
	attentionNorm, mlpNorm norm
	attention              attention
	mlp                    mlp
}

type layerState struct {
	attentionNorm, mlpNorm normState
	attention              *attentionState
	mlp                    mlpState
}

func newLayer(ps *parameters, c Config, index int) layer {
	prefix := fmt.Sprintf("model.layers.%d.", index)
	h, i, d := int64(c.HiddenSize), int64(c.IntermediateSize), int64(c.HeadDim)
	q, kv := int64(c.Heads), int64(c.KVHeads)
	scale := func(name string, size int64) norm { return norm{ps.addScale(prefix+name, size), c.RMSNormEps} }
	project := func(name string, out, in int64) linear { return linear{ps.add(prefix+name, out, in)} }
	return layer{
		attentionNorm: scale("input_layernorm.weight", h),
		mlpNorm:       scale("post_attention_layernorm.weight", h),
		attention: attention{
			q: project("self_attn.q_proj.weight", q*d, h), k: project("self_attn.k_proj.weight", kv*d, h),
			v: project("self_attn.v_proj.weight", kv*d, h), o: project("self_attn.o_proj.weight", h, q*d),
			qNorm: scale("self_attn.q_norm.weight", d), kNorm: scale("self_attn.k_norm.weight", d),
			heads: q, kv: kv, dim: d,
		},
		mlp: mlp{
			gateUp: linear{ps.addStacked(prefix+"mlp.gate_proj.weight", prefix+"mlp.up_proj.weight", i, h)},
			down:   project("mlp.down_proj.weight", h, i),
		},
	}
}

// forward returns the residual stream after the layer. x is [tokens, hidden].
func (l layer) forward(p *pass, x *aclnn.Tensor, m *inputs) (*aclnn.Tensor, layerState) {
	var s layerState
	normed, ns := l.attentionNorm.forward(p, x)
	s.attentionNorm = ns
	mixed, as := l.attention.forward(p, normed, m)
	s.attention = as
	x = p.sum(x, mixed)
	normed, s.mlpNorm = l.mlpNorm.forward(p, x)
	fed, fs := l.mlp.forward(p, normed)
	s.mlp = fs
	return p.sum(x, fed), s
}

// backward turns the gradient after the layer into the one before it, in place where dy is.
func (l layer) backward(p *pass, s layerState, m *inputs, dy *aclnn.Tensor) *aclnn.Tensor {
	p.add(dy, l.mlpNorm.backward(p, s.mlpNorm, l.mlp.backward(p, s.mlp, dy)))
	p.add(dy, l.attentionNorm.backward(p, s.attentionNorm, l.attention.backward(p, s.attention, m, dy)))
	return dy
}

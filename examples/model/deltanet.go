package model

import (
	"math"
	"math/rand/v2"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/mask"
)

// deltaNet is a gated delta net: queries, keys and values pass a short causal convolution, then the
// delta rule and a gated norm. keyHeads and heads count this rank's heads.
type deltaNet struct {
	in              projections
	conv            *Parameter
	aLog, dtBias    *Parameter
	scale           *Parameter // of the gated norm
	out             linear
	keyHeads, heads int64
	keyDim, dim     int64
	epsilon         float64
}

func newDeltaNet(ps *parameters, c Config, prefix string) deltaNet {
	h, hk, hv, dk, dv := int64(c.HiddenSize), int64(c.LinearKeyHeads), int64(c.LinearValueHeads), int64(c.LinearKeyDim), int64(c.LinearValueDim)
	channels, blocks := 2*hk*dk+hv*dv, []int64{hk * dk, hk * dk, hv * dv} // of queries, keys and values
	project := func(name string, axis int, out, in int64) linear {
		return ps.linear(ps.addSplit(prefix+name, axis, out, in))
	}
	ranks := max(ps.tensor.parts, 1)
	d := deltaNet{
		dtBias: ps.addHeads(prefix+"dt_bias", hv, one),
		aLog:   ps.addHeads(prefix+"A_log", hv, func(r *rand.Rand) float32 { return float32(math.Log(0.01 + 15.99*r.Float64())) }),
		conv:   ps.addBlocks(prefix+"conv1d.weight", blocks, channels, 1, int64(c.LinearTaps)),
		scale:  ps.addVector(prefix+"norm.weight", dv, one),
		out:    project("out_proj.weight", 1, h, hv*dv), keyHeads: hk / ranks, heads: hv / ranks, keyDim: dk, dim: dv, epsilon: c.RMSNormEps,
	}
	d.scale.heads = true
	if c.family().grouped {
		d.in = newGroupedProjections(d, project("in_proj_qkvz.weight", 0, channels+hv*dv, h), project("in_proj_ba.weight", 0, 2*hv, h))
	} else {
		d.in = separateProjections{
			qkv: ps.linear(ps.addBlocks(prefix+"in_proj_qkv.weight", blocks, channels, h)), z: project("in_proj_z.weight", 0, hv*dv, h),
			b: project("in_proj_b.weight", 0, hv, h), a: project("in_proj_a.weight", 0, hv, h),
		}
	}
	return d
}

type deltaNetState struct {
	deltaNet
	x, normed *aclnn.Tensor
	gate      ops.DeltaGateArgs
	conv      ops.CausalConvArgs
	rule      ops.GatedDeltaArgs
	norm      ops.GatedNormArgs
}

// taps views the convolution's weight without its middle dimension of size one.
func (d deltaNet) taps(t *aclnn.Tensor) *aclnn.Tensor { return t.Squeeze(1) }

// parts views [batch, length, channels] as queries, keys and values by head.
func (d deltaNet) parts(t *aclnn.Tensor) (q, k, v *aclnn.Tensor) {
	keys := d.keyHeads * d.keyDim
	return t.Narrow(-1, 0, keys).Unflatten(-1, d.keyHeads, d.keyDim),
		t.Narrow(-1, keys, keys).Unflatten(-1, d.keyHeads, d.keyDim),
		t.Narrow(-1, 2*keys, d.heads*d.dim).Unflatten(-1, d.heads, d.dim)
}

// hide sets padding to zero, so that it affects neither the convolution nor the state.
func (m *inputs) hide(p *pass, x *aclnn.Tensor) *aclnn.Tensor {
	if m.valid == nil {
		return x
	}
	return p.product(x, m.valid)
}

func (d deltaNet) forward(p *pass, x *aclnn.Tensor, m *inputs) (*aclnn.Tensor, mixed) {
	b, n := m.batch, m.length
	s := &deltaNetState{deltaNet: d, x: m.hide(p, p.enter(x))}
	rows := func(t *aclnn.Tensor) *aclnn.Tensor { return t.Reshape(b, n, -1) }

	in := d.in.forward(p, s.x)
	ours := d.ours(p)
	s.conv = ops.CausalConvArgs{X: d.channelsToHeads(p, rows(in.qkv)), Weight: d.ownTaps(p), SiLU: true, CuSeqLens: m.cu}
	s.conv.Out = p.Like(s.conv.X)
	m.resume(&s.conv, &s.rule)

	length := s.conv.X.Dim(1) // of whole sequences
	s.gate = ops.DeltaGateArgs{
		A: p.scalarsToHeads(rows(in.a)), B: p.scalarsToHeads(rows(in.b)), ALog: p.own(d.aLog.Value), DTBias: p.own(d.dtBias.Value),
		Decay: p.Tensor(aclnn.Float32, b, length, ours.heads), Beta: p.Tensor(p.dt, b, length, ours.heads),
	}
	ops.Queue(p.ctx, &p.Scope, p.reg.DeltaGate(), &s.gate)

	s.rule.Decay, s.rule.Beta, s.rule.Scale, s.rule.Normalize = s.gate.Decay, s.gate.Beta, 1/math.Sqrt(float64(d.keyDim)), true
	s.rule.CuSeqLens = m.cu
	s.rule.Out = p.Tensor(p.dt, b, length, ours.heads, d.dim)
	s.rule.Query, s.rule.Key, s.rule.Value = ours.parts(s.conv.Out)
	if m.paged != nil {
		m.step(p, s)
	} else {
		ops.Queue(p.ctx, &p.Scope, p.reg.CausalConv(), &s.conv)
		ops.Queue(p.ctx, &p.Scope, p.reg.GatedDelta(), &s.rule)
	}

	s.norm = ops.GatedNormArgs{
		X: p.toSequence(s.rule.Out, d.heads), Gate: in.z.Reshape(b, n, d.heads, d.dim), Weight: d.scale.Value, Epsilon: d.epsilon,
		Out: p.Tensor(p.dt, b, n, d.heads, d.dim), RStd: p.Tensor(aclnn.Float32, b, n, d.heads, 1),
	}
	ops.Queue(p.ctx, &p.Scope, p.reg.GatedNorm(), &s.norm)
	s.normed = s.norm.Out.Reshape(b*n, d.heads*d.dim)
	return p.leave(d.out.forward(p, s.normed)), s
}

func (s *deltaNetState) backward(p *pass, m *inputs, dy *aclnn.Tensor) *aclnn.Tensor {
	d, tokens := s.deltaNet, m.batch*m.length
	flat := func(t *aclnn.Tensor) *aclnn.Tensor { return t.Reshape(tokens, -1) }

	norm := ops.GatedNormGradArgs{
		DOut: d.out.backward(p, s.normed, p.enter(dy)).Reshape(s.norm.X.Shape()...), X: s.norm.X, Gate: s.norm.Gate, RStd: s.norm.RStd, Weight: d.scale.Value,
		DX: p.Like(s.norm.X), DGate: p.Like(s.norm.Gate), DWeight: p.gradient(d.scale), Accumulate: p.adding(),
	}
	ops.Queue(p.ctx, &p.Scope, p.reg.GatedNormGrad(), &norm)

	dConv := p.Like(s.conv.Out)
	rule := ops.GatedDeltaGradArgs{GatedDeltaArgs: s.rule, DOut: p.toHeads(norm.DX), DDecay: p.Like(s.gate.Decay), DBeta: p.Like(s.gate.Beta)}
	rule.DQuery, rule.DKey, rule.DValue = d.ours(p).parts(dConv)
	ops.Queue(p.ctx, &p.Scope, p.reg.GatedDeltaGrad(), &rule)

	s.gate.ALog, s.gate.DTBias = p.own(d.aLog.Value), p.own(d.dtBias.Value) // the shards may be gathered anew
	dALog, dDTBias := p.gradient(d.aLog), p.gradient(d.dtBias)
	gate := ops.DeltaGateGradArgs{
		DeltaGateArgs: s.gate, DDecay: rule.DDecay, DBeta: rule.DBeta, DA: p.Like(s.gate.A), DB: p.Like(s.gate.B),
		DALog: p.own(dALog), DDTBias: p.own(dDTBias), Accumulate: p.adding(),
	}
	if p.ulysses.Size() > 1 { // this rank has computed the gradients of its heads only
		p.clear(dALog)
		p.clear(dDTBias)
	}
	ops.Queue(p.ctx, &p.Scope, p.reg.DeltaGateGrad(), &gate)

	s.conv.Weight = d.ownTaps(p)
	conv := ops.CausalConvGradArgs{CausalConvArgs: s.conv, DOut: dConv, DX: p.Like(s.conv.X)}
	d.convGrad(p, conv)

	dx := projected{
		qkv: d.channelsToSequence(p, conv.DX), z: norm.DGate,
		b: p.scalarsToSequence(gate.DB, d.heads), a: p.scalarsToSequence(gate.DA, d.heads),
	}
	return p.leave(m.hide(p, d.in.backward(p, s.x, projected{qkv: flat(dx.qkv), z: flat(dx.z), b: flat(dx.b), a: flat(dx.a)})))
}

// valid makes the padding mask of this rank's positions for a batch whose rows end in padding.
func (p *pass) valid(b Batch, chunks []mask.Range) *aclnn.Tensor {
	var values []float32
	for _, n := range b.Lengths {
		row := make([]float32, b.Length)
		for i := range n {
			row[i] = 1
		}
		values = append(values, mask.Gather(row, int64(b.Length), chunks)...)
	}
	wide := p.Tensor(aclnn.Float32, int64(len(values)), 1)
	p.Do(func() error { return aclnn.CopyToDevice(p.ctx, p.Stream, wide, values) })
	return p.Cast(wide, p.dt)
}

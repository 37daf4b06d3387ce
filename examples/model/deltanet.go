package model

import (
	"math"
	"math/rand/v2"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/autograd"
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
	ranks := max(ps.tensor.Of, 1)
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

// taps views the convolution's weight without its middle dimension of size one.
func (d deltaNet) taps(t *aclnn.Tensor) *aclnn.Tensor { return t.Squeeze(1) }

// parts views [batch, length, channels] as queries, keys and values by head.
func (d deltaNet) parts(p *pass, x *autograd.Var) (q, k, v *autograd.Var) {
	keys := d.keyHeads * d.keyDim
	parts := p.Split(x, 2, keys, keys, d.heads*d.dim)
	return p.Unflatten(parts[0], 2, d.keyHeads, d.keyDim), p.Unflatten(parts[1], 2, d.keyHeads, d.keyDim), p.Unflatten(parts[2], 2, d.heads, d.dim)
}

// hide sets padding to zero, so that it affects neither the convolution nor the state.
func (m *inputs) hide(p *pass, x *autograd.Var) *autograd.Var {
	if m.valid == nil {
		return x
	}
	return p.Mul(x, p.Input(m.valid))
}

func (d deltaNet) forward(p *pass, x *autograd.Var, m *inputs) *autograd.Var {
	b, n := m.batch, m.length
	in := d.in.forward(p, m.hide(p, p.enter(x)))
	rows := func(x *autograd.Var) *autograd.Var { return p.Reshape(x, b, n, -1) }
	conv, taps := d.channelsToHeads(p, rows(in.qkv)), d.ownTaps(p)
	decay, beta := p.DeltaGate(p.scalarsToHeads(rows(in.a)), p.scalarsToHeads(rows(in.b)), p.own(d.aLog), p.own(d.dtBias))
	rule := ops.GatedDeltaArgs{Scale: 1 / math.Sqrt(float64(d.keyDim)), Normalize: true, CuSeqLens: m.cu}
	var y *autograd.Var
	if m.paged != nil || m.past != nil {
		y = d.resume(p, m, conv, taps, decay, beta, rule)
	} else {
		q, k, v := d.ours(p).parts(p, p.ContextCausalConv(p.cp, conv, taps, nil, ops.CausalConvArgs{SiLU: true, CuSeqLens: m.cu}))
		y = p.toSequence(p.ContextGatedDelta(p.cp, q, k, v, decay, beta, rule))
	}
	y = p.GatedNorm(y, p.Reshape(in.z, b, n, d.heads, d.dim), d.scale.Var, d.epsilon)
	return p.leave(d.out.forward(p, p.Reshape(y, b*n, d.heads*d.dim)))
}

// resume computes the convolution and the rule from the states of earlier tokens on, and stores the new states. It has no gradient.
func (d deltaNet) resume(p *pass, m *inputs, x, taps, decay, beta *autograd.Var, rule ops.GatedDeltaArgs) *autograd.Var {
	return p.Record("delta rule after earlier tokens", []*autograd.Var{x, taps, decay, beta}, func(c *autograd.Call) {
		rule.Out = c.Output(p.dt, x.Dim(0), x.Dim(1), d.heads, d.dim)
		c.Do(func() error {
			return aclnn.Compose(p.Stream(), func(s *aclnn.Scope) {
				conv := ops.CausalConvArgs{X: x.Value, Weight: taps.Value, SiLU: true, Out: s.Like(x.Value)}
				if s.Err() != nil {
					return
				}
				keys := d.keyHeads * d.keyDim
				rule.Query, rule.Key = conv.Out.Narrow(2, 0, keys).Unflatten(2, d.keyHeads, d.keyDim), conv.Out.Narrow(2, keys, keys).Unflatten(2, d.keyHeads, d.keyDim)
				rule.Value, rule.Decay, rule.Beta = conv.Out.Narrow(2, 2*keys, d.heads*d.dim).Unflatten(2, d.heads, d.dim), decay.Value, beta.Value
				if m.paged != nil {
					m.step(p, s, conv, rule)
					return
				}
				m.resume(&conv, &rule)
				ops.Queue(p.ctx, s, p.reg.CausalConv(), &conv)
				ops.Queue(p.ctx, s, p.reg.GatedDelta(), &rule)
			})
		})
	})[0]
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
	var valid *aclnn.Tensor
	p.queue(func(s *aclnn.Scope) {
		wide := s.Tensor(aclnn.Float32, int64(len(values)), 1)
		s.Do(func() error { return aclnn.CopyToDevice(p.ctx, s.Stream, wide, values) })
		valid = s.Cast(wide, p.dt)
	})
	return valid
}

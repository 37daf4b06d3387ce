package autograd

import (
	"context"
	"fmt"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
)

// DeltaGate computes the gates of a delta rule (ops.DeltaGate): a and b [..., heads], aLog and dtBias [heads]. decay is float32.
func (t *Tape) DeltaGate(a, b, aLog, dtBias *Var) (decay, beta *Var) {
	c := t.begin("delta gate", a, b, aLog, dtBias)
	if c == nil {
		return t.failed(), t.failed()
	}
	args := ops.DeltaGateArgs{
		A: a.Value, B: b.Value, ALog: aLog.Value, DTBias: dtBias.Value,
		Decay: c.Output(aclnn.Float32, a.Shape()...), Beta: c.Output(b.Value.DType(), b.Shape()...),
	}
	run(c, t.reg.DeltaGate(), &args)
	c.Keep(a, b, aLog, dtBias)
	c.KeepOutputs()
	c.Backward(func(g *Gradients) {
		args.ALog, args.DTBias = aLog.now(args.ALog), dtBias.now(args.DTBias)
		grad := ops.DeltaGateGradArgs{DeltaGateArgs: args, DDecay: g.OutputOrZero(0), DBeta: g.OutputOrZero(1), DA: g.orScratch(0), DB: g.orScratch(1)}
		grad.DALog, grad.DDTBias, grad.Accumulate = g.weights(2, 3, true)
		runGrad(g, t.reg.DeltaGateGrad(), &grad)
	})
	outputs := c.end()
	return outputs[0], outputs[len(outputs)-1]
}

// GatedDelta computes the gated delta rule (ops.GatedDelta) of query, key [B,T,Hk,K], value [B,T,Hv,V], decay and beta [B,T,Hv] from a state of
// zeros. a gives Scale, Normalize and CuSeqLens; its tensors must be nil.
func (t *Tape) GatedDelta(query, key, value, decay, beta *Var, a ops.GatedDeltaArgs) *Var {
	out, _ := t.gatedDelta(query, key, value, decay, beta, nil, a, false)
	return out
}

// GatedDeltaFrom is GatedDelta from an initial state [N,Hv,K,V], or nil for zeros. final is the state after the last token, for N sequences.
func (t *Tape) GatedDeltaFrom(query, key, value, decay, beta, initial *Var, a ops.GatedDeltaArgs) (out, final *Var) {
	return t.gatedDelta(query, key, value, decay, beta, initial, a, true)
}

func (t *Tape) gatedDelta(query, key, value, decay, beta, initial *Var, a ops.GatedDeltaArgs, keepsState bool) (out, final *Var) {
	c := t.beginOptional("gated delta rule", 5, query, key, value, decay, beta, initial)
	if c == nil {
		return t.failed(), t.failed()
	}
	if !t.untouched("gated delta rule", a.Query, a.Key, a.Value, a.Decay, a.Beta, a.InitialState, a.Out, a.FinalState) {
		return t.failed(), t.failed()
	}
	sequences := query.Dim(0)
	if a.CuSeqLens != nil {
		sequences = int64(len(a.CuSeqLens) - 1)
	}
	a.Query, a.Key, a.Value, a.Decay, a.Beta = query.Value, key.Value, value.Value, decay.Value, beta.Value
	if initial != nil {
		a.InitialState = initial.Value
	}
	a.Out = c.Output(value.Value.DType(), value.Shape()...)
	if keepsState {
		a.FinalState = c.Output(aclnn.Float32, sequences, value.Dim(2), query.Dim(3), value.Dim(3))
	}
	run(c, t.reg.GatedDelta(), &a)
	c.Keep(query, key, value, decay, beta, initial)
	c.Backward(func(g *Gradients) {
		grad := ops.GatedDeltaGradArgs{
			GatedDeltaArgs: a, DOut: g.OutputOrZero(0), DQuery: g.orScratch(0), DKey: g.orScratch(1), DValue: g.orScratch(2),
			DDecay: g.orScratch(3), DBeta: g.orScratch(4), DInitialState: g.Input(5),
		}
		if keepsState {
			grad.DFinalState = g.Output(1)
		}
		grad.Out, grad.FinalState = nil, nil // the gradient does not read them, and the tape has freed them
		runGrad(g, t.reg.GatedDeltaGrad(), &grad)
	})
	outputs := c.end()
	return outputs[0], outputs[len(outputs)-1]
}

// CausalConv computes a causal depthwise convolution (ops.CausalConv): x [B,T,D], weight [D,W], bias [D] or nil. a gives SiLU and CuSeqLens;
// its tensors must be nil. Training starts from zeros: a state has no gradient.
func (t *Tape) CausalConv(x, weight, bias *Var, a ops.CausalConvArgs) *Var {
	return t.causalConv("causal convolution", x, weight, bias, a, t.reg.CausalConv().Run, t.reg.CausalConvGrad().Run)
}

// causalConv records a convolution that forward and backward compute.
func (t *Tape) causalConv(
	name string, x, weight, bias *Var, a ops.CausalConvArgs,
	forward func(context.Context, *acl.Stream, *ops.CausalConvArgs) error, backward func(context.Context, *acl.Stream, *ops.CausalConvGradArgs) error,
) *Var {
	c := t.beginOptional(name, 2, x, weight, bias)
	if c == nil {
		return t.failed()
	}
	if !t.untouched(name, a.X, a.Weight, a.Bias, a.Out, a.InitialState, a.FinalState) {
		return t.failed()
	}
	a.X, a.Weight, a.Out = x.Value, weight.Value, c.Output(x.Value.DType(), x.Shape()...)
	if bias != nil {
		a.Bias = bias.Value
	}
	c.Do(func() error { return forward(t.ctx, t.st, &a) })
	c.Keep(x, weight, bias)
	c.Backward(func(g *Gradients) {
		a.Weight = weight.now(a.Weight)
		if bias != nil {
			a.Bias = bias.now(a.Bias)
		}
		grad := ops.CausalConvGradArgs{CausalConvArgs: a, DOut: g.Output(0), DX: g.orScratch(0)}
		grad.Out = nil
		grad.DWeight, grad.DBias, grad.Accumulate = g.weights(1, 2, true)
		g.Do(func() error { return backward(t.ctx, t.st, &grad) })
	})
	return c.end()[0]
}

// untouched refuses arguments that hold tensors, which are the tape's.
func (t *Tape) untouched(name string, tensors ...*aclnn.Tensor) bool {
	for _, x := range tensors {
		if x != nil {
			t.Fail(fmt.Errorf("%s: %w: the tensors of the arguments are the tape's; give them as variables", name, acl.ErrInvalidArgument))
			return false
		}
	}
	return true
}

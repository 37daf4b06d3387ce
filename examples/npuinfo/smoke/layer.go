package smoke

import (
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
)

func rmsNorm(b *bench) {
	x, w := b.in("x"), b.in("w")
	a := ops.RMSNormArgs{X: x, Weight: w, Epsilon: b.float("eps"), Out: b.like(x), RStd: b.empty(aclnn.Float32, b.shape("rstd")...)}
	try(b, b.RMSNorm(), &a, b.out("y", a.Out, b.want("y")), b.out("rstd", a.RStd, b.want("rstd")))
	b.addRMSNorm(x, w)
	g := ops.RMSNormGradArgs{DOut: b.in("dy"), X: x, RStd: a.RStd, Weight: w, DX: b.like(x), DWeight: b.like(w)}
	try(b, b.RMSNormGrad(), &g, b.out("dx", g.DX, b.want("dx")), b.out("dw", g.DWeight, b.want("dw")))
}

// addRMSNorm tries the norm of a sum: of two halves of the case's tensor, which are exact.
func (b *bench) addRMSNorm(x, w *aclnn.Tensor) {
	values := b.want("x")
	half := b.floats(b.dt, convert(values, func(v float32) float32 { return v / 2 }), x.Shape()...)
	a := ops.AddRMSNormArgs{
		X: half, Residual: half, Weight: w, Epsilon: b.float("eps"), Sum: b.like(x), Out: b.like(x), RStd: b.empty(aclnn.Float32, b.shape("rstd")...),
	}
	try(b, b.AddRMSNorm(), &a, b.out("sum", a.Sum, values), b.out("y", a.Out, b.want("y")), b.out("rstd", a.RStd, b.want("rstd")))
}

func rope(b *bench) {
	s, r := b.int("S"), b.int("rotary_dim")
	x, dy := b.in("x"), b.in("dy")
	cos, sin := b.floats(b.dt, b.want("cos"), 1, s, 1, r), b.floats(b.dt, b.want("sin"), 1, s, 1, r)
	a := ops.RoPEArgs{X: x, Cos: cos, Sin: sin, Out: b.like(x)}
	try(b, b.RoPE(), &a, b.out("y", a.Out, b.want("y")))
	g := ops.RoPEGradArgs{DOut: dy, Cos: cos, Sin: sin, DX: b.like(x)}
	try(b, b.RoPEGrad(), &g, b.out("dx", g.DX, b.want("dx")))
}

func swiglu(b *bench) {
	x, dy := b.in("x"), b.in("dy")
	a := ops.SwiGLUArgs{X: x, Out: b.like(dy)}
	try(b, b.SwiGLU(), &a, b.out("y", a.Out, b.want("y")))
	g := ops.SwiGLUGradArgs{DOut: dy, X: x, DX: b.like(x)}
	try(b, b.SwiGLUGrad(), &g, b.out("dx", g.DX, b.want("dx")))
}

func embedding(b *bench) {
	w, dy := b.in("w"), b.in("dy")
	ids := upload(b, aclnn.Int64, values[int64](b, "ids"), b.shape("ids")...)
	a := ops.EmbeddingArgs{Weight: w, IDs: ids, Out: b.like(dy)}
	try(b, b.Embedding(), &a, b.out("y", a.Out, b.want("y")))
	g := ops.EmbeddingGradArgs{DOut: dy, IDs: ids, DWeight: b.like(w)}
	try(b, b.EmbeddingGrad(), &g, b.out("dw", g.DWeight, b.want("dw")))
}

func crossEntropy(b *bench) {
	logits := b.in("logits")
	labels := convert(values[int64](b, "target"), func(x int64) int32 { return int32(x) })
	a := ops.CrossEntropyArgs{
		Logits: logits, Labels: upload(b, aclnn.Int32, labels, int64(len(labels))), IgnoreIndex: new(b.int("ignore_index")),
		Loss: b.empty(aclnn.Float32, 1), LogProb: b.empty(aclnn.Float32, logits.Shape()...), Count: b.empty(aclnn.Float32, 1),
	}
	try(b, b.CrossEntropy(), &a, b.out("loss", a.Loss, b.want("loss")), b.out("log_prob", a.LogProb, b.want("log_prob")))
	g := ops.CrossEntropyGradArgs{CrossEntropyArgs: a, DLogits: b.like(logits)}
	try(b, b.CrossEntropyGrad(), &g, b.out("dlogits", g.DLogits, b.want("dlogits")))
}

// adamw tries the first update.
func adamw(b *bench) {
	n := b.int("n")
	start, zero, betas := b.want("p0"), make([]float32, n), []float64{}
	b.fail(b.c.option("betas", &betas))
	grads, all := b.in("grads"), b.want("params")
	param, m, v := b.floats(b.dt, start, n), b.floats(b.dt, zero, n), b.floats(b.dt, zero, n)
	if b.err != nil || len(betas) != 2 {
		return
	}
	a := ops.AdamWArgs{
		Param: param, Grad: grads.Select(0, 0), ExpAvg: m, ExpAvgSq: v, Step: 1,
		LR: b.float("lr"), Beta1: betas[0], Beta2: betas[1], Epsilon: b.float("eps"), WeightDecay: b.float("weight_decay"),
	}
	fresh := func() error {
		for _, x := range []struct {
			t    *aclnn.Tensor
			from []float32
		}{{param, start}, {m, zero}, {v, zero}} {
			from := b.floats(b.dt, x.from, n)
			if b.err != nil {
				return b.err
			}
			if err := aclnn.InplaceCopy(b.st, aclnn.InplaceCopyParams{Self: x.t, Src: from}); err != nil {
				return err
			}
		}
		return nil
	}
	tryFresh(b, b.AdamW(), &a, fresh, b.out("params", param, all[:n]))
	tryFresh(b, b.AdamWList(), &ops.AdamWListArgs{Updates: []ops.AdamWArgs{a}}, fresh, b.out("params", param, all[:n]))
}

func causalConv(b *bench) {
	x, w, dy := b.in("x"), b.in("w"), b.in("dy")
	a := ops.CausalConvArgs{X: x, Weight: w, SiLU: b.flag("silu"), Out: b.like(x)}
	g := ops.CausalConvGradArgs{DOut: dy, DX: b.like(x), DWeight: b.like(w)}
	outputs := []output{b.out("dx", g.DX, b.want("dx")), b.out("dw", g.DWeight, b.want("dw"))}
	if b.flag("bias") {
		a.Bias, g.DBias = b.in("b"), b.empty(b.dt, w.Dim(0))
		outputs = append(outputs, b.out("db", g.DBias, b.want("db")))
	}
	try(b, b.CausalConv(), &a, b.out("y", a.Out, b.want("y")))
	g.CausalConvArgs = a
	try(b, b.CausalConvGrad(), &g, outputs...)
}

func gatedDelta(b *bench) {
	q, k, v := b.in("q"), b.in("k"), b.in("v")
	decay, beta := b.as(aclnn.Float32, "g"), b.as(aclnn.Float32, "beta")
	state := b.shape("sT")
	a := ops.GatedDeltaArgs{
		Query: q, Key: k, Value: v, Decay: decay, Beta: beta, Scale: b.float("scale"), Normalize: b.flag("l2norm_qk"),
		Out: b.like(v), FinalState: b.empty(aclnn.Float32, state...),
	}
	if b.flag("init") {
		a.InitialState = b.as(aclnn.Float32, "s0")
	}
	try(b, b.GatedDelta(), &a, b.out("o", a.Out, b.want("o")), b.out("sT", a.FinalState, b.want("sT")))
	g := ops.GatedDeltaGradArgs{
		GatedDeltaArgs: a, DOut: b.in("do"), DFinalState: b.as(aclnn.Float32, "dsT"), DQuery: b.like(q), DKey: b.like(k), DValue: b.like(v),
		DDecay: b.like(decay), DBeta: b.like(beta), DInitialState: b.empty(aclnn.Float32, state...),
	}
	try(b, b.GatedDeltaGrad(), &g, b.twice("dq", g.DQuery), b.twice("dk", g.DKey), b.twice("dv", g.DValue),
		b.twice("dg", g.DDecay), b.twice("dbeta", g.DBeta))
}

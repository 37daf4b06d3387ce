package smoke

import (
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/mask"
)

// maskOf returns the mask of a case as a rule.
func (b *bench) maskOf() mask.Mask {
	switch b.text("mode") {
	case "causal_top_left":
		return mask.Causal{}
	case "causal_bottom_right":
		return mask.Causal{Anchor: mask.BottomRight}
	case "band":
		return mask.Band{Pre: b.int("pre"), Next: b.int("next")}
	case "prefix":
		return mask.Prefix{Lengths: b.ints("prefix")}
	case "padding":
		return mask.Padding{Lengths: b.ints("lengths")}
	case "causal_padding":
		return mask.Padding{Lengths: b.ints("lengths"), Causal: true, Exact: true}
	}
	return nil
}

func attention(b *bench) {
	q, k, v, dOut := b.in("q"), b.in("k"), b.in("v"), b.in("dout")
	stats := append(b.shape("softmax_max"), 8)
	a := ops.AttentionArgs{
		Query: q, Key: k, Value: v, Layout: ops.BNSD, Heads: int(b.int("Nq")), Mask: b.maskOf(), Scale: b.float("scale"),
		Out: b.like(dOut), SoftmaxMax: b.empty(aclnn.Float32, stats...), SoftmaxSum: b.empty(aclnn.Float32, stats...),
	}
	if b.c.has("pse") {
		a.Bias, a.BiasKind = b.in("pse"), ops.BiasBeforeScale
	}
	if b.err != nil {
		return
	}
	try(b, b.Attention(), &a, b.out("out", a.Out, b.want("out")),
		output{"max", a.SoftmaxMax.Select(3, 0), b.want("softmax_max"), b.limit()},
		output{"sum", a.SoftmaxSum.Select(3, 7), b.want("softmax_sum"), b.limit()})
	g := ops.AttentionGradArgs{AttentionArgs: a, DOut: dOut, DQuery: b.like(q), DKey: b.like(k), DValue: b.like(v)}
	try(b, b.AttentionGrad(), &g, b.twice("dq", g.DQuery), b.twice("dk", g.DKey), b.twice("dv", g.DValue))
}

// twice is a result that is named as the tensor of the case, and less precise than others.
func (b *bench) twice(name string, t *aclnn.Tensor) output {
	return output{name, t, b.want(name), 2 * b.limit()}
}

func packedAttention(b *bench) {
	q, k, v, dOut := b.in("q"), b.in("k"), b.in("v"), b.in("dout")
	m := mask.Varlen{CuQueries: b.ints("cu_q"), CuKeys: b.ints("cu_kv")}
	if b.flag("causal") {
		m.Within = mask.Causal{Anchor: mask.BottomRight}
	}
	if b.err != nil {
		return
	}
	stats := []int64{q.Dim(0), q.Dim(1), 8}
	a := ops.AttentionArgs{
		Query: q, Key: k, Value: v, Layout: ops.TND, Mask: m, Scale: b.float("scale"),
		Out: b.like(dOut), SoftmaxMax: b.empty(aclnn.Float32, stats...), SoftmaxSum: b.empty(aclnn.Float32, stats...),
	}
	try(b, b.Attention(), &a, b.out("out", a.Out, b.want("out")))
	g := ops.AttentionGradArgs{AttentionArgs: a, DOut: dOut, DQuery: b.like(q), DKey: b.like(k), DValue: b.like(v)}
	try(b, b.AttentionGrad(), &g, b.twice("dq", g.DQuery), b.twice("dk", g.DKey), b.twice("dv", g.DValue))
}

package ops_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/internal/testing/golden"
	"github.com/goascend/cann/internal/testing/opstest"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/mask"
)

func attention(r *ops.Registry) dispatched     { return r.Attention() }
func attentionGrad(r *ops.Registry) dispatched { return r.AttentionGrad() }

func int64s(v []int) []int64 { return opstest.Convert(v, func(n int) int64 { return int64(n) }) }

// masks returns the mask of a case in two forms: as a rule, and as cells.
func masks(b *opstest.Bench, c *golden.Case) map[string]mask.Mask {
	mode := c.Text("mode")
	if mode == "none" {
		return map[string]mask.Mask{"nil": nil, "none": mask.None{}}
	}
	cells := c.Bytes("mask")
	shape := shapeOf(c, "mask")
	visible, additive, wide := make([]byte, len(cells)), make([]float32, len(cells)), make([]int32, len(cells))
	for i, hidden := range cells {
		visible[i], additive[i], wide[i] = 1-hidden, float32(hidden)*-3e38, int32(hidden)*7
	}
	all := map[string]mask.Mask{
		"hidden":   mask.Dense{Tensor: opstest.Data(b, aclnn.Uint8, cells, shape...), Meaning: mask.Hidden},
		"integers": mask.Dense{Tensor: opstest.Data(b, aclnn.Int32, wide, shape...), Meaning: mask.Hidden},
		"visible":  mask.Dense{Tensor: opstest.Data(b, aclnn.Bool, visible, shape...), Meaning: mask.Visible},
		"additive": mask.Dense{Tensor: b.Floats(aclnn.Float32, additive, shape...), Meaning: mask.Additive},
	}
	switch mode {
	case "causal_top_left":
		all["rule"] = mask.Causal{}
		all["band"] = mask.Band{Pre: int64(c.Int("Sq"))}
	case "causal_bottom_right":
		all["rule"] = mask.Causal{Anchor: mask.BottomRight}
	case "band":
		all["rule"] = mask.Band{Pre: int64(c.Int("pre")), Next: int64(c.Int("next"))}
	case "prefix":
		all["rule"] = mask.Prefix{Lengths: int64s(c.Ints("prefix"))}
	case "padding":
		all["rule"] = mask.Padding{Lengths: int64s(c.Ints("lengths"))}
		all["keys"] = mask.Padding{Valid: validKeys(c)}
	case "causal_padding":
		all["rule"] = mask.Padding{Lengths: int64s(c.Ints("lengths")), Causal: true, Exact: true}
	default:
		b.T.Fatalf("the mode %q is new", mode)
	}
	return all
}

// validKeys is the 2-D mask of a case with padding.
func validKeys(c *golden.Case) []bool {
	var valid []bool
	for _, n := range c.Ints("lengths") {
		for j := range c.Int("Skv") {
			valid = append(valid, j < n)
		}
	}
	return valid
}

// in copies a tensor of layout BNSD into another layout.
func in(b *opstest.Bench, l ops.Layout, t *aclnn.Tensor) *aclnn.Tensor {
	view := bnsd(l, t)
	out := b.Empty(t.DType(), view.Shape()...)
	require.NoError(b.T, aclnn.InplaceCopy(b.Stream, aclnn.InplaceCopyParams{Self: out, Src: view}))
	switch l {
	case ops.BSH:
		return out.Reshape(out.Dim(0), out.Dim(1), -1)
	case ops.SBH:
		return out.Reshape(out.Dim(0), out.Dim(1), -1)
	}
	return out
}

// bnsd views [B,N,S,D] as the four dimensions of a layout.
func bnsd(l ops.Layout, t *aclnn.Tensor) *aclnn.Tensor {
	switch l {
	case ops.BSH, ops.BSND:
		return t.Permute(0, 2, 1, 3)
	case ops.SBH:
		return t.Permute(2, 0, 1, 3)
	}
	return t
}

// back views a tensor of a layout as [B,N,S,D].
func back(l ops.Layout, t *aclnn.Tensor, heads int64) *aclnn.Tensor {
	switch l {
	case ops.BSH:
		return t.Reshape(t.Dim(0), t.Dim(1), heads, -1).Permute(0, 2, 1, 3)
	case ops.SBH:
		return t.Reshape(t.Dim(0), t.Dim(1), heads, -1).Permute(1, 2, 0, 3)
	case ops.BSND:
		return t.Permute(0, 2, 1, 3)
	}
	return t
}

func TestGoldenAttention(t *testing.T) {
	for _, c := range golden.Cases(t, "attention") {
		c.Run(t, func(t *testing.T, c *golden.Case) {
			everyKernel(t, attention, attentionGrad, func(b *opstest.Bench) bool {
				for name, m := range masks(b, c) {
					if !goldenAttention(b, c, name, m, ops.BNSD) {
						return false
					}
				}
				for _, l := range []ops.Layout{ops.BSH, ops.SBH, ops.BSND} {
					goldenAttention(b, c, string(l), masks(b, c)["rule"], l)
				}
				return true
			})
		})
	}
}

func goldenAttention(b *opstest.Bench, c *golden.Case, name string, m mask.Mask, l ops.Layout) bool {
	b.T.Helper()
	a := ops.AttentionArgs{
		Query: in(b, l, tensorOf(b, c, "q")), Key: in(b, l, tensorOf(b, c, "k")), Value: in(b, l, tensorOf(b, c, "v")),
		Layout: l, Heads: c.Int("Nq"), Mask: m, Scale: c.Float("scale"),
	}
	n, nkv := int64(c.Int("Nq")), int64(c.Int("Nkv"))
	dOut := in(b, l, tensorOf(b, c, "dout"))
	a.Out = b.Empty(c.DType, dOut.Shape()...)
	stats := append(shapeOf(c, "softmax_max"), 8)
	a.SoftmaxMax, a.SoftmaxSum = b.Empty(aclnn.Float32, stats...), b.Empty(aclnn.Float32, stats...)
	if c.HasTensor("pse") {
		a.Bias, a.BiasKind = tensorOf(b, c, "pse"), ops.BiasBeforeScale
	}
	g := &ops.AttentionGradArgs{
		AttentionArgs: a, DOut: dOut, DQuery: b.Empty(c.DType, a.Query.Shape()...),
		DKey: b.Empty(c.DType, a.Key.Shape()...), DValue: b.Empty(c.DType, a.Value.Shape()...),
	}
	if !opstest.Takes(b.Attention(), &a) || !opstest.Takes(b.AttentionGrad(), g) {
		return false
	}
	opstest.Run(b, b.Attention(), &a)
	limit := opstest.Tolerance(c.DType)
	b.Near(name+" out", back(l, a.Out, n), c.Float32("out"), limit)
	b.Near(name+" max", a.SoftmaxMax.Select(3, 0), c.Float32("softmax_max"), 1e-5)
	b.Near(name+" sum", a.SoftmaxSum.Select(3, 7), c.Float32("softmax_sum"), 1e-5)
	opstest.Run(b, b.AttentionGrad(), g)
	b.Near(name+" dq", back(l, g.DQuery, n), c.Float32("dq"), 2*limit)
	b.Near(name+" dk", back(l, g.DKey, nkv), c.Float32("dk"), 2*limit)
	b.Near(name+" dv", back(l, g.DValue, nkv), c.Float32("dv"), 2*limit)
	return true
}

func TestGoldenPackedAttention(t *testing.T) {
	for _, c := range golden.Cases(t, "attention_varlen") {
		c.Run(t, func(t *testing.T, c *golden.Case) {
			everyKernel(t, attention, attentionGrad, func(b *opstest.Bench) bool {
				m := mask.Varlen{CuQueries: int64s(c.Ints("cu_q")), CuKeys: int64s(c.Ints("cu_kv"))}
				if c.Bool("causal") {
					m.Within = mask.Causal{Anchor: mask.BottomRight}
				}
				q := tensorOf(b, c, "q")
				a := ops.AttentionArgs{
					Query: q, Key: tensorOf(b, c, "k"), Value: tensorOf(b, c, "v"), Layout: ops.TND, Mask: m, Scale: c.Float("scale"),
					Out:        b.Empty(c.DType, shapeOf(c, "out")...),
					SoftmaxMax: b.Empty(aclnn.Float32, q.Dim(0), q.Dim(1), 8), SoftmaxSum: b.Empty(aclnn.Float32, q.Dim(0), q.Dim(1), 8),
				}
				g := &ops.AttentionGradArgs{
					AttentionArgs: a, DOut: tensorOf(b, c, "dout"), DQuery: b.Empty(c.DType, a.Query.Shape()...),
					DKey: b.Empty(c.DType, a.Key.Shape()...), DValue: b.Empty(c.DType, a.Value.Shape()...),
				}
				if !opstest.Takes(b.Attention(), &a) || !opstest.Takes(b.AttentionGrad(), g) {
					return false
				}
				opstest.Run(b, b.Attention(), &a)
				limit := opstest.Tolerance(c.DType)
				b.Near("out", a.Out, c.Float32("out"), limit)
				opstest.Run(b, b.AttentionGrad(), g)
				b.Near("dq", g.DQuery, c.Float32("dq"), 2*limit)
				b.Near("dk", g.DKey, c.Float32("dk"), 2*limit)
				b.Near("dv", g.DValue, c.Float32("dv"), 2*limit)
				return true
			})
		})
	}
}

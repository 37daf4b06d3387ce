package attention

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
	"github.com/goascend/cann/internal/testing/golden"
)

func int64s(v []int) []int64 {
	out := make([]int64, len(v))
	for i, x := range v {
		out[i] = int64(x)
	}
	return out
}

// goldenMasks returns the arguments for the way in which the case's mask was made, and for every
// case also the same mask as a dense tensor.
func goldenMasks(t *testing.T, c *golden.Case) []optest.Args {
	if c.Text("mode") == "none" {
		return []optest.Args{{}}
	}
	mask := c.Bytes("mask")
	cells := make([]float64, len(mask))
	for i, b := range mask {
		cells[i] = float64(b)
	}
	shape := c.Shape("mask")
	dense := optest.Args{"sparseMode": 1, "attenMaskOptional": optest.Tensor(t, dtype.Bool, []int64{int64(shape[0]), int64(shape[1]), int64(shape[2]), int64(shape[3])}, cells...)}
	rule := optest.Args{"attenMaskOptional": triangle(t, 2048)}
	switch c.Text("mode") {
	case "causal_top_left":
		rule["sparseMode"] = 2
	case "causal_bottom_right":
		rule["sparseMode"] = 3
	case "band":
		rule["sparseMode"], rule["preTokens"], rule["nextTokens"] = 4, c.Int("pre"), c.Int("next")
	case "prefix":
		rule["sparseMode"], rule["prefixOptional"], rule["attenMaskOptional"] = 6, int64s(c.Ints("prefix")), triangle(t, 3072)
	default:
		return []optest.Args{dense}
	}
	return []optest.Args{dense, rule}
}

func TestGoldenAttention(t *testing.T) {
	for _, c := range golden.Cases(t, "attention") {
		c.Run(t, func(t *testing.T, c *golden.Case) {
			for _, mask := range goldenMasks(t, c) {
				goldenAttention(t, c, mask)
			}
		})
	}
}

func goldenAttention(t *testing.T, c *golden.Case, mask optest.Args) {
	d, limit := c.DType, optest.GoldenLimit(c.DType)
	q, k, v, dy := optest.GoldenTensor(t, c, d, "q"), optest.GoldenTensor(t, c, d, "k"), optest.GoldenTensor(t, c, d, "v"), optest.GoldenTensor(t, c, d, "dout")
	stats := []int64{q.Dim(0), q.Dim(1), q.Dim(2), 8}
	x := trialTensors{
		query: q, key: k, value: v, dy: dy, out: optest.Tensor(t, d, dy.Shape), max: optest.Tensor(t, dtype.Float32, stats), sum: optest.Tensor(t, dtype.Float32, stats),
		dq: optest.Tensor(t, d, q.Shape), dk: optest.Tensor(t, d, k.Shape), dv: optest.Tensor(t, d, v.Shape),
	}
	a := optest.Args{
		"query": q, "key": k, "value": v, "scaleValue": c.Float("scale"), "keepProb": 1.0, "headNum": q.Dim(1), "inputLayout": "BNSD",
		"softmaxMaxOut": x.max, "softmaxSumOut": x.sum, "attentionOutOut": x.out,
	}
	for name, value := range mask {
		a[name] = value
	}
	if c.Has("pse") && c.Bool("pse") {
		a["realShiftOptional"] = optest.GoldenTensor(t, c, d, "pse")
	}
	optest.Run(t, "FlashAttentionScore", a)
	optest.Run(t, "FlashAttentionScoreGrad", x.backwardArgs(a))
	optest.RequireRMS(t, c, "out", x.out, limit)
	optest.RequireRMS(t, c, "dq", x.dq, 2*limit)
	optest.RequireRMS(t, c, "dk", x.dk, 2*limit)
	optest.RequireRMS(t, c, "dv", x.dv, 2*limit)
	first := func(v *op.Tensor) (out []float64) {
		for eight := range slices.Chunk(optest.Values(v), 8) {
			out = append(out, eight[0])
		}
		return out
	}
	require.NoError(t, golden.CheckClose(first(x.max), c.Float32("softmax_max"), 1e-5, 1e-5), "softmax_max")
	require.NoError(t, golden.CheckClose(first(x.sum), c.Float32("softmax_sum"), 1e-5, 1e-5), "softmax_sum")
}

func TestGoldenAttentionVarlen(t *testing.T) {
	for _, c := range golden.Cases(t, "attention_varlen") {
		c.Run(t, func(t *testing.T, c *golden.Case) {
			d, limit := c.DType, optest.GoldenLimit(c.DType)
			q, k, v, dy := optest.GoldenTensor(t, c, d, "q"), optest.GoldenTensor(t, c, d, "k"), optest.GoldenTensor(t, c, d, "v"), optest.GoldenTensor(t, c, d, "dout")
			stats := []int64{q.Dim(0), q.Dim(1), 8}
			x := trialTensors{
				query: q, key: k, value: v, dy: dy, out: optest.Tensor(t, d, dy.Shape), max: optest.Tensor(t, dtype.Float32, stats), sum: optest.Tensor(t, dtype.Float32, stats),
				dq: optest.Tensor(t, d, q.Shape), dk: optest.Tensor(t, d, k.Shape), dv: optest.Tensor(t, d, v.Shape),
			}
			a := optest.Args{
				"query": q, "key": k, "value": v, "scaleValue": c.Float("scale"), "keepProb": 1.0, "headNum": q.Dim(1), "inputLayout": "TND",
				"actualSeqQLenOptional": int64s(c.Ints("cu_q")), "actualSeqKvLenOptional": int64s(c.Ints("cu_kv")), "preTokens": math.MaxInt32,
				"softmaxMaxOut": x.max, "softmaxSumOut": x.sum, "attentionOutOut": x.out,
			}
			if c.Bool("causal") {
				a["sparseMode"], a["attenMaskOptional"] = 3, triangle(t, 2048)
			}
			optest.Run(t, "FlashAttentionVarLenScore", a)
			optest.Run(t, "FlashAttentionUnpaddingScoreGrad", x.backwardArgs(a))
			optest.RequireRMS(t, c, "out", x.out, limit)
			optest.RequireRMS(t, c, "dq", x.dq, 2*limit)
			optest.RequireRMS(t, c, "dk", x.dk, 2*limit)
			optest.RequireRMS(t, c, "dv", x.dv, 2*limit)
		})
	}
}

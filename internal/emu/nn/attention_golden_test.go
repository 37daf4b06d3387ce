package nn

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/golden"
)

// goldenLimit is the RMS ratio within which a result of the dtype must lie: what rounding
// probabilities and outputs to it costs.
func goldenLimit(d dtype.Type) float64 {
	return map[dtype.Type]float64{dtype.Float32: 2e-6, dtype.Float16: 1e-3, dtype.BFloat16: 8e-3}[d]
}

func goldenTensor(t *testing.T, c *golden.Case, d dtype.Type, name string) *Tensor {
	data, shape := c.Float32(name), c.Shape(name)
	v, dims := make([]float64, len(data)), make([]int64, len(shape))
	for i, x := range data {
		v[i] = float64(x)
	}
	for i, n := range shape {
		dims[i] = int64(n)
	}
	return tensor(t, d, dims, v...)
}

func requireRMS(t *testing.T, c *golden.Case, name string, got *Tensor, limit float64) {
	t.Helper()
	require.NoError(t, golden.CheckRMS(values(got), c.Float32(name), limit), name)
}

func int64s(v []int) []int64 {
	out := make([]int64, len(v))
	for i, x := range v {
		out[i] = int64(x)
	}
	return out
}

// goldenMask gives sparseMode and mask for the way the case's mask was made, and for every
// case the same mask written out.
func goldenMasks(t *testing.T, c *golden.Case) []args {
	if c.Text("mode") == "none" {
		return []args{{}}
	}
	mask := c.Bytes("mask")
	cells := make([]float64, len(mask))
	for i, b := range mask {
		cells[i] = float64(b)
	}
	shape := c.Shape("mask")
	dense := args{"sparseMode": 1, "attenMaskOptional": tensor(t, dtype.Bool, []int64{int64(shape[0]), int64(shape[1]), int64(shape[2]), int64(shape[3])}, cells...)}
	rule := args{"attenMaskOptional": triangle(t, 2048)}
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
		return []args{dense}
	}
	return []args{dense, rule}
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

func goldenAttention(t *testing.T, c *golden.Case, mask args) {
	d, limit := c.DType, goldenLimit(c.DType)
	q, k, v, dy := goldenTensor(t, c, d, "q"), goldenTensor(t, c, d, "k"), goldenTensor(t, c, d, "v"), goldenTensor(t, c, d, "dout")
	stats := []int64{q.Dim(0), q.Dim(1), q.Dim(2), 8}
	x := trialTensors{
		query: q, key: k, value: v, dy: dy, out: tensor(t, d, dy.Shape), max: tensor(t, dtype.Float32, stats), sum: tensor(t, dtype.Float32, stats),
		dq: tensor(t, d, q.Shape), dk: tensor(t, d, k.Shape), dv: tensor(t, d, v.Shape),
	}
	a := args{
		"query": q, "key": k, "value": v, "scaleValue": c.Float("scale"), "keepProb": 1.0, "headNum": q.Dim(1), "inputLayout": "BNSD",
		"softmaxMaxOut": x.max, "softmaxSumOut": x.sum, "attentionOutOut": x.out,
	}
	for name, value := range mask {
		a[name] = value
	}
	if c.Has("pse") && c.Bool("pse") {
		a["realShiftOptional"] = goldenTensor(t, c, d, "pse")
	}
	run(t, "FlashAttentionScore", a)
	run(t, "FlashAttentionScoreGrad", x.backwardArgs(a))
	requireRMS(t, c, "out", x.out, limit)
	requireRMS(t, c, "dq", x.dq, 2*limit)
	requireRMS(t, c, "dk", x.dk, 2*limit)
	requireRMS(t, c, "dv", x.dv, 2*limit)
	first := func(v *Tensor) (out []float64) {
		for eight := range slices.Chunk(values(v), 8) {
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
			d, limit := c.DType, goldenLimit(c.DType)
			q, k, v, dy := goldenTensor(t, c, d, "q"), goldenTensor(t, c, d, "k"), goldenTensor(t, c, d, "v"), goldenTensor(t, c, d, "dout")
			stats := []int64{q.Dim(0), q.Dim(1), 8}
			x := trialTensors{
				query: q, key: k, value: v, dy: dy, out: tensor(t, d, dy.Shape), max: tensor(t, dtype.Float32, stats), sum: tensor(t, dtype.Float32, stats),
				dq: tensor(t, d, q.Shape), dk: tensor(t, d, k.Shape), dv: tensor(t, d, v.Shape),
			}
			a := args{
				"query": q, "key": k, "value": v, "scaleValue": c.Float("scale"), "keepProb": 1.0, "headNum": q.Dim(1), "inputLayout": "TND",
				"actualSeqQLenOptional": int64s(c.Ints("cu_q")), "actualSeqKvLenOptional": int64s(c.Ints("cu_kv")), "preTokens": math.MaxInt32,
				"softmaxMaxOut": x.max, "softmaxSumOut": x.sum, "attentionOutOut": x.out,
			}
			if c.Bool("causal") {
				a["sparseMode"], a["attenMaskOptional"] = 3, triangle(t, 2048)
			}
			run(t, "FlashAttentionVarLenScore", a)
			run(t, "FlashAttentionUnpaddingScoreGrad", x.backwardArgs(a))
			requireRMS(t, c, "out", x.out, limit)
			requireRMS(t, c, "dq", x.dq, 2*limit)
			requireRMS(t, c, "dk", x.dk, 2*limit)
			requireRMS(t, c, "dv", x.dv, 2*limit)
		})
	}
}

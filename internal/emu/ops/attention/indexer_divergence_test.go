package attention

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// divergenceCase is a call of SparseLightningIndexerKLLossGrad with 2 heads of 8 numbers and lists of 3 keys.
type divergenceCase struct {
	dt              dtype.Type
	layout          kerneltest.Layout // of what may have one
	packed          bool
	queries, keys   []int64 // tokens that there is room for
	used, usedKeys  []int64 // tokens that count, or nil for all
	causal          bool
	ratio, residual int64
}

const divergenceHeads, divergenceWidth, divergenceCount = 2, 8, 3

func (c divergenceCase) spans(lengths, used []int64) (from, n []int64) {
	for b, length := range lengths {
		first := op.Total(lengths[:b])
		if used != nil {
			length = used[b]
		}
		from, n = append(from, first), append(n, length)
	}
	return from, n
}

// sees returns the number of keys, of m, that query i of n sees.
func (c divergenceCase) sees(i, n, m int64) int64 {
	if !c.causal {
		return m
	}
	return max(0, min(m, int64(math.Floor(float64(m*c.ratio+c.residual-n+i+1)/float64(c.ratio)))))
}

func TestIndexerDivergenceGrad(t *testing.T) {
	i32, f := dtype.Int32, dtype.Float32
	var cases []divergenceCase
	for _, d := range op.HalfTypes {
		for _, l := range kerneltest.Layouts {
			cases = append(cases,
				divergenceCase{d, l, true, []int64{3, 5}, []int64{4, 7}, nil, nil, true, 1, 0},
				divergenceCase{d, l, true, []int64{5, 1, 2}, []int64{2, 3, 0}, []int64{4, 0, 1}, []int64{1, 2, 0}, true, 3, 2},
				divergenceCase{d, l, false, []int64{3, 3}, []int64{5, 5}, []int64{2, 3}, nil, false, 1, 0},
				divergenceCase{d, l, false, []int64{7, 7}, []int64{2, 2}, nil, nil, true, 4, 1},
			)
		}
	}
	for _, c := range cases {
		what := fmt.Sprintf("%+v", c)
		from, n := c.spans(c.queries, c.used)
		keyFrom, m := c.spans(c.keys, c.usedKeys)
		tokens, keyTokens := op.Total(c.queries), op.Total(c.keys)
		leading, keyLeading := []int64{tokens}, []int64{keyTokens}
		if !c.packed {
			leading, keyLeading = []int64{int64(len(n)), c.queries[0]}, []int64{int64(len(n)), c.keys[0]}
		}
		with := func(leading []int64, tail ...int64) []int64 { return append(slices.Clone(leading), tail...) }
		// Each query lists visible keys, one that it does not see, and places without a key.
		list := slices.Repeat([]float64{-1}, int(tokens*divergenceCount))
		for b := range n {
			for i := range n[b] {
				for k := range min(c.sees(i, n[b], m[b]), divergenceCount) {
					list[(from[b]+i)*divergenceCount+k] = float64((k + i) % c.sees(i, n[b], m[b]))
				}
				if k := c.sees(i, n[b], m[b]); k < divergenceCount {
					list[(from[b]+i)*divergenceCount+k] = float64(m[b])
				}
			}
		}
		filled := func(seed uint64, d dtype.Type, l kerneltest.Layout, shape []int64) *op.Tensor {
			return optest.Filled(t, seed, d, l, shape)
		}
		lengths := func(v []int64) *op.Tensor { return optest.Tensor(t, i32, []int64{int64(len(v))}, optest.Floats(v)...) }
		target := optest.TensorIn(t, f, c.layout, with(leading, 1, divergenceCount), .5, .125, .25, .75, .0625)
		a := optest.Args{
			"q": filled(1, c.dt, kerneltest.Contiguous, with(leading, divergenceHeads, divergenceWidth)), "k": filled(2, c.dt, kerneltest.Contiguous, with(keyLeading, 1, divergenceWidth)),
			"w": filled(3, f, c.layout, with(leading, divergenceHeads)), "sparseIndices": optest.TensorIn(t, i32, c.layout, with(leading, 1, divergenceCount), list...), "attnSoftmaxL1Norm": target,
			"metadataOptional": optest.Tensor(t, i32, []int64{64}), "layoutQ": "BSND", "layoutK": "BSND", "cmpRatio": c.ratio, "maskMode": 0,
			"dq": filled(4, c.dt, c.layout, with(leading, divergenceHeads, divergenceWidth)), "dk": filled(4, c.dt, c.layout, with(keyLeading, 1, divergenceWidth)),
			"dw": filled(4, f, c.layout, with(leading, divergenceHeads)), "softmaxOut": filled(4, f, c.layout, with(leading, 1, divergenceCount)),
		}
		if c.packed {
			a["layoutQ"], a["layoutK"] = "TND", "TND"
			a["cuSeqLensQOptional"], a["cuSeqLensKOptional"] = lengths(append([]int64{0}, ends(c.queries)...)), lengths(append([]int64{0}, ends(c.keys)...))
		}
		if c.causal {
			a["maskMode"], a["cmpResidualKOptional"] = 3, lengths(slices.Repeat([]int64{c.residual}, len(n)))
		}
		if c.used != nil {
			a["seqUsedQOptional"] = lengths(c.used)
		}
		if c.usedKeys != nil {
			a["seqUsedKOptional"] = lengths(c.usedKeys)
		}
		optest.Run(t, "SparseLightningIndexerKLLossGrad", a)

		get := valuesOf(a)
		p, own := get("attnSoftmaxL1Norm"), make([]float64, tokens*divergenceCount)
		// loss is −Σ p·log softmax, which has the gradients of the divergence.
		loss := func(q, k, w []float64) []float64 {
			sum := 0.0
			for b := range n {
				for i := range n[b] {
					row := from[b] + i
					var scores []float64
					for place := range min(c.sees(i, n[b], m[b]), divergenceCount) {
						key, score := keyFrom[b]+int64(list[row*divergenceCount+place]), 0.0
						for h := range int64(divergenceHeads) {
							dot := 0.0
							for e := range int64(divergenceWidth) {
								dot += q[(row*divergenceHeads+h)*divergenceWidth+e] * k[key*divergenceWidth+e]
							}
							score += w[row*divergenceHeads+h] * max(0, dot)
						}
						scores = append(scores, score)
					}
					total := 0.0
					for _, s := range scores {
						total += math.Exp(s)
					}
					for place, s := range scores {
						at := int(row*divergenceCount) + place
						own[at] = math.Exp(s) / total
						sum -= p[at] * math.Log(own[at])
					}
				}
			}
			return []float64{sum}
		}
		q, k, w := get("q"), get("k"), get("w")
		loss(q, k, w)
		optest.CloseTo(t, "softmaxOut "+what, slices.Clone(own), get("softmaxOut"), 1e-5)
		optest.CloseTo(t, "dq "+what, optest.Gradient(func(x []float64) []float64 { return loss(x, k, w) }, []float64{1}, q), get("dq"), optest.ResultLimit(c.dt))
		optest.CloseTo(t, "dk "+what, optest.Gradient(func(x []float64) []float64 { return loss(q, x, w) }, []float64{1}, k), get("dk"), optest.ResultLimit(c.dt))
		optest.CloseTo(t, "dw "+what, optest.Gradient(func(x []float64) []float64 { return loss(q, k, x) }, []float64{1}, w), get("dw"), 1e-4)
	}
}

func TestIndexerDivergenceGradRefuses(t *testing.T) {
	const name = "SparseLightningIndexerKLLossGrad"
	bf, f, i32 := dtype.BFloat16, dtype.Float32, dtype.Int32
	x := func(d dtype.Type, shape ...int64) *op.Tensor { return optest.Tensor(t, d, shape) }
	a := optest.Args{
		"q": x(bf, 1, 2, 8, 128), "k": x(bf, 1, 5, 1, 128), "w": x(f, 1, 2, 8), "sparseIndices": x(i32, 1, 2, 1, 512), "attnSoftmaxL1Norm": x(f, 1, 2, 1, 512), "layoutQ": "BSND", "layoutK": "BSND", "cmpRatio": 1, "maskMode": 3,
		"dq": x(bf, 1, 2, 8, 128), "dk": x(bf, 1, 5, 1, 128), "dw": x(f, 1, 2, 8), "softmaxOut": x(f, 1, 2, 1, 512),
	}
	optest.Run(t, name, a)
	for _, null := range []string{"q", "k", "w", "sparseIndices", "attnSoftmaxL1Norm", "dq", "dk", "dw", "softmaxOut"} {
		optest.Refused(t, op.NullPointer, name, a.With(optest.Args{null: nil}), null+" is null")
	}
	optest.Refused(t, op.InvalidParam, name, a.With(optest.Args{"w": x(bf, 1, 2, 8)}), "dtype")
	optest.Refused(t, op.InvalidParam, name, a.With(optest.Args{"k": x(dtype.Float16, 1, 5, 1, 128)}), "dtypes differ")
	optest.Refused(t, op.InvalidParam, name, a.With(optest.Args{"cmpResidualKOptional": x(dtype.Int64, 1)}), "dtype")
	for text, set := range map[string]optest.Args{
		"must be equal, and TND or BSND": {"layoutK": "TND"}, "maskMode is 4": {"maskMode": 4}, "cmpRatio is 129": {"cmpRatio": 129}, "metadata is null": {"seqUsedQOptional": x(i32, 1)},
		"must have 4 dimensions": {"sparseIndices": x(i32, 2, 1, 512)}, "64 numbers in metadata": {"metadataOptional": x(i32, 1024)}, "that of sparseIndices": {"softmaxOut": x(f, 1, 2, 1, 511)},
		"must be given in layout TND": {"layoutQ": "TND", "layoutK": "TND", "q": x(bf, 2, 8, 128), "k": x(bf, 5, 1, 128), "sparseIndices": x(i32, 2, 1, 512), "dq": x(bf, 2, 8, 128), "dk": x(bf, 5, 1, 128)},
		"one head of keys":            {"k": x(bf, 1, 5, 1, 64), "dk": x(bf, 1, 5, 1, 64)}, "as many sequences": {"k": x(bf, 2, 5, 1, 128), "dk": x(bf, 2, 5, 1, 128)},
	} {
		optest.Refused(t, op.TilingRefused, name, a.With(set), text)
	}
	tiled := func(chip acceptance.Chip, set optest.Args) error {
		_, err := optest.PrepareIn(t, op.Env{Chip: chip, Tiled: true}, name, a.With(set))
		return err
	}
	seven := optest.Args{"q": x(bf, 1, 2, 7, 128), "dq": x(bf, 1, 2, 7, 128), "w": x(f, 1, 2, 7), "dw": x(f, 1, 2, 7)}
	require.NoError(t, tiled(acceptance.Ascend910B, nil))
	require.ErrorContains(t, tiled(acceptance.Ascend910B, seven), "8, 16, 32 or 64 heads")
	require.NoError(t, tiled(acceptance.Ascend950, seven))
	require.ErrorContains(t, tiled(acceptance.Ascend910B, optest.Args{"sparseIndices": x(i32, 1, 2, 1, 600), "attnSoftmaxL1Norm": x(f, 1, 2, 1, 600), "softmaxOut": x(f, 1, 2, 1, 600)}), "600 chosen keys")
	require.ErrorContains(t, optest.Execute(t, name, a.With(optest.Args{"seqUsedQOptional": optest.Tensor(t, i32, []int64{1}, 3), "metadataOptional": x(i32, 64)})), "has 3 for sequence 0 of 2")
}

package attention

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// packedTrial returns a TND trial with sequences of different lengths.
func packedTrial(rows, cols []int64) trial {
	return trial{layout: "TND", dtype: dtype.Float32, heads: 4, keyHeads: 2, dim: 8, valDim: 8, rows: rows, cols: cols}
}

// The packed sparse modes apply to each sequence separately.
func TestFlashAttentionPackedModes(t *testing.T) {
	rows, cols := []int64{20, 0, 33, 12}, []int64{25, 0, 40, 30}
	for _, c := range []struct {
		mode, pre, next int64
		prefix          []int64
		mask            int64
		rule            func(item int, i, j, shift int64) bool
	}{
		{mode: 2, mask: 2048, rule: func(_ int, i, j, _ int64) bool { return j <= i }},
		{mode: 3, mask: 2048, rule: func(_ int, i, j, s int64) bool { return j <= i+s }},
		{mode: 4, pre: 9, next: 2, mask: 2048, rule: func(_ int, i, j, s int64) bool { return i+s-9 <= j && j <= i+s+2 }},
		{mode: 4, pre: 40, next: 0, mask: 2048, rule: func(_ int, i, j, s int64) bool { return i+s-40 <= j && j <= i+s }},
		{mode: 6, prefix: []int64{10, 0, 7, 30}, mask: 3072, rule: func(item int, i, j, s int64) bool { return j <= i+s || j < []int64{10, 0, 7, 30}[item] }},
		{mode: 7, pre: 30, next: -3, mask: 2048, rule: func(item int, i, j, s int64) bool {
			if item == 3 {
				return i+s-30 <= j && j <= i+s-3
			}
			return j <= i+s
		}},
		{mode: 8, pre: 25, next: -2, mask: 2048, rule: func(item int, i, j, s int64) bool {
			if item == 0 {
				return i+s-25 <= j && j <= i+s-2
			}
			return j <= i
		}},
	} {
		t.Run(fmt.Sprintf("%d/pre%d", c.mode, c.pre), func(t *testing.T) {
			x := packedTrial(rows, cols)
			x.args = optest.Args{"sparseMode": c.mode, "preTokens": c.pre, "nextTokens": c.next, "prefixOptional": c.prefix, "attenMaskOptional": triangle(t, c.mask)}
			x.visible = func(item int, _, i, j int64) bool { return c.rule(item, i, j, cols[item]-rows[item]) }
			x.check(t)
		})
	}
}

// A dense mask of packed sequences has either one corner for all sequences, or the diagonal blocks.
func TestFlashAttentionPackedDenseMask(t *testing.T) {
	rows, cols := []int64{9, 14}, []int64{21, 17}
	corner := func(_ int, _, i, j int64) bool { return (i+2*j)%3 != 0 }
	x := packedTrial(rows, cols)
	x.visible, x.args = corner, optest.Args{"sparseMode": 1, "attenMaskOptional": denseMask(t, []int64{14, 21}, corner)}
	t.Run("corner", func(t *testing.T) { x.check(t) })

	blocks := denseMask(t, []int64{23, 38}, corner)
	y := packedTrial(rows, cols)
	y.noGrad, y.args = true, optest.Args{"sparseMode": 1, "attenMaskOptional": blocks}
	y.visible = func(item int, _, i, j int64) bool {
		return corner(0, 0, i+[]int64{0, 9}[item], j+[]int64{0, 21}[item])
	}
	t.Run("diagonal blocks", func(t *testing.T) {
		y.check(t)
		v, a := y.start(t)
		optest.Refused(t, 161001, y.backward(), v.backwardArgs(a), "atten mask shape [23,38] is invalid")
	})
}

// softmaxMax and softmaxSum are head-major in each sequence, unless the caller asks for the order
// of the tokens. The values are the same.
func TestFlashAttentionStatisticsOrder(t *testing.T) {
	x := packedTrial([]int64{3, 5}, []int64{4, 9})
	x.version, x.args = "V4", optest.Args{"softmaxOutLayout": "same_as_input"}
	x.check(t)
	y := packedTrial([]int64{3, 5}, []int64{4, 9})
	y.version = "V4"
	y.check(t)
	v, a := y.start(t)
	a["softmaxOutLayout"] = "TND"
	optest.Refused(t, 161002, y.forward(), a, "is not same_as_input")
	b := v.backwardArgs(a)
	optest.Refused(t, 161002, y.backward(), b, "is not same_as_input")
}

func TestFlashAttentionLengthLists(t *testing.T) {
	const tokens = 12
	forward := func(t *testing.T, queryEnds, keyEnds []int64) (trialTensors, optest.Args) {
		x := packedTrial([]int64{tokens}, []int64{tokens})
		v, a := x.start(t)
		for _, out := range []*op.Tensor{v.out, v.max, v.sum, v.dq, v.dk, v.dv} {
			optest.Fill(out, 77)
		}
		a["actualSeqQLenOptional"], a["actualSeqKvLenOptional"] = queryEnds, keyEnds
		optest.Run(t, x.forward(), a)
		return v, a
	}
	rows := func(v *op.Tensor, from, to int64) []float64 {
		width := v.Len() / v.Dim(0)
		return optest.Values(v)[from*width : to*width]
	}
	t.Run("a drop zeroes the rest", func(t *testing.T) {
		list := []int64{2, 5, 9, 0, 0}
		v, a := forward(t, list, list)
		require.Equal(t, make([]float64, 3*32), rows(v.out, 9, tokens))
		require.Equal(t, make([]float64, 3*32), rows(v.max, 9, tokens))
		require.Equal(t, make([]float64, 3*32), rows(v.sum, 9, tokens))
		optest.Run(t, "FlashAttentionUnpaddingScoreGrad", v.backwardArgs(a))
		require.Equal(t, make([]float64, 3*32), rows(v.dq, 9, tokens))
		require.Equal(t, make([]float64, 3*16), rows(v.dk, 9, tokens))
		require.NotContains(t, rows(v.dq, 0, 9), 77.0)
	})
	t.Run("without a drop surplus rows stay as they are", func(t *testing.T) {
		v, _ := forward(t, []int64{2, 5, 9}, []int64{2, 5, 9})
		require.Equal(t, slices.Repeat([]float64{77}, 3*32), rows(v.out, 9, tokens))
		require.NotContains(t, rows(v.out, 0, 9), 77.0)
	})
	t.Run("a sequence without keys gives zeros", func(t *testing.T) {
		v, a := forward(t, []int64{2, 5, 12}, []int64{2, 2, 12})
		require.Equal(t, make([]float64, 3*32), rows(v.out, 2, 5))
		optest.Run(t, "FlashAttentionUnpaddingScoreGrad", v.backwardArgs(a))
		require.Equal(t, make([]float64, 3*32), rows(v.dq, 2, 5))
	})
	t.Run("a sequence without queries gives no gradient", func(t *testing.T) {
		v, a := forward(t, []int64{2, 2, 12}, []int64{2, 5, 12})
		optest.Run(t, "FlashAttentionUnpaddingScoreGrad", v.backwardArgs(a))
		require.Equal(t, make([]float64, 3*16), rows(v.dk, 2, 5))
		require.Equal(t, make([]float64, 3*16), rows(v.dv, 2, 5))
	})
}

// Rotary columns in separate tensors give the same result as the last columns of one head.
func TestFlashAttentionSplitRope(t *testing.T) {
	whole := packedTrial([]int64{20, 33}, []int64{20, 40})
	whole.dtype, whole.dim, whole.valDim = dtype.BFloat16, 24, 16
	whole.args = optest.Args{"sparseMode": 3, "attenMaskOptional": triangle(t, 2048)}
	v, a := whole.start(t)
	optest.Run(t, whole.forward(), a)
	optest.Run(t, whole.backward(), v.backwardArgs(a))

	// cut copies the columns of x to two tensors.
	cut := func(x *op.Tensor) (first, rest *op.Tensor) {
		all, parts := optest.Values(x), [2][]float64{}
		for i, e := range all {
			if i%24 < 16 {
				parts[0] = append(parts[0], e)
			} else {
				parts[1] = append(parts[1], e)
			}
		}
		return optest.Tensor(t, x.DType, []int64{x.Dim(0), x.Dim(1), 16}, parts[0]...), optest.Tensor(t, x.DType, []int64{x.Dim(0), x.Dim(1), 8}, parts[1]...)
	}
	split := whole
	split.version, split.dim = "V3", 16
	w, b := split.start(t)
	var queryRope, keyRope *op.Tensor
	w.query, queryRope = cut(v.query)
	w.key, keyRope = cut(v.key)
	b["query"], b["queryRope"], b["key"], b["keyRope"], b["value"], b["scaleValue"], b["pseType"] = w.query, queryRope, w.key, keyRope, v.value, a["scaleValue"], 1
	optest.Run(t, split.forward(), b)
	require.Equal(t, optest.Values(v.out), optest.Values(w.out))
	w.dy = v.dy
	g := w.backwardArgs(b)
	delete(g, "keyRope")
	dqRope, dkRope := optest.Tensor(t, dtype.BFloat16, queryRope.Shape), optest.Tensor(t, dtype.BFloat16, keyRope.Shape)
	g["keyInRope"], g["dqRopeOut"], g["dkRopeOut"] = keyRope, dqRope, dkRope
	optest.Run(t, split.backward(), g)
	dq, wantRope := cut(v.dq)
	require.Equal(t, optest.Values(dq), optest.Values(w.dq))
	require.Equal(t, optest.Values(wantRope), optest.Values(dqRope))
	dk, wantRope := cut(v.dk)
	require.Equal(t, optest.Values(dk), optest.Values(w.dk))
	require.Equal(t, optest.Values(wantRope), optest.Values(dkRope))
	require.Equal(t, optest.Values(v.dv), optest.Values(w.dv))

	b["attenMaskOptional"] = (*op.Tensor)(nil)
	optest.Refused(t, 161001, split.forward(), b, "attenMask is null")
	g["attenMaskOptional"] = (*op.Tensor)(nil)
	optest.Refused(t, 161001, split.backward(), g, "attenMask is null")
	b["attenMaskOptional"], b["keepProb"] = a["attenMaskOptional"], 0.5
	optest.Refused(t, 161001, split.forward(), b, "keepProb must be 1")
	g["attenMaskOptional"], g["keepProb"] = a["attenMaskOptional"], 0.5
	optest.Refused(t, 161002, split.backward(), g, "keepProb must be 1")
}

func TestFlashAttentionBias(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	matrix := func(shape ...int64) *op.Tensor {
		n := int64(1)
		for _, d := range shape {
			n *= d
		}
		return optest.Tensor(t, dtype.Float32, shape, noise(r, []int64{n}, 1, 1)[0]...)
	}
	for kind, formula := range map[int64]func(product, scale, bias float64) float64{
		0: func(p, s, b float64) float64 { return p*s + b },
		1: func(p, s, b float64) float64 { return (p + b) * s },
	} {
		for _, shape := range [][]int64{{2, 4, 17, 29}, {1, 4, 17, 29}, {2, 4, 1, 29}, {1, 4, 1, 29}} {
			t.Run(fmt.Sprintf("type %d %v", kind, shape), func(t *testing.T) {
				x := trial{layout: "BSND", dtype: dtype.Float32, heads: 4, keyHeads: 2, dim: 8, valDim: 8, rows: []int64{17, 17}, cols: []int64{29, 29}, version: "V2"}
				pse := matrix(shape...)
				all := optest.Values(pse)
				x.args = optest.Args{"realShiftOptional": pse, "pseType": kind}
				x.score = func(item int, h, i, j int64, p float64) float64 {
					b, row := int64(item)%shape[0], i%shape[2]
					return formula(p, x.scale(), all[((b*4+h)*shape[2]+row)*29+j])
				}
				x.check(t)
			})
		}
	}
	for kind, distance := range map[int64]func(float64) float64{2: math.Abs, 3: func(d float64) float64 { return math.Sqrt(math.Abs(d)) }} {
		for _, shape := range [][]int64{{4}, {2, 4}} {
			t.Run(fmt.Sprintf("type %d %v", kind, shape), func(t *testing.T) {
				x := trial{layout: "BSND", dtype: dtype.Float32, heads: 4, keyHeads: 2, dim: 8, valDim: 8, rows: []int64{29, 29}, cols: []int64{29, 29}, version: "V2"}
				slopes := optest.Tensor(t, dtype.Float32, shape, 0.5, 0.25, 0.0625, 1, 0.125)
				all := optest.Values(slopes)
				x.args = optest.Args{"realShiftOptional": slopes, "pseType": kind, "qStartIdxOptional": []int64{3}, "kvStartIdxOptional": []int64{7, 99}}
				x.score = func(item int, h, i, j int64, p float64) float64 {
					return p*x.scale() - all[(int64(item)*4+h)%int64(len(all))]*distance(float64(j+7-i-3))
				}
				x.check(t)
			})
		}
	}
	t.Run("packed", func(t *testing.T) {
		rows, cols := []int64{9, 5}, []int64{21, 13}
		x := packedTrial(rows, cols)
		line := matrix(4 * 34)
		all := optest.Values(line)
		x.args = optest.Args{"realShiftOptional": line}
		x.score = func(item int, h, _, j int64, p float64) float64 {
			return (p + all[[]int64{0, 4 * 21}[item]+h*cols[item]+j]) * x.scale()
		}
		x.check(t)
		full := matrix(4 * (9*21 + 5*13))
		cells := optest.Values(full)
		x.args = optest.Args{"realShiftOptional": full}
		x.score = func(item int, h, i, j int64, p float64) float64 {
			return (p + cells[[]int64{0, 4 * 9 * 21}[item]+(h*rows[item]+i)*cols[item]+j]) * x.scale()
		}
		x.check(t)
	})
}

// An ALiBi bias may consist of its last 1024 rows only.
func TestFlashAttentionFoldedBias(t *testing.T) {
	if testing.Short() {
		t.Skip("needs more than 1024 tokens")
	}
	const heads = 2
	alibi := func(width int64) *op.Tensor {
		var v []float64
		for h := range int64(heads) {
			for i := range int64(1024) {
				for j := range width {
					v = append(v, -math.Abs(float64(j-(width-1024+i)))/float64(int64(64)<<h))
				}
			}
		}
		return optest.Tensor(t, dtype.Float32, []int64{1, heads, 1024, width}, v...)
	}
	slope := func(h, i, j int64) float64 { return -math.Abs(float64(j-i)) / float64(int64(64)<<h) }
	for _, s := range [][]int64{{1025}, {1500}, {1100, 300}, {700, 20}} {
		x := trial{layout: "BNSD", dtype: dtype.Float32, heads: heads, keyHeads: heads, dim: 4, valDim: 4, rows: s, cols: s, version: "V2"}
		if len(s) > 1 {
			x.layout = "TND"
		}
		x.args = optest.Args{"realShiftOptional": alibi(slices.Max(s)), "pseType": 0, "sparseMode": 2, "attenMaskOptional": triangle(t, 2048)}
		x.visible = func(_ int, _, i, j int64) bool { return j <= i }
		x.score = func(_ int, h, i, j int64, p float64) float64 { return p*x.scale() + slope(h, i, j) }
		t.Run(fmt.Sprint(s), func(t *testing.T) { x.check(t) })
	}
}

// Generated and folded biases are refused if they violate their conditions.
func TestFlashAttentionBiasRefusals(t *testing.T) {
	slopes, alibi := optest.Tensor(t, dtype.Float32, []int64{4}, 0.5), optest.Tensor(t, dtype.Float32, []int64{1, 4, 1024, 30}, 0)
	packed := func(rows, cols []int64, a optest.Args) trial {
		x := packedTrial(rows, cols)
		x.version, x.args = "V2", a
		return x
	}
	for _, c := range []struct {
		text  string
		trial trial
	}{
		{"get unsupported pse shape", packed([]int64{30}, []int64{30}, optest.Args{"pseType": 2, "realShiftOptional": optest.Tensor(t, dtype.Float32, []int64{3}, 0)})},
		{"INNER Pse does not support sparse mode 7", packed([]int64{30}, []int64{30}, optest.Args{"pseType": 2, "realShiftOptional": slopes,
			"sparseMode": 7, "preTokens": 30, "nextTokens": 0, "attenMaskOptional": triangle(t, 2048)})},
		{"INNER Pse with sparse mode 8", packed([]int64{30, 20}, []int64{30, 21}, optest.Args{"pseType": 3, "realShiftOptional": slopes,
			"sparseMode": 8, "preTokens": 30, "nextTokens": 0, "attenMaskOptional": triangle(t, 2048)})},
		{"INNER Pse alibi is supported only when", trial{layout: "BNSD", dtype: dtype.Float32, heads: 4, keyHeads: 4, dim: 4, valDim: 4,
			rows: []int64{5}, cols: []int64{6}, version: "V2", args: optest.Args{"pseType": 2, "realShiftOptional": slopes}}},
		{"needs same S1 S2, but sequence 1", packed([]int64{30, 20}, []int64{30, 21}, optest.Args{"pseType": 1, "realShiftOptional": alibi,
			"sparseMode": 2, "attenMaskOptional": triangle(t, 2048)})},
		{"Pse alibi only support causal sparse type", packed([]int64{30}, []int64{30}, optest.Args{"pseType": 1, "realShiftOptional": alibi})},
	} {
		v, a := c.trial.start(t)
		late(t, c.trial.forward(), a, c.text)
		optest.Refused(t, 161001, c.trial.backward(), v.backwardArgs(a), c.text)
	}
	// The start indices may compensate for the offset of the first sequence.
	x := packed([]int64{20, 20}, []int64{30, 20}, optest.Args{"pseType": 2, "realShiftOptional": slopes, "qStartIdxOptional": []int64{10},
		"sparseMode": 8, "preTokens": 30, "nextTokens": 0, "attenMaskOptional": triangle(t, 2048)})
	x.visible = func(item int, _, i, j int64) bool { return j <= i+x.cols[item]-x.rows[item] }
	x.score = func(item int, _, i, j int64, p float64) float64 {
		start := []float64{10, 0}[item]
		return p*x.scale() - 0.5*math.Abs(float64(j-i)-start)
	}
	x.check(t)
}

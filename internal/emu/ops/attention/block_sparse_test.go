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

// blockCase is attention over blocks of 3 queries and 4 keys with heads of 5 numbers.
type blockCase struct {
	dt              dtype.Type
	tensors         kerneltest.Layout
	layout          string
	lengths, keys   []int64 // of sequences
	whole           bool    // the lengths are not given
	heads, keyHeads int64
}

const blockWidth, blockQueries, blockKeys, blockScale = 5, 3, 4, 0.4

// blockCases are the layouts of the 910B with lengths that no block divides, a sequence without queries, and heads that share keys.
func blockCases(shared bool) (cases []blockCase) {
	for _, d := range op.HalfTypes {
		for _, l := range kerneltest.Layouts {
			for _, heads := range [][2]int64{{2, 2}, {4, 2}, {3, 1}} {
				if !shared && heads[0] != heads[1] {
					continue
				}
				cases = append(cases, blockCase{d, l, "TND", []int64{7, 0, 2}, []int64{9, 3, 4}, false, heads[0], heads[1]},
					blockCase{d, l, "BNSD", []int64{7, 4}, []int64{5, 9}, false, heads[0], heads[1]},
					blockCase{d, l, "BNSD", []int64{7, 7}, []int64{9, 9}, true, heads[0], heads[1]},
					blockCase{d, l, "BSND", []int64{6, 1}, []int64{9, 8}, false, heads[0], heads[1]})
			}
		}
	}
	return cases
}

// space returns the tokens for which each sequence has room.
func (c blockCase) space(lengths []int64) int64 { return slices.Max(lengths) }

func (c blockCase) shape(lengths []int64, heads, width int64) []int64 {
	switch batch := int64(len(lengths)); c.layout {
	case "TND":
		return []int64{op.Total(lengths), heads, width}
	case "BNSD":
		return []int64{batch, heads, c.space(lengths), width}
	default:
		return []int64{batch, c.space(lengths), heads, width}
	}
}

// row returns the number of the vector of a token.
func (c blockCase) row(lengths []int64, heads int64, b int, h, i int64) int64 {
	switch c.layout {
	case "TND":
		return (op.Total(lengths[:b])+i)*heads + h
	case "BNSD":
		return (int64(b)*heads+h)*c.space(lengths) + i
	default:
		return (int64(b)*c.space(lengths)+i)*heads + h
	}
}

// sees reports whether a block of queries sees a block of keys. The last block of the first head sees none.
func (c blockCase) sees(b int, h, x, y int64) bool {
	if h == 0 && x == (c.space(c.lengths)-1)/blockQueries {
		return false
	}
	return (int64(b)+h+2*x+3*y)%3 != 0
}

// mask returns the mask, and its shape.
func (c blockCase) mask() (shape []int64, v []float64) {
	shape = []int64{int64(len(c.lengths)), c.heads, (c.space(c.lengths) + blockQueries - 1) / blockQueries, (c.space(c.keys) + blockKeys - 1) / blockKeys}
	optest.Walk(shape, func(at []int64) {
		n := 0.0
		if c.sees(int(at[0]), at[1], at[2], at[3]) {
			n = 1
		}
		v = append(v, n)
	})
	return shape, v
}

// define returns attention and the logarithms of the sums by definition. Rows that see no key are kept.
func (c blockCase) define(q, k, v []float64, kept float64) (out, lse []float64) {
	rows := int64(len(q)) / blockWidth
	out, lse = slices.Repeat([]float64{kept}, len(q)), slices.Repeat([]float64{kept}, int(rows))
	for b := range c.lengths {
		for h := range c.heads {
			for i := range c.lengths[b] {
				r := c.row(c.lengths, c.heads, b, h, i)
				sum, result := 0.0, make([]float64, blockWidth)
				for j := range c.keys[b] {
					if !c.sees(b, h, i/blockQueries, j/blockKeys) {
						continue
					}
					n := c.row(c.keys, c.keyHeads, b, h*c.keyHeads/c.heads, j)
					score := 0.0
					for d := range int64(blockWidth) {
						score += q[r*blockWidth+d] * k[n*blockWidth+d] * blockScale
					}
					sum += math.Exp(score)
					for d := range int64(blockWidth) {
						result[d] += math.Exp(score) * v[n*blockWidth+d]
					}
				}
				if sum == 0 {
					continue
				}
				lse[r] = math.Log(sum)
				for d := range result {
					out[r*blockWidth+int64(d)] = result[d] / sum
				}
			}
		}
	}
	return out, lse
}

func (c blockCase) args(t *testing.T) optest.Args {
	q, k := c.shape(c.lengths, c.heads, blockWidth), c.shape(c.keys, c.keyHeads, blockWidth)
	a := optest.Args{
		"query": optest.Filled(t, 1, c.dt, c.tensors, q), "key": optest.Filled(t, 2, c.dt, c.tensors, k), "value": optest.Filled(t, 3, c.dt, c.tensors, k),
		"qInputLayout": c.layout, "kvInputLayout": c.layout, "numKeyValueHeads": c.keyHeads, "scaleValue": blockScale,
	}
	if !c.whole {
		a["actualSeqLengthsOptional"], a["actualSeqLengthsKvOptional"] = c.lengths, c.keys
	}
	return a
}

// run runs an operator on the chip that has the layout.
func (c blockCase) run(t *testing.T, name string, a optest.Args) {
	if c.layout != "BSND" {
		optest.Run(t, name, a)
		return
	}
	if _, ok := a["innerPrecise"]; ok {
		a["innerPrecise"] = 4
	}
	optest.RunOn(t, acceptance.Ascend950, name, a)
}

// filledWith returns a tensor of one number.
func filledWith(t *testing.T, d dtype.Type, l kerneltest.Layout, shape []int64, v float64) *op.Tensor {
	x := optest.TensorIn(t, d, l, shape)
	optest.Fill(x, v)
	return x
}

func TestBlockSparseAttention(t *testing.T) {
	for n, c := range blockCases(true) {
		a := c.args(t)
		shape, mask := c.mask()
		out, lse := filledWith(t, c.dt, c.tensors, c.shape(c.lengths, c.heads, blockWidth), 7), filledWith(t, dtype.Float32, c.tensors, c.shape(c.lengths, c.heads, 1), 7)
		a = a.With(optest.Args{
			"blockSparseMaskOptional": optest.Tensor(t, dtype.Int8, shape, mask...), "blockShapeOptional": []int64{blockQueries, blockKeys}, "innerPrecise": 0,
			"preTokens": math.MaxInt32, "nextTokens": math.MaxInt32, "softmaxLseFlag": 1, "attentionOut": out, "softmaxLseOptional": lse,
		})
		c.run(t, []string{"BlockSparseAttention", "BlockSparseAttentionV2", "BlockSparseAttentionV3"}[n%3], a)
		get := valuesOf(a)
		want, sums := c.define(get("query"), get("key"), get("value"), 7)
		optest.CloseTo(t, fmt.Sprintf("out %+v", c), want, get("attentionOut"), optest.ResultLimit(c.dt))
		optest.CloseTo(t, fmt.Sprintf("lse %+v", c), sums, get("softmaxLseOptional"), optest.ResultLimit(dtype.Float32))
	}
}

func TestRainFusionAttention(t *testing.T) {
	for _, c := range blockCases(true) {
		if c.layout == "BSND" || c.heads == 3 {
			continue
		}
		a := c.args(t)
		a["actualSeqLengthsOptional"], a["actualSeqLengthsKvOptional"] = c.lengths, c.keys
		var index, counts []float64
		most, blocks := (c.space(c.keys)+blockKeys-1)/blockKeys, int64(0)
		for b, n := range c.lengths {
			for x := range (n + blockQueries - 1) / blockQueries {
				blocks++
				for h := range c.heads {
					row := []float64{}
					for y := range (c.keys[b] + blockKeys - 1) / blockKeys {
						if c.sees(b, h, x, y) {
							row = append(row, float64(y))
						}
					}
					counts = append(counts, float64(len(row)))
					index = append(append(index, row...), slices.Repeat([]float64{-1}, int(most)-len(row))...)
				}
			}
		}
		a = a.With(optest.Args{
			"selectIdx": optest.TensorIn(t, dtype.Int64, c.tensors, []int64{blocks, c.heads, most}, index...), "selectNumIdx": optest.TensorIn(t, dtype.Int64, c.tensors, []int64{blocks, c.heads}, counts...),
			"blockShape": []int64{blockQueries, blockKeys}, "attentionOut": filledWith(t, c.dt, c.tensors, c.shape(c.lengths, c.heads, blockWidth), 7),
		})
		optest.Run(t, "RainFusionAttention", a)
		get := valuesOf(a)
		want, _ := c.define(get("query"), get("key"), get("value"), 7)
		optest.CloseTo(t, fmt.Sprintf("out %+v", c), want, get("attentionOut"), optest.ResultLimit(c.dt))
	}
	c := blockCase{dtype.Float16, kerneltest.Contiguous, "BNSD", []int64{3}, []int64{8}, false, 1, 1}
	x := func(d dtype.Type, shape ...int64) *op.Tensor { return optest.Tensor(t, d, shape) }
	i := dtype.Int64
	a := c.args(t).With(optest.Args{"selectIdx": optest.Tensor(t, i, []int64{1, 1, 2}, 0, 1), "selectNumIdx": optest.Tensor(t, i, []int64{1, 1}, 2), "blockShape": []int64{3, 4}, "attentionOut": x(dtype.Float16, 1, 1, 3, blockWidth)})
	for text, set := range map[string]optest.Args{
		"shape of a block":   {"blockShape": []int64{3, 0}},
		"blockShape is null": {"blockShape": nil},
		"innerPrecise is 2":  {"innerPrecise": 2},
		"layout BSND":        {"qInputLayout": "BSND", "kvInputLayout": "BSND", "query": x(dtype.Float16, 1, 3, 1, 5), "key": x(dtype.Float16, 1, 8, 1, 5), "value": x(dtype.Float16, 1, 8, 1, 5)},
		"a row for each":     {"selectIdx": x(i, 2, 1, 2)},
		"one for each row":   {"selectNumIdx": x(i, 1, 2)},
		"must be equal":      {"kvInputLayout": "TND"},
		"is given":           {"softmaxLseOptional": x(dtype.Float32, 1, 1, 3, 1)},
		"maskType is 1":      {"maskType": 1},
		"blockSize is -1":    {"blockSize": -1},
	} {
		optest.Refused(t, op.InvalidParam, "RainFusionAttention", a.With(set), text)
	}
	for text, set := range map[string]optest.Args{
		"head dimension of 5": {},
		"multiple of 128":     {"query": x(dtype.Float16, 1, 1, 3, 64), "key": x(dtype.Float16, 1, 1, 8, 64), "value": x(dtype.Float16, 1, 1, 8, 64), "attentionOut": x(dtype.Float16, 1, 1, 3, 64)},
	} {
		_, err := optest.PrepareIn(t, op.Env{Tiled: true}, "RainFusionAttention", a.With(set))
		require.ErrorContains(t, err, text)
	}
	huge := a.With(optest.Args{"blockShape": []int64{math.MaxInt64, math.MaxInt64 - 127}, "selectIdx": optest.Tensor(t, i, []int64{1, 1, 1}, 0), "selectNumIdx": optest.Tensor(t, i, []int64{1, 1}, 1)})
	optest.Run(t, "RainFusionAttention", huge) // a block of all queries and keys
	out := optest.Values(huge["attentionOut"].(*op.Tensor))
	optest.Run(t, "RainFusionAttention", a)
	require.Equal(t, out, optest.Values(a["attentionOut"].(*op.Tensor)))
	optest.Refused(t, tilingFailed, "RainFusionAttention", a.With(optest.Args{"actualSeqLengthsOptional": nil, "actualSeqLengthsKvOptional": nil}), "needs them")
	optest.Refused(t, op.NullPointer, "RainFusionAttention", a.With(optest.Args{"selectIdx": nil}), "selectIdx is null")
	for _, index := range [][]float64{{1, 0}, {0, 2}, {-1, 0}} {
		require.ErrorContains(t, optest.Execute(t, "RainFusionAttention", a.With(optest.Args{"selectIdx": optest.Tensor(t, i, []int64{1, 1, 2}, index...)})), "they must ascend")
	}
	require.ErrorContains(t, optest.Execute(t, "RainFusionAttention", a.With(optest.Args{"selectNumIdx": optest.Tensor(t, i, []int64{1, 1}, 3)})), "selectNumIdx has 3")
}

// TestBlockSparseGrad compares with difference quotients of the definition.
func TestBlockSparseGrad(t *testing.T) {
	for _, c := range append(blockCases(false), blockCase{dtype.Float16, kerneltest.Contiguous, "BSND", []int64{6, 1}, []int64{9, 8}, true, 4, 2}) {
		a := c.args(t)
		if c.layout == "BSND" { // of which the Ascend950 takes each sequence whole, also if lengths are given
			c.lengths, c.keys = []int64{6, 6}, []int64{9, 9}
		}
		get := valuesOf(a)
		out, lse := c.define(get("query"), get("key"), get("value"), 0)
		shape, mask := c.mask()
		q, k := c.shape(c.lengths, c.heads, blockWidth), c.shape(c.keys, c.keyHeads, blockWidth)
		a = a.With(optest.Args{
			"dout": optest.Filled(t, 4, c.dt, c.tensors, q), "attentionOut": optest.TensorIn(t, c.dt, c.tensors, q, out...), "softmaxLse": optest.TensorIn(t, dtype.Float32, c.tensors, c.shape(c.lengths, c.heads, 1), lse...),
			"blockSparseMaskOptional": optest.Tensor(t, []dtype.Type{dtype.Bool, dtype.Uint8}[len(c.lengths)%2], shape, mask...), "blockShapeOptional": []int64{blockQueries, blockKeys},
			"preTokens": math.MaxInt32, "nextTokens": math.MaxInt32, "dq": optest.TensorIn(t, c.dt, c.tensors, q), "dk": optest.TensorIn(t, c.dt, c.tensors, k), "dv": optest.TensorIn(t, c.dt, c.tensors, k),
		})
		c.run(t, "BlockSparseAttentionGrad", a)
		got := valuesOf(a)
		for i, name := range []string{"query", "key", "value"} {
			f := func(x []float64) []float64 {
				v := [][]float64{get("query"), get("key"), get("value")}
				v[i] = x
				y, _ := c.define(v[0], v[1], v[2], 0)
				return y
			}
			result := []string{"dq", "dk", "dv"}[i]
			optest.CloseTo(t, fmt.Sprintf("%s %+v", result, c), optest.Gradient(f, got("dout"), get(name)), got(result), 4*optest.ResultLimit(c.dt))
		}
	}
}

func TestBlockSparseRefuses(t *testing.T) {
	const name = "BlockSparseAttentionV3"
	h, f := dtype.Float16, dtype.Float32
	x := func(d dtype.Type, shape ...int64) *op.Tensor { return optest.Tensor(t, d, shape) }
	a := optest.Args{
		"query": x(h, 2, 4, 300, 64), "key": x(h, 2, 2, 200, 64), "value": x(h, 2, 2, 200, 64), "qInputLayout": "BNSD", "kvInputLayout": "BNSD", "numKeyValueHeads": 2, "scaleValue": 0.1,
		"blockSparseMaskOptional": x(dtype.Int8, 2, 4, 3, 2), "preTokens": math.MaxInt32, "nextTokens": math.MaxInt32, "attentionOut": x(h, 2, 4, 300, 64),
	}
	tiled := func(chip acceptance.Chip, set optest.Args) error {
		_, err := optest.PrepareIn(t, op.Env{Tiled: true, Chip: chip}, name, a.With(set))
		return err
	}
	require.NoError(t, tiled(acceptance.Ascend910B, nil))
	require.NoError(t, tiled(acceptance.Ascend910B, optest.Args{"blockShapeOptional": []int64{100, 128}}))
	require.ErrorContains(t, tiled(acceptance.Ascend910B, optest.Args{"blockShapeOptional": []int64{100, 100}}), "multiple of 128")
	require.ErrorContains(t, tiled(acceptance.Ascend950, nil), "innerPrecise is 0")
	require.ErrorContains(t, tiled(acceptance.Ascend950, optest.Args{"innerPrecise": 4, "blockShapeOptional": []int64{100, 100}}), "multiple of 16")
	narrow := optest.Args{"query": x(h, 2, 4, 300, 32), "key": x(h, 2, 2, 200, 32), "value": x(h, 2, 2, 200, 32), "attentionOut": x(h, 2, 4, 300, 32)}
	require.ErrorContains(t, tiled(acceptance.Ascend910B, narrow), "use one of [64 128]")
	for text, set := range map[string]optest.Args{
		"innerPrecise is 3":  {"innerPrecise": 3},
		"must be equal, and": {"kvInputLayout": "TND"},
		"is \"BNDS\"":        {"qInputLayout": "BNDS", "kvInputLayout": "BNDS"},
		"shape of a block":   {"blockShapeOptional": []int64{128}},
		"of a block is":      {"blockShapeOptional": []int64{0, 128}},
		"4 to 4":             {"blockSparseMaskOptional": x(dtype.Int8, 4, 3, 2)},
		"dtypes differ":      {"key": x(dtype.BFloat16, 2, 2, 200, 64)},
		"not supported; use": {"query": x(f, 2, 4, 300, 64)},
		"maskType is 2":      {"maskType": 2},
	} {
		optest.Refused(t, op.InvalidParam, name, a.With(set), text)
	}
	for text, set := range map[string]optest.Args{
		"must have 3 dimensions":   {"qInputLayout": "TND", "kvInputLayout": "TND"},
		"numKeyValueHeads 3":       {"numKeyValueHeads": 3},
		"as many sequences":        {"key": x(h, 1, 2, 200, 64), "value": x(h, 1, 2, 200, 64)},
		"both lengths":             {"actualSeqLengthsOptional": []int64{300, 2}},
		"up to 300":                {"actualSeqLengthsOptional": []int64{301, 2}, "actualSeqLengthsKvOptional": []int64{1, 2}},
		"is given":                 {"attenMaskOptional": x(dtype.Int8, 300, 200)},
		"is given;":                {"pQuantScaleOptional": x(f, 1)},
		"quantMode is 1":           {"quantMode": 1},
		"innerPrecise is 4":        {"innerPrecise": 4},
		"blockSize is 128":         {"blockSize": 128},
		"preTokens is 3":           {"preTokens": 3},
		"blockSparseMask is null":  {"blockSparseMaskOptional": nil},
		"must have shape":          {"blockSparseMaskOptional": x(dtype.Int8, 2, 4, 2, 2)},
		"softmaxLseFlag is 2":      {"softmaxLseFlag": 2},
		"on the Ascend950 only":    {"qInputLayout": "BSND", "kvInputLayout": "BSND", "numKeyValueHeads": 2, "query": x(h, 2, 300, 4, 64), "key": x(h, 2, 200, 2, 64), "value": x(h, 2, 200, 2, 64)},
		"TND needs them":           {"qInputLayout": "TND", "kvInputLayout": "TND", "query": x(h, 300, 4, 64), "key": x(h, 200, 2, 64), "value": x(h, 200, 2, 64)},
		"[9223372036854775807,":    {"qInputLayout": "TND", "kvInputLayout": "TND", "query": x(h, 300, 4, 64), "key": x(h, 200, 2, 64), "value": x(h, 200, 2, 64), "actualSeqLengthsOptional": []int64{math.MaxInt64, math.MaxInt64, 302}, "actualSeqLengthsKvOptional": []int64{100, 100, 0}},
		"with sums of 300 and 200": {"qInputLayout": "TND", "kvInputLayout": "TND", "query": x(h, 300, 4, 64), "key": x(h, 200, 2, 64), "value": x(h, 200, 2, 64), "actualSeqLengthsOptional": []int64{100, 300}, "actualSeqLengthsKvOptional": []int64{100, 100}},
	} {
		optest.Refused(t, tilingFailed, name, a.With(set), text)
	}
	for _, missing := range []string{"query", "key", "value", "qInputLayout", "attentionOut"} {
		optest.Refused(t, op.NullPointer, name, a.With(optest.Args{missing: nil}), missing+" is null")
	}
	optest.Refused(t, op.NullPointer, name, a.With(optest.Args{"softmaxLseFlag": 1}), "softmaxLseOptional is null")
	const grad = "BlockSparseAttentionGrad"
	whole := x(h, 2, 4, 300, 128)
	a = optest.Args{
		"query": whole, "key": x(h, 2, 4, 200, 128), "value": x(h, 2, 4, 200, 128), "dout": whole, "attentionOut": whole, "softmaxLse": x(f, 2, 4, 300, 1), "qInputLayout": "BNSD", "kvInputLayout": "BNSD", "numKeyValueHeads": 4,
		"blockSparseMaskOptional": x(dtype.Bool, 2, 4, 3, 2), "blockShapeOptional": []int64{128, 128}, "preTokens": math.MaxInt32, "nextTokens": math.MaxInt32, "dq": x(h, 2, 4, 300, 128), "dk": x(h, 2, 4, 200, 128), "dv": x(h, 2, 4, 200, 128),
	}
	for _, set := range []optest.Args{{}, {"softmaxLse": x(f, 2, 4, 300)}, {"blockShapeOptional": []int64{100, 64}, "blockSparseMaskOptional": x(dtype.Bool, 2, 4, 3, 4)}} {
		_, err := optest.PrepareIn(t, op.Env{Tiled: true}, grad, a.With(set))
		require.NoError(t, err)
	}
	for text, blocks := range map[string][]int64{"100 queries; it must have a multiple of 64": {100, 64}, "100 keys; it must have a multiple of 64": {64, 100}} {
		set := optest.Args{"blockShapeOptional": blocks, "blockSparseMaskOptional": x(dtype.Bool, 2, 4, (300+blocks[0]-1)/blocks[0], (200+blocks[1]-1)/blocks[1])}
		_, err := optest.PrepareIn(t, op.Env{Tiled: true, Chip: acceptance.Ascend950}, grad, a.With(set))
		require.ErrorContains(t, err, text)
	}
	for text, set := range map[string]optest.Args{
		"preTokens is 3":    {"preTokens": 3},
		"is given":          {"attenMaskOptional": x(dtype.Uint8, 300, 200)},
		"a number for each": {"softmaxLse": x(f, 2, 4, 299)},
		"shapes differ":     {"dk": x(h, 2, 4, 300, 128)},
		"dtype":             {"blockSparseMaskOptional": x(dtype.Int8, 2, 4, 3, 2)},
	} {
		optest.Refused(t, op.InvalidParam, grad, a.With(set), text)
	}
	optest.Refused(t, tilingFailed, grad, a.With(optest.Args{"numKeyValueHeads": 2, "key": x(h, 2, 2, 200, 128), "value": x(h, 2, 2, 200, 128), "dk": x(h, 2, 2, 200, 128), "dv": x(h, 2, 2, 200, 128)}), "as many heads")
	optest.Refused(t, op.NullPointer, grad, a.With(optest.Args{"blockShapeOptional": nil}), "blockShapeOptional is null")
	optest.Refused(t, op.NullPointer, grad, a.With(optest.Args{"softmaxLse": nil}), "softmaxLse is null")
}

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

// indexedCase is a batch of queries and keys in one of the layouts.
type indexedCase struct {
	dt            dtype.Type
	query, key    string // layouts
	queries, keys []int64
	heads         int64
	causal        bool
}

const indexedPage = 16

// pages returns the pages of each sequence; they are not in order.
func (c indexedCase) pages() (table [][]int64, most int64) {
	n := int64(0)
	for _, k := range c.keys {
		most = max(most, (k+indexedPage-1)/indexedPage)
	}
	for range c.keys {
		row := make([]int64, most)
		for i := range row {
			row[i] = n
			n++
		}
		slices.Reverse(row)
		table = append(table, row)
	}
	return table, most
}

// shape returns the shape of tokens of a layout, and their places in its rows.
func (c indexedCase) shape(layout string, lengths []int64, heads, dim int64) (shape []int64, place func(b int, i int64) int64) {
	switch layout {
	case "TND":
		return []int64{op.Total(lengths), heads, dim}, func(b int, i int64) int64 { return op.Total(lengths[:b]) + i }
	case "PA_BSND":
		table, most := c.pages()
		return []int64{int64(len(lengths)) * most, indexedPage, heads, dim}, func(b int, i int64) int64 { return table[b][i/indexedPage]*indexedPage + i%indexedPage }
	}
	longest := slices.Max(lengths)
	return []int64{int64(len(lengths)), longest, heads, dim}, func(b int, i int64) int64 { return int64(b)*longest + i }
}

// args makes the arguments that the operators share. keyLengths and layout are the names of those of the keys.
func (c indexedCase) args(t *testing.T, dim int64, keyLengths, layout string) optest.Args {
	q, _ := c.shape(c.query, c.queries, c.heads, dim)
	k, _ := c.shape(c.key, c.keys, 1, dim)
	lengths := func(name string, n []int64) *op.Tensor {
		if name == "TND" {
			n = ends(n)
		}
		return optest.Tensor(t, dtype.Int32, []int64{int64(len(n))}, optest.Floats(n)...)
	}
	a := optest.Args{
		"query": optest.Filled(t, 1, c.dt, kerneltest.Contiguous, q), "key": optest.Filled(t, 2, c.dt, kerneltest.Contiguous, k),
		"actualSeqLengthsQueryOptional": lengths(c.query, c.queries), keyLengths: lengths(c.key, c.keys),
		"layoutQueryOptional": c.query, layout: c.key, "preTokens": math.MaxInt64, "nextTokens": math.MaxInt64,
	}
	if c.causal {
		a["sparseMode"] = 3
	}
	if c.key == "PA_BSND" {
		table, most := c.pages()
		a["blockTableOptional"] = optest.Tensor(t, dtype.Int32, []int64{int64(len(table)), most}, optest.Floats(slices.Concat(table...))...)
	}
	return a
}

var indexedCases = []indexedCase{
	{query: "BSND", key: "BSND", queries: []int64{3, 1}, keys: []int64{9, 4}, heads: 4},
	{query: "BSND", key: "BSND", queries: []int64{5}, keys: []int64{5}, heads: 1, causal: true},
	{query: "TND", key: "TND", queries: []int64{2, 0, 4}, keys: []int64{7, 3, 5}, heads: 2, causal: true},
	{query: "TND", key: "TND", queries: []int64{3}, keys: []int64{11}, heads: 8},
	{query: "BSND", key: "PA_BSND", queries: []int64{1, 2}, keys: []int64{19, 5}, heads: 2, causal: true},
	{query: "TND", key: "PA_BSND", queries: []int64{1, 3}, keys: []int64{33, 17}, heads: 4},
}

// seen returns how many keys a query sees.
func (c indexedCase) seen(b int, i int64) int64 {
	if c.causal {
		return max(0, c.keys[b]-c.queries[b]+i+1)
	}
	return c.keys[b]
}

// TestLightningIndexer compares scores with the definition in float64: the values are those of the chosen keys, in falling
// order, and no key that was left out has a larger one.
func TestLightningIndexer(t *testing.T) {
	const dim = 128
	for _, c := range indexedCases {
		for _, dt := range []dtype.Type{dtype.Float16, dtype.BFloat16} {
			for _, wt := range []dtype.Type{dt, dtype.Float32} {
				for _, count := range []int64{1, 6, 40} {
					c.dt = dt
					a := c.args(t, dim, "actualSeqLengthsKeyOptional", "layoutKeyOptional")
					q, at := c.shape(c.query, c.queries, c.heads, dim)
					_, keyAt := c.shape(c.key, c.keys, 1, dim)
					rows := q[:len(q)-2]
					weights := optest.Filled(t, 3, wt, kerneltest.Contiguous, append(slices.Clone(rows), c.heads))
					shape := append(slices.Clone(rows), 1, count)
					out, values := optest.Tensor(t, dtype.Int32, shape), optest.Tensor(t, dt, shape)
					a["weights"], a["sparseCount"], a["sparseIndicesOut"] = weights, count, out
					if c.key != "PA_BSND" {
						a["returnValues"], a["sparseValuesOut"] = true, values
					}
					optest.Run(t, "LightningIndexer", a)
					query, key, w := optest.Values(a["query"].(*op.Tensor)), optest.Values(a["key"].(*op.Tensor)), optest.Values(weights)
					got, gotValues := optest.Values(out), optest.Values(values)
					for b, n := range c.queries {
						for i := range n {
							row := at(b, i)
							scores := make([]float64, c.seen(b, i))
							for j := range scores {
								for h := range c.heads {
									product := 0.0
									for d := range int64(dim) {
										product += query[(row*c.heads+h)*dim+d] * key[keyAt(b, int64(j))*dim+d]
									}
									scores[j] += w[row*c.heads+h] * max(product, 0)
								}
							}
							want := slices.Clone(scores)
							slices.SortFunc(want, func(x, y float64) int { return -cmpFloat(x, y) })
							chosen := got[row*count:][:count]
							var of []float64
							used := map[float64]bool{}
							for n, j := range chosen {
								if n >= len(scores) {
									require.Equal(t, -1.0, j)
									if c.key != "PA_BSND" {
										require.True(t, math.IsInf(gotValues[row*count+int64(n)], -1))
									}
									continue
								}
								require.False(t, used[j], "%v twice", j)
								used[j] = true
								of = append(of, scores[int(j)])
							}
							what := fmt.Sprint(c, wt, count, b, i)
							optest.CloseTo(t, what, want[:len(of)], of, 1e-9)
							if c.key != "PA_BSND" {
								optest.CloseTo(t, "values "+what, of, gotValues[row*count:][:len(of)], optest.ResultLimit(dt))
							}
						}
					}
				}
			}
		}
	}
}

func cmpFloat(x, y float64) int {
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}

// TestSparseFlashAttention compares with the definition in float64, over blocks of one and of two keys, with queries that see
// nothing, and with sinks.
func TestSparseFlashAttention(t *testing.T) {
	const dim, rope = 512, 64
	for _, c := range indexedCases {
		for _, dt := range []dtype.Type{dtype.Float16, dtype.BFloat16} {
			for _, block := range []int64{1, 2} {
				for _, sinks := range []bool{false, true} {
					const count = 5
					c.dt = dt
					a := c.args(t, dim, "actualSeqLengthsKvOptional", "layoutKvOptional")
					q, at := c.shape(c.query, c.queries, c.heads, dim)
					k, keyAt := c.shape(c.key, c.keys, 1, dim)
					rows := q[:len(q)-2]
					with := func(shape []int64, n int64) []int64 { return append(slices.Clone(shape[:len(shape)-1]), n) }
					chosen := make([]float64, optest.Elements(rows)*count)
					for i := range chosen {
						chosen[i] = -1
					}
					for b, n := range c.queries {
						for i := range n {
							row := chosen[at(b, i)*count:][:count]
							for j := range row { // in no order, without repetition, fewer for later queries
								if blocks := (c.keys[b] + block - 1) / block; int64(j) < min(blocks, count-i) {
									row[j] = float64((2*int64(j) + i) % max(blocks|1, 1))
									if row[j] >= float64(blocks) {
										row[j] = float64(blocks - 1)
									}
								}
							}
							slices.Sort(row)
							kept := slices.Compact(slices.DeleteFunc(slices.Clone(row), func(x float64) bool { return x < 0 }))
							for j := range row {
								row[j] = -1
							}
							copy(row, kept)
						}
					}
					stats := append(slices.Clone(rows), c.heads)
					if c.query == "TND" {
						stats = append([]int64{1}, stats...)
					} else {
						stats = []int64{q[0], 1, q[1], c.heads}
					}
					out, top, sum := optest.Tensor(t, dt, q), optest.Tensor(t, dtype.Float32, stats), optest.Tensor(t, dtype.Float32, stats)
					for name, x := range map[string]any{
						"value": optest.Filled(t, 3, dt, kerneltest.Contiguous, k), "queryRopeOptional": optest.Filled(t, 4, dt, kerneltest.Contiguous, with(q, rope)),
						"keyRopeOptional": optest.Filled(t, 5, dt, kerneltest.Contiguous, with(k, rope)), "sparseIndices": optest.Tensor(t, dtype.Int32, append(slices.Clone(rows), 1, count), chosen...),
						"scaleValue": 0.05, "sparseBlockSizeOptional": block, "attentionMode": 2, "attentionOut": out,
					} {
						a[name] = x
					}
					if c.key != "PA_BSND" {
						a["returnSoftmaxLse"], a["softmaxMax"], a["softmaxSum"] = true, top, sum
					}
					name, extra := "SparseFlashAttention", []float64(nil)
					if sinks {
						name, extra = "SparseFlashAttentionV2", optest.Normal(6, dtype.Float32, c.heads)
						a["sinksOptional"] = optest.Tensor(t, dtype.Float32, []int64{c.heads}, extra...)
					}
					optest.Run(t, name, a)
					get := func(name string) []float64 { return optest.Values(a[name].(*op.Tensor)) }
					query, key, value, queryRope, keyRope := get("query"), get("key"), get("value"), get("queryRopeOptional"), get("keyRopeOptional")
					want, wantTop, wantSum := make([]float64, optest.Elements(q)), make([]float64, optest.Elements(stats)), make([]float64, optest.Elements(stats))
					for b, n := range c.queries {
						for i := range n {
							for h := range c.heads {
								row := at(b, i)*c.heads + h
								score := map[int64]float64{}
								highest := -math.MaxFloat32
								if sinks {
									highest = extra[h]
								}
								for _, first := range chosen[at(b, i)*count:][:count] {
									for j := int64(first) * block; first >= 0 && j < (int64(first)+1)*block && j < c.seen(b, i); j++ {
										s := 0.0
										for d := range int64(dim) {
											s += query[row*dim+d] * key[keyAt(b, j)*dim+d]
										}
										for d := range int64(rope) {
											s += queryRope[row*rope+d] * keyRope[keyAt(b, j)*rope+d]
										}
										score[j] = 0.05 * s
										highest = max(highest, score[j])
									}
								}
								total := 0.0
								if sinks {
									total = math.Exp(extra[h] - highest)
								}
								for _, s := range score {
									total += math.Exp(s - highest)
								}
								for j, s := range score {
									for d := range int64(dim) {
										want[row*dim+d] += math.Exp(s-highest) / total * value[keyAt(b, j)*dim+d]
									}
								}
								wantTop[row], wantSum[row] = highest, total
							}
						}
					}
					what := fmt.Sprint(name, c, block)
					optest.CloseTo(t, what, want, optest.Values(out), optest.ResultLimit(dt))
					if c.key != "PA_BSND" {
						optest.CloseTo(t, "max "+what, wantTop, optest.Values(top), 1e-5)
						optest.CloseTo(t, "sum "+what, wantSum, optest.Values(sum), 1e-5)
					}
				}
			}
		}
	}
}

func TestIndexedRefuses(t *testing.T) {
	c := indexedCase{dt: dtype.BFloat16, query: "BSND", key: "BSND", queries: []int64{2}, keys: []int64{3}, heads: 2}
	a := c.args(t, 128, "actualSeqLengthsKeyOptional", "layoutKeyOptional")
	x := func(d dtype.Type, shape ...int64) *op.Tensor { return optest.Tensor(t, d, shape) }
	a["weights"], a["sparseCount"], a["sparseIndicesOut"] = x(dtype.BFloat16, 1, 2, 2), 4, x(dtype.Int32, 1, 2, 1, 4)
	for text, set := range map[string]optest.Args{
		"layoutQuery is":        {"layoutQueryOptional": "BNSD"},
		"must be equal, or":     {"layoutQueryOptional": "TND", "query": x(dtype.BFloat16, 2, 2, 128)},
		"mode of the mask is 4": {"sparseMode": 4},
		"preTokens is 7":        {"preTokens": 7},
		"2049 keys":             {"sparseCount": 2049, "sparseIndicesOut": x(dtype.Int32, 1, 2, 1, 2049)},
		"sparseCount keys":      {"sparseCount": 3},
		"must have 1 head":      {"key": x(dtype.BFloat16, 1, 3, 2, 128)},
		"must be given for PA":  {"blockTableOptional": x(dtype.Int32, 1, 1)},
		"head dimension of 128": {"query": x(dtype.BFloat16, 1, 2, 2, 64), "key": x(dtype.BFloat16, 1, 3, 1, 64)},
	} {
		optest.Refused(t, op.InvalidParam, "LightningIndexer", a.With(set), text)
	}
	optest.Refused(t, op.NullPointer, "LightningIndexer", a.With(optest.Args{"weights": nil}), "weights is null")
	require.ErrorContains(t, optest.Execute(t, "LightningIndexer", a.With(optest.Args{"actualSeqLengthsKeyOptional": optest.Tensor(t, dtype.Int32, []int64{1}, 4)})), "4 keys")
}

// bestScores checks that the keys of each query that out lists are different, in falling order of their scores, and that none left
// out has a larger one. score returns the scores of the keys that query i of sequence b sees.
func bestScores(t *testing.T, what string, c indexedCase, at func(b int, i int64) int64, out []float64, count int64, score func(b int, i int64) []float64) {
	for b, n := range c.queries {
		for i := range n {
			scores, chosen := score(b, i), out[at(b, i)*count:][:count]
			want := slices.Clone(scores)
			slices.SortFunc(want, func(x, y float64) int { return -cmpFloat(x, y) })
			var of []float64
			used := map[float64]bool{}
			for n, j := range chosen {
				if n >= len(scores) {
					require.Equal(t, -1.0, j, what)
					continue
				}
				require.False(t, used[j], "%v twice in %s", j, what)
				used[j] = true
				of = append(of, scores[int(j)])
			}
			optest.CloseTo(t, what, want[:len(of)], of, 1e-9)
		}
	}
}

// TestCompressedIndexer: LightningIndexerV2 over keys that stand for several tokens, of which some have none yet.
func TestCompressedIndexer(t *testing.T) {
	const dim = 128
	for n, c := range indexedCases {
		for _, dt := range op.HalfTypes {
			for _, ratio := range []int64{1, 4} {
				count := []int64{1, 6, 40}[n%3]
				c.dt = dt
				a := c.args(t, dim, "keys", "layoutK")
				q, at := c.shape(c.query, c.queries, c.heads, dim)
				_, keyAt := c.shape(c.key, c.keys, 1, dim)
				shape := append(slices.Clone(q[:len(q)-2]), 1, count)
				out, values := optest.Tensor(t, dtype.Int32, shape), optest.Tensor(t, dtype.Float32, shape)
				v := optest.Args{
					"q": a["query"], "k": a["key"], "w": optest.Filled(t, 3, dtype.Float32, kerneltest.Contiguous, q[:len(q)-1]), "topk": count, "maxSeqlenQ": -1, "layoutQ": c.query, "layoutK": c.key, "cmpRatio": ratio,
					"blockTableOptional": a["blockTableOptional"], "returnValue": 1, "sparseIndices": out, "sparseValues": values,
				}
				leading := func(n []int64) *op.Tensor {
					n = append([]int64{0}, ends(n)...)
					return optest.Tensor(t, dtype.Int32, []int64{int64(len(n))}, optest.Floats(n)...)
				}
				queries, keys := c.queries, c.keys
				if c.query == "TND" {
					v["cuSeqlensQOptional"] = leading(c.queries)
				} else {
					queries = slices.Repeat([]int64{q[1]}, len(c.queries))
				}
				switch c.key {
				case "TND":
					v["cuSeqlensKOptional"] = leading(c.keys)
				case "PA_BSND":
					v["layoutK"], v["sequsedKOptional"] = "PA_BBND", a["keys"]
				default:
					keys = slices.Repeat([]int64{slices.Max(c.keys)}, len(c.keys))
				}
				residual := make([]int64, len(keys))
				if c.causal {
					v["maskMode"] = 3
				}
				if c.causal && ratio > 1 {
					for b := range residual {
						residual[b] = int64(3-b) % ratio
					}
					v["cmpResidualKOptional"] = optest.Tensor(t, dtype.Int32, []int64{int64(len(residual))}, optest.Floats(residual)...)
				}
				for name, x := range v {
					if x == nil {
						delete(v, name)
					}
				}
				optest.Run(t, "LightningIndexerV2", v)
				get, d := valuesOf(v), c
				d.queries = queries
				var got []float64
				what := fmt.Sprint(c, ratio)
				bestScores(t, what, d, at, get("sparseIndices"), count, func(b int, i int64) []float64 {
					seen := keys[b]
					if c.causal { // the last token that key j stands for has number (j+1)·ratio−1
						seen = 0
						for seen < keys[b] && (seen+1)*ratio-1 <= keys[b]*ratio+residual[b]-queries[b]+i {
							seen++
						}
					}
					var rows []int64
					for j := range seen {
						rows = append(rows, keyAt(b, j))
					}
					scores := scored(get("q"), get("k"), get("w"), c.heads, at(b, i), rows)
					for n, j := range get("sparseIndices")[at(b, i)*count:][:count] {
						if value := get("sparseValues")[at(b, i)*count+int64(n)]; j >= 0 {
							got = append(got, value-scores[int(j)])
						} else {
							require.True(t, math.IsInf(value, -1), what)
						}
					}
					return scores
				})
				optest.CloseTo(t, "values "+what, make([]float64, len(got)), got, 1e-4)
			}
		}
	}
	x := func(d dtype.Type, shape ...int64) *op.Tensor { return optest.Tensor(t, d, shape) }
	f, i := dtype.Float16, dtype.Int32
	a := optest.Args{"q": x(f, 1, 2, 4, 128), "k": x(f, 1, 3, 1, 128), "w": x(dtype.Float32, 1, 2, 4), "topk": 2, "maxSeqlenQ": -1, "layoutQ": "BSND", "layoutK": "BSND", "cmpRatio": 1, "sparseIndices": x(i, 1, 2, 1, 2)}
	for text, set := range map[string]optest.Args{
		"cmpRatio is 129":          {"cmpRatio": 129},
		"cmpRatio is 2":            {"cmpRatio": 2, "maskMode": 3},
		"use BSND, TND or PA_BBND": {"layoutK": "PA_BSND"},
		"sequsedQOptional":         {"sequsedQOptional": x(i, 1)},
		"for pages only":           {"sequsedKOptional": x(i, 1)},
		"returnValue is 2":         {"returnValue": 2},
		"dtype":                    {"w": x(f, 1, 2, 4)},
		"3000 keys":                {"topk": 3000, "sparseIndices": x(i, 1, 2, 1, 3000)},
	} {
		optest.Refused(t, op.InvalidParam, "LightningIndexerV2", a.With(set), text)
	}
	optest.Refused(t, op.NullPointer, "LightningIndexerV2", a.With(optest.Args{"returnValue": 1}), "sparseValues is null")
	a = a.With(optest.Args{"cmpRatio": 2, "maskMode": 3, "cmpResidualKOptional": optest.Tensor(t, i, []int64{1}, 2)})
	require.ErrorContains(t, optest.Execute(t, "LightningIndexerV2", a), "a key stands for 2 tokens")
}

// TestQuantIndexer: QuantLightningIndexer, with scales for each head and token.
func TestQuantIndexer(t *testing.T) {
	const dim = 128
	for _, c := range indexedCases {
		for _, heads := range []int64{5, 16, 24} {
			for _, count := range []int64{1, 6, 40} {
				c.dt, c.heads = dtype.Float16, heads
				a := c.args(t, dim, "actualSeqLengthsKeyOptional", "layoutKeyOptional")
				q, at := c.shape(c.query, c.queries, heads, dim)
				k, keyAt := c.shape(c.key, c.keys, 1, dim)
				for name, shape := range map[string][]int64{"query": q, "key": k} {
					a[name] = optest.Tensor(t, dtype.Int8, shape, optest.Int8s(len(name), int(optest.Elements(shape)))...)
				}
				scale := func(seed uint64, shape []int64) *op.Tensor {
					v := optest.Normal(seed, dtype.Float16, optest.Elements(shape))
					for i := range v {
						v[i] = math.Abs(v[i]) / 64
					}
					return optest.Tensor(t, dtype.Float16, shape, v...)
				}
				a["weights"], a["queryDequantScale"], a["keyDequantScale"] = optest.Filled(t, 3, dtype.Float16, kerneltest.Contiguous, q[:len(q)-1]), scale(4, q[:len(q)-1]), scale(5, k[:len(k)-1])
				a["sparseCount"], a["out"] = count, optest.Tensor(t, dtype.Int32, append(slices.Clone(q[:len(q)-2]), 1, count))
				optest.Run(t, "QuantLightningIndexer", a)
				get := valuesOf(a)
				bestScores(t, fmt.Sprint(c, count), c, at, get("out"), count, func(b int, i int64) (scores []float64) {
					for j := range c.seen(b, i) {
						s := 0.0
						for h := range heads {
							product, row := 0.0, at(b, i)*heads+h
							for d := range int64(dim) {
								product += get("query")[row*dim+d] * get("key")[keyAt(b, j)*dim+d]
							}
							s += get("weights")[row] * max(0, product*get("queryDequantScale")[row]*get("keyDequantScale")[keyAt(b, j)])
						}
						scores = append(scores, s)
					}
					return scores
				})
			}
		}
	}
	x := func(d dtype.Type, shape ...int64) *op.Tensor { return optest.Tensor(t, d, shape) }
	f, b := dtype.Float16, dtype.Int8
	a := optest.Args{"query": x(b, 1, 2, 16, 128), "key": x(b, 1, 3, 1, 128), "weights": x(f, 1, 2, 16), "queryDequantScale": x(f, 1, 2, 16), "keyDequantScale": x(f, 1, 3, 1), "preTokens": math.MaxInt64, "nextTokens": math.MaxInt64, "sparseCount": 2, "out": x(dtype.Int32, 1, 2, 1, 2)}
	for text, set := range map[string]optest.Args{
		"keyQuantMode is 1": {"keyQuantMode": 1},
		"one for each key":  {"keyDequantScale": x(f, 1, 3)},
		"up to 64 heads":    {"query": x(b, 1, 2, 65, 128), "weights": x(f, 1, 2, 65), "queryDequantScale": x(f, 1, 2, 65)},
		"dtype":             {"query": x(f, 1, 2, 16, 128)},
		"sparseCount 2049":  {"sparseCount": 2049, "out": x(dtype.Int32, 1, 2, 1, 2049)},
	} {
		optest.Refused(t, op.InvalidParam, "QuantLightningIndexer", a.With(set), text)
	}
	odd := a.With(optest.Args{"query": x(b, 1, 2, 3, 128), "weights": x(f, 1, 2, 3), "queryDequantScale": x(f, 1, 2, 3)})
	optest.Run(t, "QuantLightningIndexer", odd)
	_, err := optest.PrepareIn(t, op.Env{Chip: acceptance.Ascend950}, "QuantLightningIndexer", odd)
	require.ErrorContains(t, err, "on the Ascend950 8, 16, 24, 32 or 64")
}

// TestCompressedQuantIndexer: QuantLightningIndexerV2, whose keys stand for several tokens each; pages on the 910B, other layouts and
// values on the Ascend950.
func TestCompressedQuantIndexer(t *testing.T) {
	const dim = 128
	for n, c := range indexedCases {
		for _, heads := range []int64{3, 64} {
			for _, ratio := range []int64{1, 4} {
				count := []int64{1, 6, 40}[n%3]
				c.dt, c.heads = dtype.Float16, heads
				a := c.args(t, dim, "keys", "layoutK")
				q, at := c.shape(c.query, c.queries, heads, dim)
				k, keyAt := c.shape(c.key, c.keys, 1, dim)
				scale := func(seed uint64, shape []int64) *op.Tensor {
					v := optest.Normal(seed, dtype.Float16, optest.Elements(shape))
					for i := range v {
						v[i] = math.Abs(v[i]) / 64
					}
					return optest.Tensor(t, dtype.Float16, shape, v...)
				}
				shape := append(slices.Clone(q[:len(q)-2]), 1, count)
				v := optest.Args{
					"query": optest.Tensor(t, dtype.Int8, q, optest.Int8s(1, int(optest.Elements(q)))...), "key": optest.Tensor(t, dtype.Int8, k, optest.Int8s(2, int(optest.Elements(k)))...),
					"weights": optest.Filled(t, 3, dtype.Float16, kerneltest.Contiguous, q[:len(q)-1]), "queryDequantScale": scale(4, q[:len(q)-1]), "keyDequantScale": scale(5, k[:len(k)-1]), "metadataOptional": optest.Tensor(t, dtype.Int32, []int64{1024}),
					"topk": count, "quantMode": 2, "maxSeqlenQOptional": -1, "layoutQOptional": c.query, "layoutKOptional": c.key, "cmpRatioOptional": ratio, "sparseIndicesOut": optest.Tensor(t, dtype.Int32, shape),
				}
				leading := func(n []int64) *op.Tensor {
					n = append([]int64{0}, ends(n)...)
					return optest.Tensor(t, dtype.Int32, []int64{int64(len(n))}, optest.Floats(n)...)
				}
				d, keys := c, c.keys
				if c.query == "TND" {
					v["cuSeqLensQOptional"] = leading(c.queries)
				} else {
					d.queries = slices.Repeat([]int64{q[1]}, len(c.queries))
				}
				residual := make([]int64, len(keys))
				if c.causal {
					v["maskModeOptional"] = 3
				}
				if c.causal && ratio > 1 {
					for b := range residual {
						residual[b] = int64(3-b) % ratio
					}
					v["cmpResidualKOptional"] = optest.Tensor(t, dtype.Int32, []int64{int64(len(residual))}, optest.Floats(residual)...)
				}
				if c.key == "PA_BSND" {
					v["sequsedKOptional"], v["blockTableOptional"] = a["keys"], a["blockTableOptional"]
					optest.Run(t, "QuantLightningIndexerV2", v)
				} else {
					if c.key == "TND" {
						v["cuSeqLensKOptional"] = leading(c.keys)
					} else {
						keys = slices.Repeat([]int64{slices.Max(c.keys)}, len(c.keys))
					}
					v["returnValueOptional"], v["sparseValuesOut"] = 1, optest.Tensor(t, dtype.BFloat16, shape)
					optest.RunOn(t, acceptance.Ascend950, "QuantLightningIndexerV2", v)
				}
				get, what := valuesOf(v), fmt.Sprint(c, heads, ratio)
				var want, got []float64
				bestScores(t, what, d, at, get("sparseIndicesOut"), count, func(b int, i int64) (scores []float64) {
					for j := range keys[b] { // the last token that key j stands for has number (j+1)·ratio−1
						if c.causal && (j+1)*ratio-1 > keys[b]*ratio+residual[b]-d.queries[b]+i {
							break
						}
						s := 0.0
						for h := range heads {
							product, row := 0.0, at(b, i)*heads+h
							for e := range int64(dim) {
								product += get("query")[row*dim+e] * get("key")[keyAt(b, j)*dim+e]
							}
							s += get("weights")[row] * max(0, product*get("queryDequantScale")[row]*get("keyDequantScale")[keyAt(b, j)])
						}
						scores = append(scores, s)
					}
					if v["sparseValuesOut"] != nil {
						for n, j := range get("sparseIndicesOut")[at(b, i)*count:][:count] {
							if value := get("sparseValuesOut")[at(b, i)*count+int64(n)]; j >= 0 {
								want, got = append(want, scores[int(j)]), append(got, value)
							} else {
								require.True(t, math.IsInf(value, -1), what)
							}
						}
					}
					return scores
				})
				optest.CloseTo(t, "values "+what, want, got, optest.ResultLimit(dtype.BFloat16))
			}
		}
	}
	x := func(d dtype.Type, shape ...int64) *op.Tensor { return optest.Tensor(t, d, shape) }
	f, b, i := dtype.Float16, dtype.Int8, dtype.Int32
	a := optest.Args{
		"query": x(b, 1, 2, 64, 128), "key": x(b, 2, 16, 1, 128), "weights": x(f, 1, 2, 64), "queryDequantScale": x(f, 1, 2, 64), "keyDequantScale": x(f, 2, 16, 1), "metadataOptional": x(i, 1024), "topk": 2, "quantMode": 2, "layoutQOptional": "BSND", "layoutKOptional": "PA_BSND",
		"cmpRatioOptional": 1, "sequsedKOptional": optest.Tensor(t, i, []int64{1}, 3), "blockTableOptional": x(i, 1, 2), "sparseIndicesOut": x(i, 1, 2, 1, 2),
	}
	for text, set := range map[string]optest.Args{
		"quantMode is 1":         {"quantMode": 1},
		"on this chip use PA_BS": {"layoutKOptional": "BSND"},
		"a power of two":         {"cmpRatioOptional": 3},
		"cmpResidualK is null":   {"cmpRatioOptional": 2, "maskModeOptional": 3},
		"returnValue is 1":       {"returnValueOptional": 1},
		"what QuantLightning":    {"metadataOptional": x(i, 512)},
		"one for each key":       {"keyDequantScale": x(f, 2, 16)},
		"topk keys":              {"topk": 3},
		"is given":               {"outputIdxOffsetOptional": x(i, 1, 2, 1)},
		"from 1 to 2048":         {"topk": 4096, "sparseIndicesOut": x(i, 1, 2, 1, 4096)},
	} {
		optest.Refused(t, op.InvalidParam, "QuantLightningIndexerV2", a.With(set), text)
	}
	optest.Refused(t, op.NullPointer, "QuantLightningIndexerV2", a.With(optest.Args{"metadataOptional": nil}), "metadataOptional is null")
	few := a.With(optest.Args{"query": x(b, 1, 2, 32, 128), "weights": x(f, 1, 2, 32), "queryDequantScale": x(f, 1, 2, 32)})
	_, err := optest.PrepareIn(t, op.Env{Tiled: true}, "QuantLightningIndexerV2", few)
	require.ErrorContains(t, err, "64 heads")
	_, err = optest.PrepareIn(t, op.Env{Tiled: true}, "QuantLightningIndexerV2", a)
	require.NoError(t, err)
}

package attention

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// learnedCase are sequences whose queries and keys an indexer scores: packed, or of the same lengths.
type learnedCase struct {
	packed        bool
	queries, keys []int64
	heads         int64 // of the indexer
	causal        bool
}

var learnedCases = []learnedCase{
	{queries: []int64{1}, keys: []int64{2}, heads: 8, causal: true},
	{queries: []int64{2, 2}, keys: []int64{3, 3}, heads: 8, causal: true},
	{packed: true, queries: []int64{2, 1}, keys: []int64{2, 3}, heads: 8, causal: true},
	{packed: true, queries: []int64{1}, keys: []int64{4}, heads: 16, causal: true},
}

func (c learnedCase) shape(lengths []int64, rest ...int64) []int64 {
	if c.packed {
		return append([]int64{op.Total(lengths)}, rest...)
	}
	return append([]int64{int64(len(lengths)), lengths[0]}, rest...)
}

func (c learnedCase) layout() string {
	if c.packed {
		return "TND"
	}
	return "BSND"
}

// each calls f for each query: its row, its place in statistics of [B,N,S] or [N,T] with n heads, and the rows of the keys that it sees.
func (c learnedCase) each(f func(row int64, stat func(head, heads int64) int64, keys []int64)) {
	row, first := int64(0), int64(0)
	for b, n := range c.queries {
		for i := range n {
			seen := c.keys[b]
			if c.causal {
				seen += i + 1 - n
			}
			var keys []int64
			for j := range seen {
				keys = append(keys, first+j)
			}
			at := row
			f(row, func(head, heads int64) int64 {
				if c.packed {
					return head*op.Total(c.queries) + at
				}
				return (int64(b)*heads+head)*n + i
			}, keys)
			row++
		}
		first += c.keys[b]
	}
}

// scored is the definition of the scores of an indexer with heads of 128 elements.
func scored(query, key, weights []float64, heads, row int64, keys []int64) (scores []float64) {
	for _, k := range keys {
		s := 0.0
		for h := range heads {
			product := 0.0
			for d := range int64(128) {
				product += query[(row*heads+h)*128+d] * key[k*128+d]
			}
			s += weights[row*heads+h] * max(product, 0)
		}
		scores = append(scores, s)
	}
	return scores
}

// pick returns those keys that a list of indices of keys of the sequence names, of which it makes one for a query.
func pick(row int64, keys []int64, count int) (indices []float64, chosen []int64) {
	indices = make([]float64, count)
	for i := range indices {
		indices[i] = -1
	}
	for n := range min(len(keys), 2+int(row)%2) { // in another order, and not all
		j := (n*2 + 1) % len(keys)
		if slices.Contains(chosen, keys[j]) {
			continue
		}
		indices[len(chosen)] = float64(j)
		chosen = append(chosen, keys[j])
	}
	return indices, chosen
}

func TestLightningIndexerGrad(t *testing.T) {
	for _, c := range append([]learnedCase{{queries: []int64{2, 2}, keys: []int64{3, 3}, heads: 3}, {packed: true, queries: []int64{1, 2}, keys: []int64{5, 2}, heads: 1}}, learnedCases...) {
		for _, dt := range op.HalfTypes {
			for _, l := range kerneltest.Layouts {
				const count = 6
				var indices []float64
				picked := map[int64][]int64{}
				c.each(func(row int64, _ func(int64, int64) int64, keys []int64) {
					list, chosen := pick(row, keys, count)
					indices, picked[row] = append(indices, list...), chosen
				})
				q, k, w := c.shape(c.queries, c.heads, 128), c.shape(c.keys, 1, 128), c.shape(c.queries, c.heads)
				a := optest.Args{
					"query": optest.Filled(t, 1, dt, l, q), "key": optest.Filled(t, 2, dt, l, k), "weights": optest.Filled(t, 3, dt, l, w), "dy": optest.Filled(t, 4, dt, l, c.shape(c.queries, count)),
					"sparseIndices": optest.Tensor(t, dtype.Int32, c.shape(c.queries, count), indices...), "headNum": c.heads, "inputLayout": c.layout(), "preTokens": math.MaxInt64, "nextTokens": math.MaxInt64,
					"dqOut": optest.TensorIn(t, dt, l, q), "dkOut": optest.TensorIn(t, dt, l, k), "dweightsOut": optest.TensorIn(t, dt, l, w),
				}
				if c.causal {
					a["sparseMode"] = 3
				}
				if c.packed {
					a["actualSeqQLenOptional"] = optest.Tensor(t, dtype.Int32, []int64{int64(len(c.queries))}, optest.Floats(ends(c.queries))...)
					a["actualSeqKvLenOptional"] = optest.Tensor(t, dtype.Int32, []int64{int64(len(c.keys))}, optest.Floats(ends(c.keys))...)
				}
				optest.Run(t, "LightningIndexerGrad", a)
				get := valuesOf(a)
				values := func(query, key, weights []float64) []float64 {
					y := make([]float64, len(get("dy")))
					c.each(func(row int64, _ func(int64, int64) int64, _ []int64) {
						copy(y[row*count:], scored(query, key, weights, c.heads, row, picked[row]))
					})
					return y
				}
				what, limit := fmt.Sprint(c, dt, l), max(4*optest.ResultLimit(dt), 1e-5)
				vq, vk, vw := get("query"), get("key"), get("weights")
				optest.CloseTo(t, "dq "+what, optest.Gradient(func(v []float64) []float64 { return values(v, vk, vw) }, get("dy"), vq), get("dqOut"), limit)
				optest.CloseTo(t, "dk "+what, optest.Gradient(func(v []float64) []float64 { return values(vq, v, vw) }, get("dy"), vk), get("dkOut"), limit)
				optest.CloseTo(t, "dw "+what, optest.Gradient(func(v []float64) []float64 { return values(vq, vk, v) }, get("dy"), vw), get("dweightsOut"), limit)
			}
		}
	}
	x := func(d dtype.Type, shape ...int64) *op.Tensor { return optest.Tensor(t, d, shape) }
	f := dtype.Float16
	a := optest.Args{
		"query": x(f, 1, 2, 8, 128), "key": x(f, 1, 3, 1, 128), "dy": x(f, 1, 2, 4), "sparseIndices": x(dtype.Int32, 1, 2, 4), "weights": x(f, 1, 2, 8), "headNum": 8, "inputLayout": "BSND",
		"dqOut": x(f, 1, 2, 8, 128), "dkOut": x(f, 1, 3, 1, 128), "dweightsOut": x(f, 1, 2, 8),
	}
	for text, set := range map[string]optest.Args{
		"sparseMode is 2":           {"sparseMode": 2},
		"use BSND or TND":           {"inputLayout": "BNSD"},
		"want headNum":              {"headNum": 4},
		"preTokens is 2":            {"preTokens": 2, "nextTokens": math.MaxInt64},
		"nextTokens -1":             {"preTokens": math.MaxInt64, "nextTokens": -1},
		"a gradient for each value": {"dy": x(f, 1, 2, 3)},
		"as many sequences":         {"key": x(f, 2, 3, 1, 128), "dkOut": x(f, 2, 3, 1, 128)},
		"the chosen keys":           {"sparseIndices": x(dtype.Int32, 1, 3, 4)},
	} {
		optest.Refused(t, op.TilingRefused, "LightningIndexerGrad", a.With(set), text)
	}
	optest.Refused(t, op.InvalidParam, "LightningIndexerGrad", a.With(optest.Args{"dy": x(dtype.BFloat16, 1, 2, 4)}), "dtypes differ")
	optest.Refused(t, op.NullPointer, "LightningIndexerGrad", a.With(optest.Args{"weights": nil}), "weights is null")
}

// headProbabilities are the probabilities of attention: of the keys of a query, for each head, in float64.
func headProbabilities(query, key, queryRope, keyRope []float64, heads, keyHeads, dim, row, head int64, keys []int64, scale float64) (p []float64, top, sum float64) {
	own := head % keyHeads
	for _, k := range keys {
		s := 0.0
		for d := range dim {
			s += query[(row*heads+head)*dim+d] * key[(k*keyHeads+own)*dim+d]
		}
		for d := range int64(64) {
			if queryRope != nil {
				s += queryRope[(row*heads+head)*64+d] * keyRope[(k*keyHeads+own)*64+d]
			}
		}
		p = append(p, s*scale)
	}
	top = slices.Max(p)
	for _, s := range p {
		sum += math.Exp(s - top)
	}
	for i, s := range p {
		p[i] = math.Exp(s-top) / sum
	}
	return p, top, sum
}

func TestSparseFlashAttentionGrad(t *testing.T) {
	const dim, count, scale = 512, 1024, 0.05
	for n, c := range append([]learnedCase{{queries: []int64{1}, keys: []int64{2}, heads: 1}}, learnedCases...) {
		c.heads = []int64{1, 2, 1, 2, 1}[n]
		for m, dt := range op.HalfTypes {
			for _, merged := range []bool{false, true} {
				l, rope, block := kerneltest.Layouts[(n+m)%len(kerneltest.Layouts)], n != 1, 1
				if n == 3 {
					block = 8 // one block has all keys
				}
				var indices []float64
				picked := map[int64][]int64{}
				c.each(func(row int64, _ func(int64, int64) int64, keys []int64) {
					list, chosen := pick(row, keys, count)
					if block > 1 {
						list, chosen = append([]float64{0}, slices.Repeat([]float64{-1}, count-1)...), keys
					}
					indices, picked[row] = append(indices, list...), chosen
				})
				q, k, qr, kr := c.shape(c.queries, c.heads, dim), c.shape(c.keys, 1, dim), c.shape(c.queries, c.heads, 64), c.shape(c.keys, 1, 64)
				stats := []int64{int64(len(c.queries)), 1, c.queries[0], c.heads}
				if c.packed {
					stats = []int64{1, op.Total(c.queries), c.heads}
				}
				a := optest.Args{
					"query": optest.Filled(t, 1, dt, l, q), "key": optest.Filled(t, 2, dt, l, k), "value": optest.Filled(t, 3, dt, l, k), "dOut": optest.Filled(t, 4, dt, l, q),
					"sparseIndices": optest.Tensor(t, dtype.Int32, c.shape(c.queries, 1, count), indices...), "scaleValue": scale, "sparseBlockSize": block, "layoutOptional": c.layout(),
					"preTokens": math.MaxInt32, "nextTokens": math.MaxInt32, "dQueryOut": optest.TensorIn(t, dt, l, q), "dKeyOut": optest.TensorIn(t, dt, l, k), "dValueOut": optest.TensorIn(t, dt, l, k),
				}
				if c.causal {
					a["sparseMode"] = 3
				}
				if rope {
					a["queryRopeOptional"], a["keyRopeOptional"] = optest.Filled(t, 5, dt, l, qr), optest.Filled(t, 6, dt, l, kr)
					a["dQueryRopeOutOptional"], a["dKeyRopeOutOptional"] = optest.TensorIn(t, dt, l, qr), optest.TensorIn(t, dt, l, kr)
				}
				if c.packed {
					a["actualSeqLengthsQueryOptional"] = optest.Tensor(t, dtype.Int32, []int64{int64(len(c.queries))}, optest.Floats(ends(c.queries))...)
					a["actualSeqLengthsKvOptional"] = optest.Tensor(t, dtype.Int32, []int64{int64(len(c.keys))}, optest.Floats(ends(c.keys))...)
				}
				inputs := [][]float64{optest.Values(a["query"].(*op.Tensor)), optest.Values(a["key"].(*op.Tensor)), optest.Values(a["value"].(*op.Tensor)), nil, nil}
				if rope {
					inputs[3], inputs[4] = optest.Values(a["queryRopeOptional"].(*op.Tensor)), optest.Values(a["keyRopeOptional"].(*op.Tensor))
				}
				if merged {
					delete(a, "value")
					delete(a, "dValueOut")
					inputs[2] = nil
				}
				tops, sums := make([]float64, optest.Elements(stats)), make([]float64, optest.Elements(stats))
				forward := func(v [][]float64) []float64 {
					y := make([]float64, len(inputs[0]))
					value := v[2]
					if merged {
						value = v[1]
					}
					c.each(func(row int64, _ func(int64, int64) int64, _ []int64) {
						for h := range c.heads {
							p, top, sum := headProbabilities(v[0], v[1], v[3], v[4], c.heads, 1, dim, row, h, picked[row], scale)
							tops[row*c.heads+h], sums[row*c.heads+h] = top, sum
							for n, k := range picked[row] {
								for d := range int64(dim) {
									y[(row*c.heads+h)*dim+d] += p[n] * value[k*dim+d]
								}
							}
						}
					})
					return y
				}
				out := forward(inputs)
				a["out"] = optest.TensorIn(t, dt, l, q, out...)
				a["softmaxMax"], a["softmaxSum"] = optest.TensorIn(t, dtype.Float32, l, stats, tops...), optest.TensorIn(t, dtype.Float32, l, stats, sums...)
				optest.Run(t, "SparseFlashAttentionGrad", a)
				get := valuesOf(a)
				for i, name := range []string{"dQueryOut", "dKeyOut", "dValueOut", "dQueryRopeOutOptional", "dKeyRopeOutOptional"} {
					if inputs[i] == nil {
						continue
					}
					of := func(v []float64) []float64 {
						all := slices.Clone(inputs)
						all[i] = v
						return forward(all)
					}
					// The result that the gradient is given is rounded to 16 bits.
					optest.CloseTo(t, fmt.Sprint(name, c, dt, l, merged), optest.Gradient(of, get("dOut"), inputs[i]), get(name), 8*optest.ResultLimit(dt))
				}
			}
		}
	}
	x := func(d dtype.Type, shape ...int64) *op.Tensor { return optest.Tensor(t, d, shape) }
	f := dtype.Float16
	a := optest.Args{
		"query": x(f, 1, 1, 2, 512), "key": x(f, 1, 2, 1, 512), "value": x(f, 1, 2, 1, 512), "sparseIndices": x(dtype.Int32, 1, 1, 1, 1024), "dOut": x(f, 1, 1, 2, 512), "out": x(f, 1, 1, 2, 512),
		"softmaxMax": x(dtype.Float32, 1, 1, 1, 2), "softmaxSum": x(dtype.Float32, 1, 1, 1, 2), "sparseBlockSize": 1, "layoutOptional": "BSND", "preTokens": math.MaxInt32, "nextTokens": math.MaxInt32,
		"dQueryOut": x(f, 1, 1, 2, 512), "dKeyOut": x(f, 1, 2, 1, 512), "dValueOut": x(f, 1, 2, 1, 512),
	}
	for text, set := range map[string]optest.Args{
		"sparseBlockSize is 2":        {"sparseBlockSize": 2},
		"preTokens is 5":              {"preTokens": 5},
		"multiple of 1024 up to 8192": {"sparseIndices": x(dtype.Int32, 1, 1, 1, 1000)},
		"both be given":               {"queryRopeOptional": x(f, 1, 1, 2, 64)},
		"a number for each query":     {"softmaxSum": x(dtype.Float32, 1, 2, 1, 1)},
		"sparseMode is 1":             {"sparseMode": 1},
	} {
		optest.Refused(t, op.TilingRefused, "SparseFlashAttentionGrad", a.With(set), text)
	}
	optest.Refused(t, op.NullPointer, "SparseFlashAttentionGrad", a.With(optest.Args{"dValueOut": nil}), "dValueOut is null")
}

// TestIndexerLearns: the loss of an indexer, its gradients, and the sums that the dense form takes.
func TestIndexerLearns(t *testing.T) {
	const heads, scale = 32, 0.05
	for n, c := range learnedCases {
		for m, dt := range op.HalfTypes {
			for _, sparse := range []bool{false, true} {
				for _, wt := range []dtype.Type{dt, dtype.Float32} {
					rope, count := n != 2, 1024
					keyHeads, dim, name := int64(heads), int64(128), "DenseLightningIndexerGradKLLoss"
					if sparse {
						keyHeads, dim, name = 1, 512, "SparseLightningIndexerGradKLLoss"
					}
					l := kerneltest.Layouts[(n+m)%len(kerneltest.Layouts)]
					q, k, w := c.shape(c.queries, c.heads, 128), c.shape(c.keys, 1, 128), c.shape(c.queries, c.heads)
					a := optest.Args{
						"query": optest.Filled(t, 1, dt, l, c.shape(c.queries, heads, dim)), "key": optest.Filled(t, 2, dt, l, c.shape(c.keys, keyHeads, dim)), "scaleValue": scale, "layout": c.layout(), "sparseMode": 3,
						"queryIndex": optest.Filled(t, 3, dt, l, q), "keyIndex": optest.Filled(t, 4, dt, l, k), "dQueryIndex": optest.TensorIn(t, dt, l, q), "dKeyIndex": optest.TensorIn(t, dt, l, k),
						"dWeights": optest.TensorIn(t, wt, l, w), "loss": optest.Tensor(t, dtype.Float32, []int64{1}),
					}
					small := optest.Filled(t, 5, wt, l, w)
					v := optest.Values(small)
					for i := range v {
						v[i] /= 16
					}
					a["weights"] = optest.TensorIn(t, wt, l, w, v...)
					var qr, kr []float64
					if rope {
						a["queryRope"], a["keyRope"] = optest.Filled(t, 6, dt, l, c.shape(c.queries, heads, 64)), optest.Filled(t, 7, dt, l, c.shape(c.keys, keyHeads, 64))
						qr, kr = optest.Values(a["queryRope"].(*op.Tensor)), optest.Values(a["keyRope"].(*op.Tensor))
					}
					for _, window := range []string{"preTokens", "nextTokens", "pre_tokens", "next_tokens"} {
						if (window[3] == '_' || window[4] == '_') == sparse {
							a[window] = math.MaxInt64
						}
					}
					if c.packed {
						a["actualSeqLengthsQuery"], a["actualSeqLengthsKey"] = ends(c.queries), ends(c.keys)
					}
					stats, one := append([]int64{int64(len(c.queries)), keyHeads, c.queries[0]}, heads/keyHeads), []int64{int64(len(c.queries)), 1, c.queries[0]}
					if c.packed {
						stats, one = []int64{keyHeads, op.Total(c.queries), heads / keyHeads}, []int64{1, op.Total(c.queries)}
					}
					tops, sums := make([]float64, optest.Elements(stats)), make([]float64, optest.Elements(stats))
					targets, picked := map[int64][]float64{}, map[int64][]int64{}
					var indices []float64
					c.each(func(row int64, stat func(head, heads int64) int64, keys []int64) {
						if sparse {
							var list []float64
							list, keys = pick(row, keys, count)
							indices = append(indices, list...)
						}
						picked[row] = keys
						target, all := make([]float64, len(keys)), 0.0
						for h := range int64(heads) {
							p, top, sum := headProbabilities(optest.Values(a["query"].(*op.Tensor)), optest.Values(a["key"].(*op.Tensor)), qr, kr, heads, keyHeads, dim, row, h, keys, scale)
							at := stat(h, heads)
							if sparse {
								at = row*heads + h
							}
							tops[at], sums[at] = top, sum
							for i, x := range p {
								target[i] += x
								all += x
							}
						}
						for i := range target {
							target[i] /= all
						}
						targets[row] = target
					})
					a["softmaxMax"], a["softmaxSum"] = optest.Tensor(t, dtype.Float32, stats, tops...), optest.Tensor(t, dtype.Float32, stats, sums...)
					what := fmt.Sprint(name, c, dt, wt, l)
					if sparse {
						a["sparseIndices"] = optest.Tensor(t, dtype.Int32, c.shape(c.queries, 1, int64(count)), indices...)
					} else {
						top, sum := optest.Tensor(t, dtype.Float32, one), optest.Tensor(t, dtype.Float32, one)
						lengths := optest.Args{}
						if c.packed {
							lengths = optest.Args{"actualSeqLengthsQueryOptional": ends(c.queries), "actualSeqLengthsKeyOptional": ends(c.keys)}
						}
						optest.Run(t, "DenseLightningIndexerSoftmaxLse", lengths.With(optest.Args{
							"queryIndex": a["queryIndex"], "keyIndex": a["keyIndex"], "weight": a["weights"], "layoutOptional": c.layout(), "sparseMode": 3, "preTokens": math.MaxInt64, "nextTokens": math.MaxInt64,
							"softmaxMaxOut": top, "softmaxSumOut": sum,
						}))
						get, wantTop, wantSum := valuesOf(a), make([]float64, top.Len()), make([]float64, top.Len())
						c.each(func(row int64, stat func(head, heads int64) int64, keys []int64) {
							scores := scored(get("queryIndex"), get("keyIndex"), get("weights"), c.heads, row, keys)
							wantTop[stat(0, 1)] = slices.Max(scores)
							for _, s := range scores {
								wantSum[stat(0, 1)] += math.Exp(s - slices.Max(scores))
							}
						})
						optest.CloseTo(t, "maximum "+what, wantTop, optest.Values(top), 1e-5)
						optest.CloseTo(t, "sum "+what, wantSum, optest.Values(sum), 1e-5)
						a["softmaxMaxIndex"], a["softmaxSumIndex"] = optest.Tensor(t, dtype.Float32, one, wantTop...), optest.Tensor(t, dtype.Float32, one, wantSum...)
					}
					optest.Run(t, name, a)
					get := valuesOf(a)
					loss := func(query, key, weights []float64) []float64 {
						all := 0.0
						c.each(func(row int64, _ func(int64, int64) int64, _ []int64) {
							for i, own := range optest.Softmax(scored(query, key, weights, c.heads, row, picked[row]), len(picked[row])) {
								if p := targets[row][i]; p > 0 {
									all += p * math.Log(p/own)
								}
							}
						})
						return []float64{all}
					}
					vq, vk, vw := get("queryIndex"), get("keyIndex"), get("weights")
					limit := max(8*optest.ResultLimit(dt), 1e-4)
					optest.CloseTo(t, "loss "+what, loss(vq, vk, vw), get("loss"), 1e-4)
					optest.CloseTo(t, "dq "+what, optest.Gradient(func(v []float64) []float64 { return loss(v, vk, vw) }, []float64{1}, vq), get("dQueryIndex"), limit)
					optest.CloseTo(t, "dk "+what, optest.Gradient(func(v []float64) []float64 { return loss(vq, v, vw) }, []float64{1}, vk), get("dKeyIndex"), limit)
					optest.CloseTo(t, "dw "+what, optest.Gradient(func(v []float64) []float64 { return loss(vq, vk, v) }, []float64{1}, vw), get("dWeights"), limit)
				}
			}
		}
	}
	x := func(d dtype.Type, shape ...int64) *op.Tensor { return optest.Tensor(t, d, shape) }
	f, s := dtype.Float16, dtype.Float32
	sums := optest.Args{"queryIndex": x(f, 1, 2, 8, 128), "keyIndex": x(f, 1, 3, 1, 128), "weight": x(f, 1, 2, 8), "layoutOptional": "BSND", "sparseMode": 3, "preTokens": math.MaxInt64, "nextTokens": math.MaxInt64, "softmaxMaxOut": x(s, 1, 1, 2), "softmaxSumOut": x(s, 1, 1, 2)}
	for text, set := range map[string]optest.Args{
		"sparseMode is 0":         {"sparseMode": 0},
		"8, 16, 32 or 64 heads":   {"queryIndex": x(f, 1, 2, 4, 128), "weight": x(f, 1, 2, 4)},
		"a number for each query": {"softmaxSumOut": x(s, 1, 2)},
		"for 1 sequences":         {"actualSeqLengthsQueryOptional": []int64{1, 2}},
	} {
		optest.Refused(t, op.TilingRefused, "DenseLightningIndexerSoftmaxLse", sums.With(set), text)
	}
	require.ErrorContains(t, optest.Execute(t, "DenseLightningIndexerSoftmaxLse", sums.With(optest.Args{"actualSeqLengthsKeyOptional": []int64{1}})), "a key for each query")
	whole := optest.Args{
		"query": x(f, 1, 1, 32, 512), "key": x(f, 1, 2, 1, 512), "queryIndex": x(f, 1, 1, 8, 128), "keyIndex": x(f, 1, 2, 1, 128), "weights": x(f, 1, 1, 8), "sparseIndices": x(dtype.Int32, 1, 1, 1, 1024),
		"softmaxMax": x(s, 1, 1, 1, 32), "softmaxSum": x(s, 1, 1, 1, 32), "layout": "BSND", "sparseMode": 3, "pre_tokens": math.MaxInt64, "next_tokens": math.MaxInt64,
		"dQueryIndex": x(f, 1, 1, 8, 128), "dKeyIndex": x(f, 1, 2, 1, 128), "dWeights": x(f, 1, 1, 8), "loss": x(s, 1),
	}
	for text, set := range map[string]optest.Args{
		"32, 64 or 128 heads":     {"query": x(f, 1, 1, 16, 512), "softmaxMax": x(s, 1, 1, 1, 16), "softmaxSum": x(s, 1, 1, 1, 16)},
		"the tokens of keyIndex":  {"key": x(f, 1, 2, 2, 512)},
		"a number for each query": {"softmaxMax": x(s, 1, 1, 32)},
		"a number":                {"loss": x(s, 2)},
		"multiple of 1024":        {"sparseIndices": x(dtype.Int32, 1, 1, 1, 512)},
		"both be given":           {"queryRope": x(f, 1, 1, 32, 64)},
	} {
		optest.Refused(t, op.TilingRefused, "SparseLightningIndexerGradKLLoss", whole.With(set), text)
	}
}

func TestIndexerLoss(t *testing.T) {
	for _, d := range op.FloatTypes {
		for _, l := range kerneltest.Layouts {
			for _, shape := range [][]int64{{1, 1}, {3, 7}, {2, 3, 33}} {
				for _, kind := range []string{"logits", "probs"} {
					positive := func(seed uint64) *op.Tensor {
						v := optest.Normal(seed, d, optest.Elements(shape))
						for i := range v {
							v[i] = math.Abs(v[i]) / 8
						}
						v[0] = 0
						return optest.TensorIn(t, d, l, shape, v...)
					}
					y, own, loss := positive(1), positive(2), optest.Tensor(t, d, []int64{1})
					optest.Run(t, "LightningIndexerKLLoss", optest.Args{"targetScore": y, "indexProbs": own, "eps": 1e-3, "weightType": kind, "loss": loss})
					want, width := 0.0, int(shape[len(shape)-1])
					for first := 0; first < int(y.Len()); first += width {
						row, sum := optest.Values(y)[first:first+width], 0.0
						for _, v := range row {
							sum += v
						}
						for i, v := range row {
							p := v / (sum + 1e-3)
							weight := p
							if kind == "logits" {
								weight = v
							}
							want += (math.Log(math.Max(p, 1e-3)) - math.Log(optest.Values(own)[first+i]+1e-3)) * weight
						}
					}
					optest.CloseTo(t, fmt.Sprint(d, l, shape, kind), []float64{want}, optest.Values(loss), optest.ResultLimit(d))
				}
			}
		}
	}
	x := func(shape ...int64) *op.Tensor { return optest.Tensor(t, dtype.Float32, shape) }
	a := optest.Args{"targetScore": x(2, 3), "indexProbs": x(2, 3), "eps": 1e-6, "weightType": "probs", "loss": x(1)}
	optest.Refused(t, op.InvalidParam, "LightningIndexerKLLoss", a.With(optest.Args{"weightType": "sum"}), "use logits or probs")
	optest.Refused(t, op.InvalidParam, "LightningIndexerKLLoss", a.With(optest.Args{"eps": 0.0}), "above 0")
	optest.Refused(t, op.InvalidParam, "LightningIndexerKLLoss", a.With(optest.Args{"indexProbs": x(3, 2)}), "shapes differ")
}

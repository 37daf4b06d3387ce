package attention

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// call returns the arguments of a call of the case without paging, whose result and logarithms it returns, too.
func (p *prompt) call(t *testing.T) (a optest.Args, out, lse *op.Tensor) {
	tensor := func(data []float64, heads, rows, total int64) *op.Tensor {
		return optest.Tensor(t, p.dtype, p.shape(p.layout, heads, rows, total), data...)
	}
	out = tensor([]float64{9}, p.heads, p.rows, p.totalRows)
	lse = optest.Tensor(t, dtype.Float32, []int64{p.batch, p.heads, p.rows, 1}, 9)
	if p.layout == "TND" {
		lse = optest.Tensor(t, dtype.Float32, []int64{p.totalRows, p.heads, 1}, 9)
	}
	a = optest.Args{
		"query": tensor(p.query, p.heads, p.rows, p.totalRows), "key": []*op.Tensor{tensor(p.key, p.keyHeads, p.cols, p.totalCols)}, "value": []*op.Tensor{tensor(p.value, p.keyHeads, p.cols, p.totalCols)},
		"numHeads": p.heads, "numKeyValueHeads": p.keyHeads, "scaleValue": 0.25, "inputLayout": p.layout, "attentionOut": out, "softmaxLse": lse, "softmaxLseFlag": true,
	}
	p.addLengths(hasParam(op.Find("FusedInferAttentionScoreV4")), a)
	return a, out, lse
}

// Sinks take a part of each row's probabilities, of several tokens and of one, with pages and with sequences that follow each other.
func TestInferenceSinks(t *testing.T) {
	sinks := []float64{0.5, -20, 30, 1.75}
	name := "FusedInferAttentionScoreV4"
	for _, p := range []*prompt{
		{layout: "BSH", heads: 4, keyHeads: 2, dim: 64, rows: 5, cols: 9, queryLengths: []int64{5, 3}, keyLengths: []int64{9, 4}},
		{layout: "BNSD", heads: 4, keyHeads: 1, dim: 128, rows: 1, cols: 70, queryLengths: []int64{1, 1}, keyLengths: []int64{70, 3}, block: 16},
		{layout: "TND", heads: 4, keyHeads: 4, dim: 64, rows: 6, cols: 39, queryLengths: []int64{3, 1, 2}, keyLengths: []int64{39, 20, 2}},
	} {
		p.dtype, p.sinks = dtype.BFloat16, sinks
		p.check(t, name, kerneltest.Contiguous, optest.Args{"learnableSinkOptional": optest.Tensor(t, dtype.BFloat16, []int64{4}, sinks...)})
	}
	p := &prompt{layout: "BSH", dtype: dtype.BFloat16, heads: 4, keyHeads: 2, dim: 64, rows: 5, cols: 9, queryLengths: []int64{5}, keyLengths: []int64{9}}
	p.start()
	a, _, _ := p.call(t)
	sink := optest.Tensor(t, dtype.BFloat16, []int64{4}, sinks...)
	for text, set := range map[string]optest.Args{
		"must be bfloat16 [4]":   {"learnableSinkOptional": optest.Tensor(t, dtype.Float32, []int64{4}, 1)},
		"one for each head":      {"learnableSinkOptional": optest.Tensor(t, dtype.BFloat16, []int64{3}, 1)},
		"no sinks with pseShift": {"learnableSinkOptional": sink, "kvPaddingSizeOptional": optest.Tensor(t, dtype.Int64, []int64{1}, 0)},
	} {
		optest.Refused(t, op.TilingRefused, name, a.With(set), text)
	}
	p.dim = 32
	p.start()
	b, _, _ := p.call(t)
	optest.Refused(t, op.TilingRefused, name, b.With(optest.Args{"learnableSinkOptional": sink}), "64 or 128; it is 32")
}

// Tokens at the end of their tensors give what they give at the start.
func TestInferencePadding(t *testing.T) {
	for _, layout := range []string{"BSH", "BSND", "BNSD"} {
		for _, queryPad := range []int64{-3, 0, 1} {
			for _, rows := range []int64{1, 6} {
				p := &prompt{layout: layout, dtype: dtype.Float16, heads: 4, keyHeads: 2, dim: 16, rows: rows, cols: 12, queryLengths: []int64{min(rows, 5), min(rows, 2)}, keyLengths: []int64{9, 4}}
				p.start()
				a, out, lse := p.call(t)
				want, wantLSE := p.expected(layout)
				const keyPad = 2
				// move puts a sequence's tokens behind the others, which hold what must not be read.
				move := func(data []float64, heads, tokens, pad int64, lengths []int64, rest float64) []float64 {
					moved := make([]float64, len(data))
					for i := range moved {
						moved[i] = rest
					}
					for b, n := range lengths {
						for h := range heads {
							for s := range n {
								for d := range p.dim {
									moved[p.at(layout, int64(b), h, tokens-max(pad, 0)-n+s, d, heads, tokens, 0)] = data[p.at(layout, int64(b), h, s, d, heads, tokens, 0)]
								}
							}
						}
					}
					return moved
				}
				fill := func(t *op.Tensor, data []float64) { copyInto(t, data) }
				if rows > 1 { // otherwise the padding of the query has no effect
					fill(a["query"].(*op.Tensor), move(p.query, p.heads, rows, queryPad, p.queryLengths, 100))
					want = move(want, p.heads, rows, queryPad, p.queryLengths, 0)
				}
				fill(a["key"].([]*op.Tensor)[0], move(p.key, p.keyHeads, p.cols, keyPad, p.keyLengths, 100))
				fill(a["value"].([]*op.Tensor)[0], move(p.value, p.keyHeads, p.cols, keyPad, p.keyLengths, 100))
				a["queryPaddingSizeOptional"] = optest.Tensor(t, dtype.Int64, []int64{1}, float64(queryPad))
				a["kvPaddingSizeOptional"] = optest.Tensor(t, dtype.Int64, []int64{1}, keyPad)
				name := "FusedInferAttentionScoreV4"
				optest.Run(t, name, a)
				optest.CloseTo(t, fmt.Sprintf("%s %d rows, padding %d", layout, rows, queryPad), want, optest.Values(out), 2e-3)
				if rows == 1 {
					optest.CloseTo(t, "softmaxLse", wantLSE, optest.Values(lse), 1e-4)
				}
				require.ErrorContains(t, optest.Execute(t, name, a.With(optest.Args{"kvPaddingSizeOptional": optest.Tensor(t, dtype.Int64, []int64{1}, 4)})), "does not fit")
				optest.Refused(t, op.TilingRefused, name, a.With(optest.Args{"kvPaddingSizeOptional": optest.Tensor(t, dtype.Int64, []int64{2}, 4)}), "must be int64 [1]")
				optest.Refused(t, op.TilingRefused, name, a.With(optest.Args{"sparseMode": 1, "attenMaskOptional": optest.Tensor(t, dtype.Bool, []int64{2, rows, 12}, 0)}), "which columns of a mask")
			}
		}
	}
}

// A prefix is the beginning of the keys of every sequence.
func TestInferencePrefix(t *testing.T) {
	for _, name := range []string{"FusedInferAttentionScoreV4", "FusedInferAttentionScoreV5"} {
		t.Run(name, func(t *testing.T) { testPrefix(t, name) })
	}
}

func testPrefix(t *testing.T, name string) {
	for _, layout := range []string{"BSH", "BSND", "BNSD"} {
		for _, rows := range []int64{1, 5} {
			for _, spare := range []int64{0, 3} { // tokens of the prefix that do not count
				const prefix = 6
				p := &prompt{layout: layout, dtype: dtype.BFloat16, heads: 4, keyHeads: 2, dim: 16, rows: rows, cols: prefix + 9, queryLengths: []int64{rows, min(rows, 3)}, keyLengths: []int64{prefix + 9, prefix + 4}}
				p.visible = func(b int, i, j int64) bool { return rows == 1 || j <= i+p.keyLengths[b]-p.queryLengths[b] }
				p.start()
				head := map[string][]float64{}
				for key, data := range map[string][]float64{"key": p.key, "value": p.value} {
					part := make([]float64, p.keyHeads*(prefix+spare)*p.dim)
					for h := range p.keyHeads {
						for s := range int64(prefix) {
							for d := range p.dim {
								v := data[p.at(layout, 0, h, s, d, p.keyHeads, p.cols, 0)]
								data[p.at(layout, 1, h, s, d, p.keyHeads, p.cols, 0)] = v
								part[p.at(layout, 0, h, s, d, p.keyHeads, prefix+spare, 0)] = v
							}
						}
					}
					head[key] = part
				}
				a, out, lse := p.call(t)
				want, wantLSE := p.expected(layout)
				whole := *p
				p.cols = 9
				tail := func(data []float64) []*op.Tensor {
					part := make([]float64, p.batch*p.keyHeads*p.cols*p.dim)
					for b := range p.batch {
						for h := range p.keyHeads {
							for s := range p.cols {
								for d := range p.dim {
									part[p.at(layout, b, h, s, d, p.keyHeads, p.cols, 0)] = data[whole.at(layout, b, h, s+prefix, d, p.keyHeads, whole.cols, 0)]
								}
							}
						}
					}
					return []*op.Tensor{optest.Tensor(t, p.dtype, p.shape(layout, p.keyHeads, p.cols, 0), part...)}
				}
				one := *p
				one.batch = 1
				shape := one.shape(layout, p.keyHeads, prefix+spare, 0)
				a = a.With(optest.Args{
					"key": tail(p.key), "value": tail(p.value), "actualSeqLengthsKvOptional": []int64{9, 4},
					"keySharedPrefixOptional": optest.Tensor(t, p.dtype, shape, head["key"]...), "valueSharedPrefixOptional": optest.Tensor(t, p.dtype, shape, head["value"]...),
				})
				if rows > 1 {
					a["sparseMode"], a["attenMaskOptional"] = 3, triangle(t, 2048)
				}
				if spare > 0 {
					a["actualSharedPrefixLenOptional"] = []int64{prefix}
				}
				optest.Run(t, name, a)
				optest.CloseTo(t, fmt.Sprintf("%s %d rows", layout, rows), want, optest.Values(out), 1.6e-2)
				optest.CloseTo(t, "softmaxLse", wantLSE, optest.Values(lse), 1e-4)
				optest.Refused(t, op.TilingRefused, name, a.With(optest.Args{"actualSharedPrefixLenOptional": []int64{prefix + spare + 1}}), "up to")
				optest.Refused(t, op.TilingRefused, name, a.With(optest.Args{"valueSharedPrefixOptional": nil}), "together")
				two := whole.shape(layout, p.keyHeads, prefix+spare, 0)
				optest.Refused(t, op.InvalidParam, name, a.With(optest.Args{"keySharedPrefixOptional": optest.Tensor(t, p.dtype, two, 1)}), "a batch of 1")
			}
		}
	}
}

// copyInto sets the elements of a contiguous tensor.
func copyInto(t *op.Tensor, data []float64) {
	for i, v := range data {
		kerneltest.Set(t.DType, part(t, int64(i), []int64{}, []int64{}).Data, v)
	}
}

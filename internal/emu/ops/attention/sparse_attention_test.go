package attention

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// sparseCase is a case with packed sequences of queries and keys.
type sparseCase struct {
	d                     dtype.Type
	rows, columns         []int64 // sequence ends
	heads, keyHeads       int64
	width, valueWidth     int64
	scale                 float64
	query, key, value     *op.Tensor
	out, maximum, sum, dy *op.Tensor
}

func newSparseCase(t *testing.T, d dtype.Type, rows, columns []int64, heads, keyHeads int64) *sparseCase {
	const width, valueWidth = 8, 5
	n, m := rows[len(rows)-1], columns[len(columns)-1]
	return &sparseCase{
		d: d, rows: rows, columns: columns, heads: heads, keyHeads: keyHeads, width: width, valueWidth: valueWidth, scale: .5,
		query: optest.Filled(t, 1, d, kerneltest.Contiguous, []int64{n, heads, width}), key: optest.Filled(t, 2, d, kerneltest.Contiguous, []int64{m, keyHeads, width}),
		value: optest.Filled(t, 3, d, kerneltest.Contiguous, []int64{m, keyHeads, valueWidth}), out: optest.Tensor(t, d, []int64{n, heads, valueWidth}),
		maximum: optest.Tensor(t, dtype.Float32, []int64{n, heads, 8}), sum: optest.Tensor(t, dtype.Float32, []int64{n, heads, 8}), dy: optest.Filled(t, 4, d, kerneltest.Contiguous, []int64{n, heads, valueWidth}),
	}
}

// probabilities returns the probabilities of one query head for the columns of its sequence that
// sees allows.
func (c *sparseCase) probabilities(token, head, first, n int64, sees func(column int64) bool) []float64 {
	p, total, most := make([]float64, n), 0.0, math.Inf(-1)
	q, k := optest.Values(c.query), optest.Values(c.key)
	for j := range n {
		p[j] = math.Inf(-1)
		if !sees(j) {
			continue
		}
		p[j] = 0
		for i := range c.width {
			p[j] += c.scale * q[(token*c.heads+head)*c.width+i] * k[((first+j)*c.keyHeads+head/(c.heads/c.keyHeads))*c.width+i]
		}
		most = max(most, p[j])
	}
	for j := range p {
		p[j] = math.Exp(p[j] - most)
		total += p[j]
	}
	for j := range p {
		p[j] /= total
	}
	return p
}

// attend returns the attention. If dq, dk and dv are not nil, it computes the gradients too.
func (c *sparseCase) attend(sees func(sequence int, row, head, column int64) bool, dq, dk, dv []float64) []float64 {
	out := make([]float64, c.out.Len())
	q, k, v, dy := optest.Values(c.query), optest.Values(c.key), optest.Values(c.value), optest.Values(c.dy)
	first, row0 := int64(0), int64(0)
	for s := range c.rows {
		n := c.columns[s] - first
		for token := row0; token < c.rows[s]; token++ {
			for head := range c.heads {
				keyHead := head / (c.heads / c.keyHeads)
				p := c.probabilities(token, head, first, n, func(j int64) bool { return sees(s, token-row0, keyHead, j) })
				at := (token*c.heads + head) * c.valueWidth
				var delta float64
				dp := make([]float64, n)
				for j := range n {
					of := ((first+j)*c.keyHeads + keyHead) * c.valueWidth
					for i := range c.valueWidth {
						out[at+i] += p[j] * v[of+i]
						dp[j] += dy[at+i] * v[of+i]
						if dv != nil {
							dv[of+i] += p[j] * dy[at+i]
						}
					}
					delta += p[j] * dp[j]
				}
				for j := range n {
					for i := range c.width {
						qa, ka := (token*c.heads+head)*c.width+i, ((first+j)*c.keyHeads+keyHead)*c.width+i
						if ds := p[j] * (dp[j] - delta) * c.scale; dq != nil {
							dq[qa] += ds * k[ka]
							dk[ka] += ds * q[qa]
						}
					}
				}
			}
		}
		first, row0 = c.columns[s], c.rows[s]
	}
	return out
}

func TestNsaSelectedAttention(t *testing.T) {
	for _, d := range op.HalfTypes {
		for _, mode := range []string{"all", "mask", "causal"} {
			rows, columns := []int64{3, 20}, []int64{64, 160}
			c := newSparseCase(t, d, rows, columns, 4, 2)
			// The first block is always selected, so that every token sees a column.
			const count, size = 3, 16
			chosen := make([]float64, 20*2*count)
			for i := range chosen {
				chosen[i] = []float64{0, float64(i*7%3 + 1), -1}[i%count]
			}
			blocks := optest.Tensor(t, dtype.Int32, []int64{20, 2, count}, chosen...)
			mask := optest.Tensor(t, dtype.Bool, []int64{17, 96}, 0, 0, 1)
			sees := func(s int, row, head, column int64) bool {
				token := row
				if s == 1 {
					token += 3
				}
				if !slices.Contains(chosen[(token*2+head)*count:][:count], float64(column/size)) {
					return false
				}
				switch mode {
				case "mask":
					return (row*96+column)%3 != 2
				case "causal":
					return column <= row
				}
				return true
			}
			a := optest.Args{
				"query": c.query, "key": c.key, "value": c.value, "topkIndices": blocks, "actualSeqQLenOptional": rows, "actualSeqKvLenOptional": columns, "scaleValue": c.scale,
				"headNum": 4, "inputLayout": "TND", "selectedBlockSize": size, "selectedBlockCount": count,
			}
			switch mode {
			case "mask":
				a["attenMaskOptional"] = mask
			case "causal":
				a["attenMaskOptional"], a["sparseMode"] = mask, 2
			}
			forward := a.With(optest.Args{"softmaxMaxOut": c.maximum, "softmaxSumOut": c.sum, "attentionOut": c.out})
			optest.Run(t, "NsaSelectedAttention", forward)
			dq, dk, dv := make([]float64, c.query.Len()), make([]float64, c.key.Len()), make([]float64, c.value.Len())
			optest.CloseTo(t, fmt.Sprintf("%v %s", d, mode), c.attend(sees, dq, dk, dv), optest.Values(c.out), 4*optest.ResultLimit(d))

			q, k, v := optest.Tensor(t, d, c.query.Shape), optest.Tensor(t, d, c.key.Shape), optest.Tensor(t, d, c.value.Shape)
			backward := a.With(optest.Args{"attentionOut": c.out, "attentionOutGrad": c.dy, "softmaxMax": c.maximum, "softmaxSum": c.sum, "dqOut": q, "dkOut": k, "dvOut": v})
			optest.Run(t, "NsaSelectedAttentionGrad", backward)
			for _, x := range []struct {
				name string
				want []float64
				got  *op.Tensor
			}{{"dq", dq, q}, {"dk", dk, k}, {"dv", dv, v}} {
				optest.CloseTo(t, fmt.Sprintf("%s of %v %s", x.name, d, mode), x.want, optest.Values(x.got), 16*optest.ResultLimit(d))
			}
			for text, set := range map[string]optest.Args{
				"inputLayout": {"inputLayout": "BSND"}, "headNum is 2": {"headNum": 2}, "the ends must not": {"actualSeqQLenOptional": []int64{3, 21}}, "give the ends": {"actualSeqKvLenOptional": []int64{160}},
				"selectedBlockSize is 24": {"selectedBlockSize": 24}, "the blocks for each token": {"selectedBlockCount": 4}, "sparseMode is 1": {"sparseMode": 1, "attenMaskOptional": mask},
				"longest sequences": {"sparseMode": 0, "attenMaskOptional": optest.Tensor(t, dtype.Bool, []int64{17, 95}, 0)}, "belong together": {"value": optest.Tensor(t, d, []int64{159, 2, 5}, 1)},
			} {
				optest.Refused(t, op.InvalidParam, "NsaSelectedAttention", forward.With(set), text)
				optest.Refused(t, op.InvalidParam, "NsaSelectedAttentionGrad", backward.With(set), text)
			}
			optest.Refused(t, op.NullPointer, "NsaSelectedAttention", forward.With(optest.Args{"topkIndices": nil}), "topkIndices is null")
			optest.Refused(t, op.NullPointer, "NsaSelectedAttentionGrad", backward.With(optest.Args{"dvOut": nil}), "dvOut is null")
			assert.ErrorContains(t, optest.Execute(t, "NsaSelectedAttention", forward.With(optest.Args{"topkIndices": optest.Tensor(t, dtype.Int32, blocks.Shape, 9)})), "holds block 9 for token 0")
		}
	}
}

func TestNsaCompressAttention(t *testing.T) {
	for _, d := range op.HalfTypes {
		for _, masked := range []bool{false, true} {
			rows, columns, selected := []int64{4, 9}, []int64{7, 20}, []int64{2, 6} // four strides make a block
			c := newSparseCase(t, d, rows, columns, 4, 2)
			const count, perBlock, span = 2, 4, 2
			mask, always := optest.Tensor(t, dtype.Uint8, []int64{5, 13}, 0, 0, 0, 1), optest.Tensor(t, dtype.Bool, []int64{5, 4}, 0, 0, 0, 0, 0, 1, 0)
			sees := func(_ int, row, _, column int64) bool { return !masked || (row*13+column)%4 != 3 }
			chosen := optest.Tensor(t, dtype.Int32, []int64{9, 2, count})
			a := optest.Args{
				"query": c.query, "key": c.key, "value": c.value, "actualSeqQLenOptional": rows, "actualCmpSeqKvLenOptional": columns, "actualSelSeqKvLenOptional": selected, "scaleValue": c.scale,
				"headNum": 4, "inputLayout": "TND", "sparseMode": 1, "compressBlockSize": 32, "compressStride": 16, "selectBlockSize": 64, "selectBlockCount": count,
				"softmaxMaxOut": c.maximum, "softmaxSumOut": c.sum, "attentionOutOut": c.out, "topkIndicesOut": chosen,
			}
			if masked {
				a["attenMaskOptional"], a["topkMaskOptional"] = mask, always
			}
			optest.Run(t, "NsaCompressAttention", a)
			optest.CloseTo(t, fmt.Sprintf("%v masked %v", d, masked), c.attend(sees, nil, nil, nil), optest.Values(c.out), 4*optest.ResultLimit(d))

			// The selected blocks have the highest scores, in descending order.
			first, row0 := int64(0), int64(0)
			for s := range rows {
				n := columns[s] - first
				blocks := (n + perBlock - 1) / perBlock
				for token := row0; token < rows[s]; token++ {
					for keyHead := range c.keyHeads {
						score := make([]float64, blocks)
						for head := keyHead * 2; head < keyHead*2+2; head++ {
							p := c.probabilities(token, head, first, n, func(j int64) bool { return sees(s, token-row0, keyHead, j) })
							for j := range blocks {
								for m := range int64(perBlock) {
									for k := range int64(span) {
										if at := perBlock*j - m - k; at >= 0 && at < n {
											score[j] += p[at]
										}
									}
								}
							}
						}
						for j := range blocks {
							if masked && optest.Values(always)[(token-row0)*4+j] != 0 {
								score[j] = math.Inf(1)
							}
						}
						best := slices.Sorted(slices.Values(score))
						slices.Reverse(best)
						for i, j := range optest.Values(chosen)[(token*2+keyHead)*count:][:count] {
							got := score[int(j)]
							assert.True(t, got == best[i] || math.Abs(got-best[i]) < .01, "%v token %d head %d: %v of %v", d, token, keyHead, j, score)
						}
					}
				}
				first, row0 = columns[s], rows[s]
			}
			for text, set := range map[string]optest.Args{
				"do not fit": {"selectBlockSize": 40}, "selected from": {"actualSelSeqKvLenOptional": []int64{2, 5}}, "selectBlockCount is 3": {"selectBlockCount": 3, "topkIndicesOut": optest.Tensor(t, dtype.Int32, []int64{9, 2, 3})},
				"longest sequences": {"topkMaskOptional": optest.Tensor(t, dtype.Bool, []int64{5, 3}, 0)}, "actualSelSeqKvLenOptional": {"actualSelSeqKvLenOptional": []int64{6}},
			} {
				optest.Refused(t, op.InvalidParam, "NsaCompressAttention", a.With(set), text)
			}
			optest.Refused(t, op.NullPointer, "NsaCompressAttention", a.With(optest.Args{"topkIndicesOut": nil}), "topkIndicesOut is null")
		}
	}
}

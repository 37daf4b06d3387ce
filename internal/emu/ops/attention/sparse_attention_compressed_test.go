package attention

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestNsaCompressAttentionInfer(t *testing.T) {
	const heads, keyHeads, width, valueWidth, page = 4, 2, 8, 5, 16
	const block, stride, long, count = 32, 16, 32, 2
	compressed, tokens, table := []int64{20, 5}, []int64{19*stride + block + 1, 4*stride + block + 15}, []float64{4, 0, 2, 1}
	for _, d := range op.HalfTypes {
		for _, layout := range []string{"BSND", "TND"} {
			for _, rows := range [][]int64{nil, {3, 1}} {
				each := rows
				if rows == nil {
					each = []int64{1, 1}
				}
				leading, first := []int64{2, 3}, []int64{0, 3}
				if rows == nil {
					leading, first = []int64{2, 1}, []int64{0, 1}
				}
				if layout == "TND" {
					leading, first = []int64{each[0] + each[1]}, []int64{0, each[0]}
				}
				with := func(tail ...int64) []int64 { return append(slices.Clone(leading), tail...) }
				q, k, v := optest.Filled(t, 1, d, kerneltest.Contiguous, with(heads, width)), optest.Filled(t, 2, d, kerneltest.Contiguous, []int64{5, page, keyHeads * width}), optest.Filled(t, 3, d, kerneltest.Contiguous, []int64{5, page, keyHeads * valueWidth})
				out, chosen := optest.Tensor(t, d, with(heads, valueWidth)), optest.Tensor(t, dtype.Int32, with(keyHeads, count))
				require.NotZero(t, out.Len())
				a := optest.Args{
					"query": q, "key": k, "value": v, "blockTableOptional": optest.Tensor(t, dtype.Int32, []int64{2, 2}, table...), "actualQSeqLenOptional": rows, "actualCmpKvSeqLenOptional": compressed, "actualSelKvSeqLenOptional": tokens,
					"numHeads": heads, "numKeyValueHeads": keyHeads, "selectBlockSize": long, "selectBlockCount": count, "compressBlockSize": block, "compressBlockStride": stride, "scaleValue": .5,
					"layoutOptional": layout, "pageBlockSize": page, "output": out, "topKOutput": chosen,
				}
				if rows == nil {
					delete(a, "actualQSeqLenOptional")
				} else {
					a["attentionMaskOptional"] = optest.Tensor(t, dtype.Bool, []int64{3, 3})
				}
				optest.Run(t, "NsaCompressAttentionInfer", a)
				vq, vk, vv, got, best := optest.Values(q), optest.Values(k), optest.Values(v), optest.Values(out), optest.Values(chosen)
				for b := range compressed {
					for row := range each[b] {
						token := first[b] + row
						for head := range int64(keyHeads) {
							sum := make([]float64, compressed[b])
							for h := head * 2; h < head*2+2; h++ {
								total, p := 0.0, make([]float64, compressed[b])
								place := func(at int64) int64 { return int64(table[int64(b)*2+at/page])*page + at%page }
								for at := range compressed[b] {
									if rows != nil && at*stride+block > tokens[b]-(each[b]-1-row) {
										continue
									}
									for j := range int64(width) {
										p[at] += .5 * vq[(token*heads+h)*width+j] * vk[(place(at)*keyHeads+head)*width+j]
									}
									p[at] = math.Exp(p[at])
									total += p[at]
								}
								want := make([]float64, valueWidth)
								for at := range compressed[b] {
									sum[at] += p[at] / total
									for j := range int64(valueWidth) {
										want[j] += p[at] / total * vv[(place(at)*keyHeads+head)*valueWidth+j]
									}
								}
								optest.CloseTo(t, fmt.Sprint(d, layout, rows, b, row, h), want, got[(token*heads+h)*valueWidth:][:valueWidth], 4*optest.ResultLimit(d))
							}
							// The score is the sum over m and n of the compressed blocks l'/d·j - m
							// - n.
							blocks := ((compressed[b]-1)*stride + block + long - 1) / long
							score := make([]float64, blocks)
							for j := range blocks {
								for at := range compressed[b] {
									for m := range int64(long / stride) {
										for n := range int64(block / stride) {
											if at == long/stride*j-m-n {
												score[j] += sum[at]
											}
										}
									}
								}
							}
							order := op.InOrder(int(blocks))
							slices.SortStableFunc(order, func(x, y int64) int { return cmp.Compare(score[y], score[x]) })
							for c := range int64(count) {
								assert.InDelta(t, score[order[c]], score[int64(best[(token*keyHeads+head)*count+c])], 1e-3, "%v %s %v", d, layout, rows)
							}
						}
					}
				}
				for text, set := range map[string]optest.Args{
					"layoutOptional": {"layoutOptional": "BNSD"}, "pageBlockSize is 8": {"pageBlockSize": 8}, "do not fit": {"selectBlockSize": 24}, "blocks to choose from": {"selectBlockCount": 99},
					"actualCmpKvSeqLenOptional 1": {"actualCmpKvSeqLenOptional": []int64{3}}, "has pages for": {"actualCmpKvSeqLenOptional": []int64{33, 5}}, "do not compress": {"actualSelKvSeqLenOptional": []int64{20, 5}},
					"sequence 0 has 9 tokens": {"actualQSeqLenOptional": []int64{9, 1}}, "numHeads 3": {"numHeads": 3}, "not supported": {"topKMaskOptional": out}, "for each token and key head": {"topKOutput": optest.Tensor(t, dtype.Int32, []int64{1})},
				} {
					optest.Refused(t, op.InvalidParam, "NsaCompressAttentionInfer", a.With(set), text)
				}
				optest.Refused(t, op.NullPointer, "NsaCompressAttentionInfer", a.With(optest.Args{"actualCmpKvSeqLenOptional": nil}), "actualCmpKvSeqLenOptional is null")
				if rows != nil {
					optest.Refused(t, op.NullPointer, "NsaCompressAttentionInfer", a.With(optest.Args{"actualSelKvSeqLenOptional": nil}), "needs it")
				}
				assert.ErrorContains(t, optest.Execute(t, "NsaCompressAttentionInfer", a.With(optest.Args{"blockTableOptional": optest.Tensor(t, dtype.Int32, []int64{2, 2}, 9)})), "holds page 9")
			}
		}
	}
}

package attention

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestNsaSelectedAttentionInfer(t *testing.T) {
	const batch, heads, keyHeads, width, valueWidth, page, size, count = 2, 4, 2, 8, 5, 16, 16, 2
	for _, d := range op.HalfTypes {
		for _, layout := range []string{"", "BSH", "TND"} {
			q, k, v := optest.Filled(t, 1, d, kerneltest.Contiguous, []int64{batch, 1, heads, width}), optest.Filled(t, 2, d, kerneltest.Contiguous, []int64{5, page, keyHeads, width}), optest.Filled(t, 3, d, kerneltest.Contiguous, []int64{5, page, keyHeads, valueWidth})
			out := optest.Tensor(t, d, []int64{batch, 1, heads, valueWidth})
			table, lengths := []float64{4, 0, 2, 1, 3, 3}, []int64{40, 18}
			chosen := []float64{2, 0 /**/, 1, -1 /**/, 1, 0 /**/, 0, -1}
			blocks := optest.Tensor(t, dtype.Int32, []int64{batch, 1, keyHeads, count}, chosen...)
			flat := func(x *op.Tensor) *op.Tensor {
				y := *x
				switch layout {
				case "BSH":
					y.Shape = []int64{x.Dim(0), x.Dim(1), x.Dim(2) * x.Dim(3)}
				case "TND":
					if x.Dim(1) != 1 {
						return x // a cache
					}
					y.Shape = []int64{x.Dim(0), x.Dim(2), x.Dim(3)}
				}
				y.Strides, y.Storage = op.ContiguousStrides(y.Shape), y.Shape
				return &y
			}
			indices := blocks
			if layout == "TND" {
				indices = flat(blocks)
			}
			a := optest.Args{
				"query": flat(q), "key": flat(k), "value": flat(v), "topkIndices": indices, "blockTableOptional": optest.Tensor(t, dtype.Int32, []int64{batch, 3}, table...), "actualKvSeqLenOptional": lengths,
				"layoutOptional": layout, "numHeads": heads, "numKeyValueHeads": keyHeads, "selectBlockSize": size, "selectBlockCount": count, "pageBlockSize": page, "scaleValue": .5, "output": flat(out),
			}
			optest.Run(t, "NsaSelectedAttentionInfer", a)
			want := make([]float64, out.Len())
			for b := range batch {
				for h := range heads {
					head := h / 2
					var rows []int
					for _, block := range chosen[(b*keyHeads+head)*count:][:count] {
						for at := int(block) * size; block >= 0 && at < min(int(block+1)*size, int(lengths[b])); at++ {
							rows = append(rows, int(table[b*3+at/page])*page+at%page)
						}
					}
					total, p := 0.0, make([]float64, len(rows))
					for i, row := range rows {
						for j := range width {
							p[i] += .5 * optest.Values(q)[(b*heads+h)*width+j] * optest.Values(k)[(row*keyHeads+head)*width+j]
						}
						p[i] = math.Exp(p[i])
						total += p[i]
					}
					for i, row := range rows {
						for j := range valueWidth {
							want[(b*heads+h)*valueWidth+j] += p[i] / total * optest.Values(v)[(row*keyHeads+head)*valueWidth+j]
						}
					}
				}
			}
			optest.CloseTo(t, fmt.Sprintf("%v %s", d, layout), want, optest.Values(out), 4*optest.ResultLimit(d))
			for text, set := range map[string]optest.Args{
				"layoutOptional": {"layoutOptional": "BNSD"}, "pageBlockSize is 8": {"pageBlockSize": 8}, "selectBlockSize is 24": {"selectBlockSize": 24}, "1 lengths": {"actualKvSeqLenOptional": []int64{3}},
				"has pages for 48": {"actualKvSeqLenOptional": []int64{49, 1}}, "the blocks for each token": {"selectBlockCount": 3}, "not supported": {"attenMaskOptional": optest.Tensor(t, dtype.Bool, []int64{1}, 0)},
			} {
				optest.Refused(t, op.InvalidParam, "NsaSelectedAttentionInfer", a.With(set), text)
			}
			optest.Refused(t, op.NullPointer, "NsaSelectedAttentionInfer", a.With(optest.Args{"blockTableOptional": nil}), "blockTableOptional is null")
			assert.ErrorContains(t, optest.Execute(t, "NsaSelectedAttentionInfer", a.With(optest.Args{"blockTableOptional": optest.Tensor(t, dtype.Int32, []int64{batch, 3}, 9)})), "holds page 9")
		}
	}
}

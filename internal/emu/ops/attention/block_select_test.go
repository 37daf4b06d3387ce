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

// TestSelectBlocks compares with the softmax of products of means by definition: a pair is chosen if fewer pairs than are kept have a
// larger share.
func TestSelectBlocks(t *testing.T) {
	const width = 128
	for _, d := range op.HalfTypes {
		for _, l := range []kerneltest.Layout{kerneltest.Contiguous, kerneltest.Transposed, kerneltest.Gapped} {
			for _, c := range []struct {
				layout        string
				queries, keys []int64 // lengths, or nil for whole ones
				longest       [2]int64
				shape         []int64
				parts         [2][]int64
				sparsity      float64
				heads         int64
				kept          []int // of each sequence
			}{
				{"BNSD", nil, nil, [2]int64{70, 130}, []int64{64, 64}, [2][]int64{}, .5, 1, []int{3}},                                                                        // 2×3 blocks
				{"BNSD", nil, nil, [2]int64{200, 450}, nil, [2][]int64{}, .3, 2, []int{2, 2}},                                                                                // 2×4
				{"BNSD", []int64{130, 64}, []int64{300, 65}, [2]int64{130, 300}, []int64{64, 64}, [2][]int64{}, .7, 1, []int{10, 1}},                                         // 3×5 and 1×2
				{"TND", []int64{100, 65, 3}, []int64{193, 70, 5}, [2]int64{168, 270}, []int64{64, 64}, [2][]int64{}, .5, 2, []int{4, 2, 1}},                                  // 2×4, 2×2, 1×1
				{"TND", []int64{130, 128}, []int64{257, 129}, [2]int64{258, 386}, []int64{64, 128}, [2][]int64{{64, 0, 1, 10, 64}, {128, 100, 1, 3, 1}}, .4, 1, []int{4, 2}}, // 3×3 and 2×2
			} {
				batch := len(c.kept)
				what := fmt.Sprint(d, l, c)
				shape := func(longest int64) []int64 {
					if c.layout == "TND" {
						return []int64{longest, c.heads, width}
					}
					return []int64{int64(batch), c.heads, longest, width}
				}
				size := c.shape
				if size == nil {
					size = []int64{128, 128}
				}
				lengths := [2][]int64{c.queries, c.keys}
				var most [2]int64
				for i := range lengths {
					if lengths[i] == nil {
						lengths[i] = slices.Repeat([]int64{c.longest[i]}, batch)
					}
					most[i] = (slices.Max(lengths[i]) + size[i] - 1) / size[i]
				}
				out := optest.TensorIn(t, dtype.Int8, l, []int64{int64(batch), c.heads, most[0], most[1]}, 3)
				a := optest.Args{
					"query": optest.Filled(t, 1, d, l, shape(c.longest[0])), "key": optest.Filled(t, 2, d, l, shape(c.longest[1])), "blockShape": c.shape, "actualSeqLengths": c.queries, "actualSeqLengthsKV": c.keys,
					"actualBlockLenQuery": c.parts[0], "actualBlockLenKey": c.parts[1], "qInputLayout": c.layout, "kvInputLayout": c.layout, "numKeyValueHeads": c.heads, "scaleValue": 3.0, "sparsity": c.sparsity, "blockSparseMaskOut": out,
				}
				optest.Run(t, "BSASelectBlockMask", a)

				// mean returns the mean of a block and the number of its tokens.
				mean := func(side, b int, head, block int64) ([]float64, int64) {
					before := int64(0)
					for _, n := range lengths[side][:b] {
						before += (n + size[side] - 1) / size[side]
					}
					n := min(size[side], lengths[side][b]-block*size[side])
					if c.parts[side] != nil {
						n = min(n, c.parts[side][before+block])
					}
					v, sum := optest.Values(a[[]string{"query", "key"}[side]].(*op.Tensor)), make([]float64, width)
					for i := range n {
						token := block*size[side] + i
						row := (int64(b)*c.heads+head)*c.longest[side] + token
						if c.layout == "TND" {
							row = (op.Total(lengths[side][:b])+token)*c.heads + head
						}
						for e := range sum {
							sum[e] += v[row*width+int64(e)] / float64(n)
						}
					}
					return sum, n
				}
				want := make([]float64, out.Len())
				for b := range batch {
					rows, columns := (lengths[0][b]+size[0]-1)/size[0], (lengths[1][b]+size[1]-1)/size[1]
					for h := range c.heads {
						shares := make([]float64, rows*columns)
						for i := range rows {
							q, qn := mean(0, b, h, i)
							total, empty := 0.0, make([]bool, columns)
							for j := range columns {
								k, kn := mean(1, b, h, j)
								score := 0.0
								for e := range q {
									score += 3 * q[e] * k[e]
								}
								empty[j] = qn == 0 || kn == 0
								shares[i*columns+j] = math.Exp(score)
								total += math.Exp(score)
							}
							for j := range columns {
								if shares[i*columns+j] /= total; empty[j] {
									shares[i*columns+j] = -1
								}
							}
						}
						for n, share := range shares {
							larger := 0
							for _, other := range shares {
								if other > share {
									larger++
								}
							}
							if larger < c.kept[b] && share >= 0 {
								i, j := int64(n)/columns, int64(n)%columns
								want[((int64(b)*c.heads+h)*most[0]+i)*most[1]+j] = 1
							}
						}
					}
				}
				require.Equal(t, want, optest.Values(out), what)
			}
		}
	}
}

func TestSelectBlocksRefuses(t *testing.T) {
	const name = "BSASelectBlockMask"
	bf, i8 := dtype.BFloat16, dtype.Int8
	x := func(d dtype.Type, shape ...int64) *op.Tensor { return optest.Tensor(t, d, shape) }
	a := optest.Args{
		"query": x(bf, 1, 2, 200, 128), "key": x(bf, 1, 2, 300, 128), "qInputLayout": "BNSD", "kvInputLayout": "BNSD", "numKeyValueHeads": 2, "sparsity": .5, "blockSparseMaskOut": x(i8, 1, 2, 2, 3),
	}
	optest.Run(t, name, a)
	for _, null := range []string{"query", "key", "blockSparseMaskOut"} {
		optest.Refused(t, op.NullPointer, name, a.With(optest.Args{null: nil}), null+" is null")
	}
	for text, set := range map[string]optest.Args{
		"postBlockShape": {"postBlockShape": []int64{1, 1}}, "dtypes differ": {"key": x(dtype.Float16, 1, 2, 300, 128)}, "dtype": {"blockSparseMaskOut": x(bf, 1, 2, 2, 3)},
	} {
		optest.Refused(t, op.InvalidParam, name, a.With(set), text)
	}
	for text, set := range map[string]optest.Args{
		"must be equal, and BNSD or TND": {"kvInputLayout": "TND"}, "sparsity is 1": {"sparsity": 1.0}, "multiples of 64": {"blockShape": []int64{64, 100}}, "as many heads of keys": {"numKeyValueHeads": 1},
		"heads of 128 elements": {"key": x(bf, 1, 2, 300, 64)}, "must have 4 dimensions": {"query": x(bf, 200, 2, 128)}, "a length up to 200": {"actualSeqLengths": []int64{201}}, "there are 2 blocks": {"actualBlockLenQuery": []int64{128}},
		"a block has 0 to 128 tokens": {"actualBlockLenQuery": []int64{129, 1}}, "there must be something to choose": {"query": x(bf, 1, 2, 3, 128), "key": x(bf, 1, 2, 3, 128)}, "a number for each pair": {"blockSparseMaskOut": x(i8, 1, 2, 3, 3)},
		"layout TND needs":   {"query": x(bf, 200, 2, 128), "key": x(bf, 300, 2, 128), "qInputLayout": "TND", "kvInputLayout": "TND"},
		"not as many tokens": {"query": x(bf, 200, 2, 128), "key": x(bf, 300, 2, 128), "qInputLayout": "TND", "kvInputLayout": "TND", "actualSeqLengths": []int64{100, 101}, "actualSeqLengthsKV": []int64{300, 0}},
	} {
		optest.Refused(t, op.TilingRefused, name, a.With(set), text)
	}
}

package index

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

func TestEmbeddingBag(t *testing.T) {
	index, offsets := []float64{3, 0, 0, 5, 2, 4, 1}, []float64{0, 3, 3, 5}
	bagOf, sizes := []float64{0, 0, 0, 2, 2, 3, 3}, []float64{3, 0, 2, 2}
	for _, d := range op.FloatTypes {
		for _, l := range kerneltest.Layouts {
			for _, whole := range op.IndexTypes {
				for _, last := range []bool{false, true} {
					for mode := range 3 {
						for _, padding := range []int{-1, 0} {
							what := fmt.Sprintf("%v %v %v last %v mode %d padding %d", d, l, whole, last, mode, padding)
							const width = 5
							table, out := optest.Filled(t, 1, d, l, []int64{6, width}), optest.TensorIn(t, d, l, []int64{4, width})
							ends, largest := offsets, []int64{4}
							if last {
								ends = append(append([]float64{}, offsets...), 7)
							}
							if mode == 2 {
								largest = out.Shape
							}
							set := optest.Args{
								"weight": table, "indices": optest.TensorIn(t, whole, l, []int64{7}, index...), "offsets": optest.TensorIn(t, whole, l, []int64{int64(len(ends))}, ends...), "mode": mode,
								"includeLastOffset": last, "paddingIdx": padding, "output": out, "offset2bag": optest.TensorIn(t, whole, l, []int64{7}), "bagSize": optest.TensorIn(t, whole, l, []int64{4}),
								"maxIndices": optest.TensorIn(t, whole, l, largest),
							}
							scale := []float64{1, 1, 1, 1, 1, 1, 1}
							if mode == 0 && padding < 0 {
								scale = []float64{0.5, 2, -1, 3, 1, 0.25, 4}
								set["perSampleWeights"] = optest.TensorIn(t, d, l, []int64{7}, scale...)
							}
							optest.Run(t, "EmbeddingBag", set)
							want, from, counted := make([]float64, 4*width), make([]float64, 4*width), make([]float64, 4)
							for b := range counted {
								for j := range width {
									sum, most, n, at := 0.0, math.Inf(-1), 0.0, 0.0
									for i, k := range index {
										if bagOf[i] != float64(b) || k == float64(padding) {
											continue
										}
										v := optest.Values(table)[int(k)*width+j]
										sum, n = sum+scale[i]*v, n+1
										if v > most {
											most, at = v, k
										}
									}
									switch {
									case n == 0:
									case mode == 0:
										want[b*width+j] = sum
									case mode == 1:
										want[b*width+j] = sum / n
									default:
										want[b*width+j], from[b*width+j] = most, at
									}
									counted[b] = n
								}
							}
							optest.CloseTo(t, what, want, optest.Values(out), 2*optest.ResultLimit(d))
							assert.Equal(t, bagOf, optest.Values(set["offset2bag"].(*op.Tensor)), what)
							if padding < 0 {
								assert.Equal(t, sizes, counted, what)
							}
							assert.Equal(t, counted, optest.Values(set["bagSize"].(*op.Tensor)), what)
							if mode == 2 {
								assert.Equal(t, from, optest.Values(set["maxIndices"].(*op.Tensor)), what)
							} else {
								assert.Equal(t, make([]float64, 4), optest.Values(set["maxIndices"].(*op.Tensor)), what)
							}
						}
					}
				}
			}
		}
	}
}

// TestEmbeddingBagOfUnequalBags has one bag that is much larger than the others.
func TestEmbeddingBagOfUnequalBags(t *testing.T) {
	const bags, many = 100, 300
	f, i := dtype.Float32, dtype.Int64
	for mode, want := range []float64{0.25 * many, 0.25} {
		offsets, sums := make([]float64, bags), make([]float64, bags)
		for b := 1; b < bags; b++ {
			offsets[b], sums[b] = float64(many+b-1), 0.25
		}
		sums[0] = want
		out := optest.Tensor(t, f, []int64{bags, 1})
		optest.Run(t, "EmbeddingBag", optest.Args{
			"weight": optest.Tensor(t, f, []int64{2, 1}, 0.25), "indices": optest.Tensor(t, i, []int64{many + bags - 1}, 1), "offsets": optest.Tensor(t, i, []int64{bags}, offsets...), "mode": mode, "paddingIdx": -1,
			"output": out, "offset2bag": optest.Tensor(t, i, []int64{many + bags - 1}), "bagSize": optest.Tensor(t, i, []int64{bags}), "maxIndices": optest.Tensor(t, i, []int64{bags}),
		})
		assert.Equal(t, sums, optest.Values(out))
	}
}

func TestEmbeddingBagRefuses(t *testing.T) {
	f, i := dtype.Float32, dtype.Int64
	base := func() optest.Args {
		return optest.Args{
			"weight": optest.Tensor(t, f, []int64{3, 2}, 1), "indices": optest.Tensor(t, i, []int64{2}, 1), "offsets": optest.Tensor(t, i, []int64{1}, 0), "paddingIdx": -1,
			"output": optest.Tensor(t, f, []int64{1, 2}), "offset2bag": optest.Tensor(t, i, []int64{2}), "bagSize": optest.Tensor(t, i, []int64{1}), "maxIndices": optest.Tensor(t, i, []int64{1}),
		}
	}
	for _, c := range []struct {
		set  optest.Args
		code int32
		text string
	}{
		{optest.Args{"sparse": true}, op.InvalidParam, "sparse true"},
		{optest.Args{"mode": 1, "perSampleWeights": optest.Tensor(t, f, []int64{2}, 1)}, op.InvalidParam, "only sums"},
		{optest.Args{"output": optest.Tensor(t, f, []int64{2, 2})}, op.InvalidParam, "a row for each bag"},
		{optest.Args{"mode": 2}, op.InvalidParam, "for each element of output"},
		{optest.Args{"bagSize": optest.Tensor(t, dtype.Int32, []int64{1})}, op.InvalidParam, "bagSize"},
		{optest.Args{"offsets": nil}, op.NullPointer, "offsets is null"},
	} {
		a := base()
		for k, v := range c.set {
			a[k] = v
		}
		optest.Refused(t, c.code, "EmbeddingBag", a, c.text)
	}
	for text, set := range map[string]optest.Args{
		"index 3 at position 1": {"indices": optest.Tensor(t, i, []int64{2}, 1, 3)}, "bag 0 has the indices from 5": {"offsets": optest.Tensor(t, i, []int64{1}, 5)},
	} {
		a := base()
		for k, v := range set {
			a[k] = v
		}
		assert.ErrorContains(t, optest.Execute(t, "EmbeddingBag", a), text)
	}
}

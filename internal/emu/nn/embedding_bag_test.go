package nn

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

func TestEmbeddingBag(t *testing.T) {
	index, offsets := []float64{3, 0, 0, 5, 2, 4, 1}, []float64{0, 3, 3, 5}
	bagOf, sizes := []float64{0, 0, 0, 2, 2, 3, 3}, []float64{3, 0, 2, 2}
	for _, d := range transformerTypes {
		for _, l := range kerneltest.Layouts {
			for _, whole := range indexTypes {
				for _, last := range []bool{false, true} {
					for mode := range 3 {
						for _, padding := range []int{-1, 0} {
							what := fmt.Sprintf("%v %v %v last %v mode %d padding %d", d, l, whole, last, mode, padding)
							const width = 5
							table, out := filled(t, 1, d, l, []int64{6, width}), tensorIn(t, d, l, []int64{4, width})
							ends, largest := offsets, []int64{4}
							if last {
								ends = append(append([]float64{}, offsets...), 7)
							}
							if mode == 2 {
								largest = out.Shape
							}
							set := args{
								"weight": table, "indices": tensorIn(t, whole, l, []int64{7}, index...), "offsets": tensorIn(t, whole, l, []int64{int64(len(ends))}, ends...), "mode": mode,
								"includeLastOffset": last, "paddingIdx": padding, "output": out, "offset2bag": tensorIn(t, whole, l, []int64{7}), "bagSize": tensorIn(t, whole, l, []int64{4}),
								"maxIndices": tensorIn(t, whole, l, largest),
							}
							scale := []float64{1, 1, 1, 1, 1, 1, 1}
							if mode == 0 && padding < 0 {
								scale = []float64{0.5, 2, -1, 3, 1, 0.25, 4}
								set["perSampleWeights"] = tensorIn(t, d, l, []int64{7}, scale...)
							}
							run(t, "EmbeddingBag", set)
							want, from, counted := make([]float64, 4*width), make([]float64, 4*width), make([]float64, 4)
							for b := range counted {
								for j := range width {
									sum, most, n, at := 0.0, math.Inf(-1), 0.0, 0.0
									for i, k := range index {
										if bagOf[i] != float64(b) || k == float64(padding) {
											continue
										}
										v := values(table)[int(k)*width+j]
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
							closeTo(t, what, want, values(out), 2*resultLimit(d))
							assert.Equal(t, bagOf, values(set["offset2bag"].(*Tensor)), what)
							if padding < 0 {
								assert.Equal(t, sizes, counted, what)
							}
							assert.Equal(t, counted, values(set["bagSize"].(*Tensor)), what)
							if mode == 2 {
								assert.Equal(t, from, values(set["maxIndices"].(*Tensor)), what)
							} else {
								assert.Equal(t, make([]float64, 4), values(set["maxIndices"].(*Tensor)), what)
							}
						}
					}
				}
			}
		}
	}
}

func TestEmbeddingBagRefuses(t *testing.T) {
	f, i := dtype.Float32, dtype.Int64
	base := func() args {
		return args{
			"weight": tensor(t, f, []int64{3, 2}, 1), "indices": tensor(t, i, []int64{2}, 1), "offsets": tensor(t, i, []int64{1}, 0), "paddingIdx": -1,
			"output": tensor(t, f, []int64{1, 2}), "offset2bag": tensor(t, i, []int64{2}), "bagSize": tensor(t, i, []int64{1}), "maxIndices": tensor(t, i, []int64{1}),
		}
	}
	for _, c := range []struct {
		set  args
		code int32
		text string
	}{
		{args{"sparse": true}, invalidParam, "sparse true"},
		{args{"mode": 1, "perSampleWeights": tensor(t, f, []int64{2}, 1)}, invalidParam, "only sums"},
		{args{"output": tensor(t, f, []int64{2, 2})}, invalidParam, "a row for each bag"},
		{args{"mode": 2}, invalidParam, "for each element of output"},
		{args{"bagSize": tensor(t, dtype.Int32, []int64{1})}, invalidParam, "bagSize"},
		{args{"offsets": nil}, nullPointer, "offsets is null"},
	} {
		a := base()
		for k, v := range c.set {
			a[k] = v
		}
		refused(t, c.code, "EmbeddingBag", a, c.text)
	}
	for text, set := range map[string]args{
		"index 3 at position 1": {"indices": tensor(t, i, []int64{2}, 1, 3)}, "bag 0 has the indices from 5": {"offsets": tensor(t, i, []int64{1}, 5)},
	} {
		a := base()
		for k, v := range set {
			a[k] = v
		}
		assert.ErrorContains(t, execute(t, "EmbeddingBag", a), text)
	}
}

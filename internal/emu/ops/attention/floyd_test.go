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

// TestFloydAttention compares results, statistics and gradients with the definition in float64 and its differences.
func TestFloydAttention(t *testing.T) {
	for which, s := range [][5]int{{1, 1, 1, 1, 2}, {1, 2, 3, 1, 2}, {2, 1, 2, 3, 5}, {1, 1, 4, 2, 3}} {
		for _, dt := range op.HalfTypes {
			for n, l := range kerneltest.Layouts {
				learns := n == which%len(kerneltest.Layouts)
				for _, masked := range []bool{false, true} {
					const width, scale = 32, 0.2
					b, h, n, m, k := s[0], s[1], s[2], s[3], s[4]
					shapes := [][]int64{optest.ShapeOf([]int{b, h, n, m, width}), optest.ShapeOf([]int{b, h, n, k, width}), optest.ShapeOf([]int{b, h, k, m, width})}
					shapes = append(shapes, shapes[1], shapes[2])
					names := []string{"query", "key1", "key2", "value1", "value2"}
					a, grads := optest.Args{}, optest.Args{"scaleValue": scale}
					var inputs [][]float64
					for i, name := range names {
						a[name] = optest.Filled(t, uint64(1+i), dt, l, shapes[i])
						grads[name] = a[name]
						inputs = append(inputs, optest.Values(a[name].(*op.Tensor)))
					}
					a["scaleValueOptional"] = scale
					hidden := make([]float64, b*n*k)
					if masked && k > 2 {
						for i := range hidden {
							if i%k == (i/k)%k { // one key of each row
								hidden[i] = 1
							}
						}
						a["attenMaskOptional"] = optest.TensorIn(t, dtype.Uint8, l, optest.ShapeOf([]int{b, 1, n, 1, k}), hidden...)
						grads["attenMaskOptional"] = a["attenMaskOptional"]
					}
					stats := optest.ShapeOf([]int{b, h, n, m, 8})
					top, sum, out := optest.TensorIn(t, dtype.Float32, l, stats), optest.TensorIn(t, dtype.Float32, l, stats), optest.TensorIn(t, dt, l, shapes[0])
					a["softmaxMaxOut"], a["softmaxSumOut"], a["attentionOutOut"] = top, sum, out
					optest.Run(t, "FusedFloydAttention", a)
					var tops, sums []float64
					forward := func(v [][]float64) (y []float64) {
						tops, sums = nil, nil
						for r := range b * h * n * m {
							bh, x, z := r/m/n, r/m%n, r%m
							key, value := func(j, d int) float64 {
								return v[1][((bh*n+x)*k+j)*width+d] + v[2][((bh*k+j)*m+z)*width+d]
							}, func(j, d int) float64 {
								return v[3][((bh*n+x)*k+j)*width+d] + v[4][((bh*k+j)*m+z)*width+d]
							}
							highest, total, row := math.Inf(-1), 0.0, make([]float64, width)
							scores := map[int]float64{}
							for j := range k {
								if hidden[(bh/h*n+x)*k+j] == 1 {
									continue
								}
								for d := range width {
									scores[j] += scale * v[0][r*width+d] * key(j, d)
								}
								highest = max(highest, scores[j])
							}
							for _, s := range scores {
								total += math.Exp(s - highest)
							}
							for j, s := range scores {
								for d := range row {
									row[d] += math.Exp(s-highest) / total * value(j, d)
								}
							}
							y = append(y, row...)
							for range 8 {
								tops, sums = append(tops, highest), append(sums, total)
							}
						}
						return y
					}
					want, what := forward(inputs), fmt.Sprint(s, dt, l, masked)
					optest.CloseTo(t, what, want, optest.Values(out), optest.ResultLimit(dt))
					optest.CloseTo(t, "maximum "+what, tops, optest.Values(top), 1e-5)
					optest.CloseTo(t, "sum "+what, sums, optest.Values(sum), 1e-5)
					dy := optest.Filled(t, 9, dt, l, shapes[0])
					grads["dy"], grads["softmaxMax"], grads["softmaxSum"], grads["attentionIn"] = dy, top, sum, out
					for i, name := range []string{"dqOut", "dk1Out", "dk2Out", "dv1Out", "dv2Out"} {
						grads[name] = optest.TensorIn(t, dt, l, shapes[i])
					}
					if !learns { // differences of all elements take long
						continue
					}
					optest.Run(t, "FusedFloydAttentionGrad", grads)
					for i, name := range []string{"dqOut", "dk1Out", "dk2Out", "dv1Out", "dv2Out"} {
						of := func(x []float64) []float64 {
							all := slices.Clone(inputs)
							all[i] = x
							return forward(all)
						}
						limit := 2 * optest.ResultLimit(dt)
						if i < 3 { // the result from which these follow is rounded to 16 bits, in 32 elements
							limit *= 20
						}
						optest.CloseTo(t, name+" "+what, optest.Gradient(of, optest.Values(dy), inputs[i]), optest.Values(grads[name].(*op.Tensor)), limit)
					}
				}
			}
		}
	}
	x := func(d dtype.Type, shape ...int64) *op.Tensor { return optest.Tensor(t, d, shape) }
	f, s := dtype.Float16, dtype.Float32
	a := optest.Args{
		"query": x(f, 1, 1, 2, 2, 32), "key1": x(f, 1, 1, 2, 3, 32), "value1": x(f, 1, 1, 2, 3, 32), "key2": x(f, 1, 1, 3, 2, 32), "value2": x(f, 1, 1, 3, 2, 32),
		"softmaxMaxOut": x(s, 1, 1, 2, 2, 8), "softmaxSumOut": x(s, 1, 1, 2, 2, 8), "attentionOutOut": x(f, 1, 1, 2, 2, 32),
	}
	for text, set := range map[string]optest.Args{
		"must have 5 dimensions": {"query": x(f, 1, 2, 2, 32)},
		"that of its keys":       {"value2": x(f, 1, 1, 3, 3, 32)},
		"for the second":         {"key2": x(f, 1, 1, 2, 2, 32)},
		"eight for each pair":    {"softmaxMaxOut": x(s, 1, 1, 2, 2, 1)},
		"a column for each row":  {"attenMaskOptional": x(dtype.Bool, 1, 1, 2, 2, 3)},
		"32, 64 or 128 elements": {"query": x(f, 1, 1, 2, 2, 16), "key1": x(f, 1, 1, 2, 3, 16), "value1": x(f, 1, 1, 2, 3, 16), "key2": x(f, 1, 1, 3, 2, 16), "value2": x(f, 1, 1, 3, 2, 16)},
	} {
		optest.Refused(t, op.TilingRefused, "FusedFloydAttention", a.With(set), text)
	}
	optest.Refused(t, op.InvalidParam, "FusedFloydAttention", a.With(optest.Args{"key1": x(dtype.BFloat16, 1, 1, 2, 3, 32)}), "dtypes differ")
	require.ErrorContains(t, optest.Execute(t, "FusedFloydAttention", a.With(optest.Args{"attenMaskOptional": optest.Tensor(t, dtype.Uint8, []int64{1, 1, 2, 1, 3}, 0, 0, 0, 1, 1, 1)})), "hides all keys of row 1")
}

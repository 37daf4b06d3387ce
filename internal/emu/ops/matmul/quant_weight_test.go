package matmul

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// weightSums returns x·((w + offset)·scale) + bias, with a scale and an offset for each column. The weight is rounded to the type of x.
func weightSums(t *testing.T, d dtype.Type, x, w, scale, offset, bias []float64, k, n int) []float64 {
	wide := make([]float64, len(w))
	for i := range w {
		wide[i] = (w[i] + offset[i%n]) * scale[i%n]
	}
	sums := optest.Times(x, optest.Values(optest.Tensor(t, d, []int64{int64(len(wide))}, wide...)), k)
	for i := range sums {
		sums[i] += bias[i%n]
	}
	return sums
}

// The products with an int8 or int4 weight are quantised to int8 by scales and offsets that TransQuantParam packs.
func TestWeightQuantProductsToInt8(t *testing.T) {
	const m, k, n = 3, 6, 8
	w := make([]float64, k*n)
	for i := range w {
		w[i] = float64(i*5%16 - 8)
	}
	for _, d := range op.HalfTypes {
		for _, name := range []string{"WeightQuantBatchMatmulV2", "WeightQuantBatchMatmulV3"} {
			for _, factors := range [][]float64{{3.5}, {3.5, .25, 100, -2}} {
				x, scale, offset := optest.Filled(t, 4, d, kerneltest.Contiguous, []int64{m, k}), optest.Filled(t, 5, d, kerneltest.Contiguous, []int64{1, n}), optest.Filled(t, 6, d, kerneltest.Contiguous, []int64{1, n})
				biasType := d
				if d == dtype.BFloat16 {
					biasType = dtype.Float32
				}
				bias := optest.Tensor(t, biasType, []int64{n}, 1, -2)
				var bits []float64
				zeros := []float64{7, -100, 0, 255}
				if len(factors) > 1 {
					factors, zeros = repeated(factors, n), repeated(zeros, n)
				}
				for i, f := range factors {
					zero := float32(zeros[i])
					bits = append(bits, float64(op.PackScale(float32(f), &zero, false)))
				}
				params := optest.Tensor(t, dtype.Uint64, []int64{1, int64(len(factors))}, bits...)
				sums := weightSums(t, d, optest.Values(x), w, optest.Values(scale), optest.Values(offset), optest.Values(bias), k, n)
				for _, weight := range []*op.Tensor{integers(t, dtype.Int8, w, k, n), integers(t, dtype.Int4, w, k, n), integers(t, dtype.Int32, w, k, n)} {
					y := optest.Tensor(t, dtype.Int8, []int64{m, n})
					a := optest.Args{"x": x, "weight": weight, "antiquantScale": scale, "antiquantOffsetOptional": offset, "quantScaleOptional": params, "biasOptional": bias, "y": y}
					optest.Run(t, name, a)
					got := optest.Values(y)
					for i, sum := range sums {
						f, zero := factors[i%n%len(factors)], zeros[i%n%len(factors)]
						require.InDelta(t, min(max(sum*f+zero, -128), 127), got[i], .55, "%s %v %v factors %v element %d", name, d, weight, factors, i)
					}
					// The device reads the offsets that are packed with the scales.
					optest.Run(t, name, a.With(optest.Args{"quantOffsetOptional": optest.Tensor(t, dtype.Float32, params.Shape, 9)}))
					require.Equal(t, got, optest.Values(y))
					for text, set := range map[string]optest.Args{
						"dtype": {"y": optest.Tensor(t, d, []int64{m, n})}, "one element or one for each of 8": {"quantScaleOptional": optest.Tensor(t, dtype.Uint64, []int64{3}, 1)},
						"without quantScaleOptional": {"quantScaleOptional": nil, "quantOffsetOptional": optest.Tensor(t, dtype.Float32, []int64{1}, 1), "y": optest.Tensor(t, d, []int64{m, n})},
						"shape":                      {"quantOffsetOptional": optest.Tensor(t, dtype.Float32, []int64{3}, 1)},
					} {
						optest.Refused(t, op.InvalidParam, name, a.With(set), text)
					}
					optest.Refused(t, op.InvalidParam, name, a.With(optest.Args{"quantScaleOptional": nil}), "dtype")
				}
			}
		}
	}
}

// Scales of a weight may be float32 numbers in 64-bit integers, with offsets of int32.
func TestWeightQuantProductsWithWideScales(t *testing.T) {
	const k, n = 64, 128
	w := optest.Int8s(1, k*n)
	weight := optest.TensorIn(t, dtype.Int8, kerneltest.Transposed, []int64{k, n}, w...)
	scales, zeros := repeated([]float64{.5, .25, .125}, n), repeated([]float64{3, -128, 127, 0}, n)
	for _, name := range []string{"WeightQuantBatchMatmulV2", "WeightQuantBatchMatmulV3"} {
		for _, d := range []dtype.Type{dtype.Uint64, dtype.Int64} {
			for _, m := range []int64{1, 5, 96} {
				for _, shape := range [][]int64{{n}, {1, n}} {
					x, y := optest.Filled(t, 2, dtype.Float16, kerneltest.Contiguous, []int64{m, k}), optest.Tensor(t, dtype.Float16, []int64{m, n})
					offset, bias := optest.Tensor(t, dtype.Int32, shape, zeros...), optest.Tensor(t, dtype.Float16, []int64{n}, 1, -2)
					a := optest.Args{"x": x, "weight": weight, "antiquantScale": packedScales(t, d, shape, scales), "antiquantOffsetOptional": offset, "biasOptional": bias, "y": y}
					optest.Run(t, name, a)
					what := fmt.Sprintf("%s %v %d rows", name, d, m)
					optest.CloseTo(t, what, weightSums(t, x.DType, optest.Values(x), w, scales, zeros, optest.Values(bias), k, n), optest.Values(y), 2*optest.ResultLimit(dtype.Float16))
					optest.Run(t, name, a.With(optest.Args{"antiquantOffsetOptional": nil}))
					optest.CloseTo(t, what, weightSums(t, x.DType, optest.Values(x), w, scales, make([]float64, n), optest.Values(bias), k, n), optest.Values(y), 2*optest.ResultLimit(dtype.Float16))
				}
			}
			long := optest.Tensor(t, dtype.Float16, []int64{97, n})
			x, y := optest.Tensor(t, dtype.Float16, []int64{2, k}, 1), optest.Tensor(t, dtype.Float16, []int64{2, n})
			a := optest.Args{"x": x, "weight": weight, "antiquantScale": packedScales(t, d, []int64{n}, scales), "y": y}
			for _, set := range []optest.Args{
				{"weight": optest.Tensor(t, dtype.Int8, []int64{k, n}, 1)}, {"x": optest.Tensor(t, dtype.Float16, []int64{97, k}, 1), "y": long}, {"antiquantScale": packedScales(t, d, []int64{1}, scales[:1])},
				{"antiquantGroupSize": 32, "antiquantScale": packedScales(t, d, []int64{2, n}, append(scales, scales...))},
			} {
				optest.Refused(t, op.TilingRefused, name, a.With(set), "transposed weight whose sizes are multiples of 64")
			}
			half := optest.Tensor(t, dtype.BFloat16, []int64{2, n})
			optest.Refused(t, op.InvalidParam, name, a.With(optest.Args{"x": optest.Tensor(t, dtype.BFloat16, []int64{2, k}, 1), "y": half}), "dtype")
			optest.Refused(t, op.InvalidParam, name, a.With(optest.Args{"antiquantOffsetOptional": optest.Tensor(t, dtype.Float16, []int64{n}, 1)}), "dtype")
		}
	}
}

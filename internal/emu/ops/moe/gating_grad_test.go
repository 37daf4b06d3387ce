package moe

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// TestGroupGatingGrad compares with the derivative of the weights by differences in float64, for each type, odd sizes, numbers of
// chosen experts and strides.
func TestGroupGatingGrad(t *testing.T) {
	for _, dt := range []dtype.Type{dtype.Float32, dtype.Float16, dtype.BFloat16} {
		for _, size := range []struct{ rows, experts, k int64 }{{1, 2, 1}, {3, 7, 2}, {5, 16, 4}, {2, 33, 33}} {
			for _, layout := range kerneltest.Layouts {
				const factor, eps = 2.5, 1e-3
				x := optest.Normal(1, dtype.Float64, size.rows*size.experts)
				norm := make([]float64, len(x))
				for i := range x {
					norm[i] = optest.Sigmoid(x[i])
				}
				s := optest.TensorIn(t, dtype.Float32, layout, []int64{size.rows, size.experts}, norm...)
				dy := optest.Filled(t, 2, dt, layout, []int64{size.rows, size.k})
				chosen := make([]float64, 0, size.rows*size.k)
				for i := range size.rows {
					for p := range size.k {
						chosen = append(chosen, float64((3*i+5*p)%size.experts)) // 5 does not divide the numbers of experts
					}
				}
				out := optest.Tensor(t, dt, []int64{size.rows, size.experts})
				optest.Run(t, "MoeGatingTopKBackward", optest.Args{
					"xNorm": s, "gradY": dy, "expertIdx": optest.Tensor(t, dtype.Int32, []int64{size.rows, size.k}, chosen...),
					"renorm": 1, "normType": 1, "routedScalingFactor": factor, "eps": eps, "out": out,
				})
				want := optest.Gradient(func(x []float64) []float64 {
					w := make([]float64, len(chosen))
					for i := range size.rows {
						sum := eps
						for p := i * size.k; p < (i+1)*size.k; p++ {
							w[p] = optest.Sigmoid(x[i*size.experts+int64(chosen[p])])
							sum += w[p]
						}
						for p := i * size.k; p < (i+1)*size.k; p++ {
							w[p] *= factor / sum
						}
					}
					return w
				}, optest.Values(dy), x)
				optest.CloseTo(t, fmt.Sprint(dt, size, layout), want, optest.Values(out), 2*optest.ResultLimit(dt))
			}
		}
	}
}

func TestGroupGatingGradRefuses(t *testing.T) {
	f := dtype.Float32
	x := func(d dtype.Type, shape ...int64) *op.Tensor { return optest.Tensor(t, d, shape) }
	a := optest.Args{"xNorm": x(f, 3, 8), "gradY": x(f, 3, 2), "expertIdx": x(dtype.Int32, 3, 2), "renorm": 1, "normType": 1, "routedScalingFactor": 1.0, "eps": 1e-20, "out": x(f, 3, 8)}
	for text, set := range map[string]optest.Args{
		"for sigmoids":       {"normType": 0},
		"renorm is 2":        {"renorm": 2},
		"dtype":              {"expertIdx": x(dtype.Int64, 3, 2)},
		"as many rows":       {"gradY": x(f, 2, 2), "expertIdx": x(dtype.Int32, 2, 2)},
		"1 to all of them":   {"gradY": x(f, 3, 9), "expertIdx": x(dtype.Int32, 3, 9)},
		"dtypes differ":      {"out": x(dtype.Float16, 3, 8)},
		"must be contiguous": {"out": optest.TensorIn(t, f, kerneltest.Gapped, []int64{3, 8})},
		"they must be equal": {"out": x(f, 3, 7)},
	} {
		optest.Refused(t, op.InvalidParam, "MoeGatingTopKBackward", a.With(set), text)
	}
	optest.Refused(t, op.NullPointer, "MoeGatingTopKBackward", a.With(optest.Args{"gradY": nil}), "gradY is null")
	require.ErrorContains(t, optest.Execute(t, "MoeGatingTopKBackward", a.With(optest.Args{"expertIdx": optest.Tensor(t, dtype.Int32, []int64{3, 2}, 0, 8, 0, 0, 0, 0)})), "expertIdx has 8 for 8 experts")
}

// TestTokenPermuteV2: it computes what TokenPermute computes, whatever the quantisation on chips before the 950.
func TestTokenPermuteV2(t *testing.T) {
	for _, dt := range []dtype.Type{dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Int8} {
		for _, layout := range kerneltest.Layouts {
			for _, mode := range []int{-1, 2} {
				tokens := optest.Numbers(t, dt, layout, 5, 3)
				indices := optest.Tensor(t, dtype.Int32, []int64{5, 2}, 3, 0, 1, 2, 0, 3, 2, 1, 0, 1)
				out, places := optest.Tensor(t, dt, []int64{7, 3}), optest.Tensor(t, dtype.Int32, []int64{10})
				a := optest.Args{"tokens": tokens, "indices": indices, "numOutTokens": 7, "permuteTokensOut": out, "sortedIndicesOut": places}
				optest.Run(t, "MoeTokenPermuteV2", a.With(optest.Args{"quantMode": mode, "expandedScaleOut": optest.Tensor(t, dtype.Float32, []int64{0})}))
				x := optest.Values(tokens)
				var want []float64
				for _, row := range []int{0, 2, 4, 1, 3, 4, 1} { // of the experts 0 0 0 1 1 1 2
					want = append(want, optest.Row(x, 3, row)...)
				}
				optest.CloseTo(t, fmt.Sprint(dt, layout, mode), want, optest.Values(out), 0)
				optest.CloseTo(t, "places", []float64{8, 0, 3, 6, 1, 9, 7, 4, 2, 5}, optest.Values(places), 0)
			}
		}
	}
	x := func(d dtype.Type, shape ...int64) *op.Tensor { return optest.Tensor(t, d, shape) }
	a := optest.Args{
		"tokens": x(dtype.Float32, 2, 3), "indices": x(dtype.Int32, 2, 1), "quantMode": -1, "permuteTokensOut": x(dtype.Float32, 2, 3),
		"sortedIndicesOut": x(dtype.Int32, 2), "expandedScaleOut": x(dtype.Float32, 0),
	}
	optest.Refused(t, op.InvalidParam, "MoeTokenPermuteV2", a.With(optest.Args{"quantMode": 1}), "quantMode is 1")
	optest.Refused(t, op.InvalidParam, "MoeTokenPermuteV2", a.With(optest.Args{"expandedScaleOut": x(dtype.Float32, 2)}), "without a quantisation")
	optest.Refused(t, op.NullPointer, "MoeTokenPermuteV2", a.With(optest.Args{"expandedScaleOut": nil}), "expandedScaleOut is null")
}

package random

import (
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

func TestDistributions(t *testing.T) {
	const n = 20001
	for _, d := range []dtype.Type{dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Float64} {
		for _, l := range kerneltest.Layouts {
			x := optest.TensorIn(t, d, l, []int64{3, n / 3})
			optest.Run(t, "InplaceUniform", optest.Args{"selfRef": x, "from": -1.0, "to": 3.0, "seed": 7, "offset": 8})
			mean, std := optest.Moments(optest.Values(x))
			require.InDelta(t, 1, mean, 0.04, "%v", d)
			require.InDelta(t, 4/math.Sqrt(12), std, 0.04, "%v", d)
			require.GreaterOrEqual(t, slices.Min(optest.Values(x)), -1.0)
			require.LessOrEqual(t, slices.Max(optest.Values(x)), 3.0)

			optest.Run(t, "InplaceNormal", optest.Args{"selfRef": x, "mean": 2.0, "std": 0.5, "seed": 3})
			mean, std = optest.Moments(optest.Values(x))
			require.InDelta(t, 2, mean, 0.02, "%v", d)
			require.InDelta(t, 0.5, std, 0.02, "%v", d)

			optest.Run(t, "InplaceBernoulli", optest.Args{"selfRef": x, "prob": optest.Scalar(0.3), "seed": 1})
			mean, _ = optest.Moments(optest.Values(x))
			require.InDelta(t, 0.3, mean, 0.02, "%v", d)
		}
	}
	for _, d := range []dtype.Type{dtype.Int8, dtype.Int32, dtype.Int64, dtype.Uint8, dtype.Float32} {
		x := optest.Tensor(t, d, []int64{1000})
		optest.Run(t, "InplaceRandom", optest.Args{"selfRef": x, "from": 2, "to": 5, "seed": 9})
		require.Equal(t, []float64{2, 3, 4}, slices.Compact(slices.Sorted(slices.Values(optest.Values(x)))), "%v", d)
		optest.Run(t, "InplaceRandomWithoutFromTo", optest.Args{"selfRef": x, "seed": 9})
		require.GreaterOrEqual(t, slices.Min(optest.Values(x)), 0.0, "%v", d)
		_, std := optest.Moments(optest.Values(x))
		require.Greater(t, std, 30.0, "%v", d)
	}
	parts := optest.Tensor(t, dtype.Float32, []int64{1000, 2})
	x := optest.Of(parts.View())
	x.DType, x.Shape, x.Strides, x.Storage = dtype.Complex64, []int64{1000}, []int64{1}, []int64{1000}
	optest.Run(t, "InplaceRandom", optest.Args{"selfRef": x, "from": 2, "to": 5, "seed": 9})
	require.Equal(t, []float64{0, 2, 3, 4}, slices.Compact(slices.Sorted(slices.Values(optest.Values(parts)))), "complex numbers are real")
}

// A seed and an offset determine every element for any layout. Changing either changes the
// elements.
func TestSeedsFixElements(t *testing.T) {
	draw := func(l kerneltest.Layout, seed, offset int) []float64 {
		x := optest.TensorIn(t, dtype.Float32, l, []int64{5, 7})
		optest.Run(t, "InplaceNormal", optest.Args{"selfRef": x, "std": 1.0, "seed": seed, "offset": offset})
		return optest.Values(x)
	}
	first := draw(kerneltest.Contiguous, 1, 2)
	for _, l := range kerneltest.Layouts {
		require.Equal(t, first, draw(l, 1, 2))
	}
	require.NotEqual(t, first, draw(kerneltest.Contiguous, 2, 2))
	require.NotEqual(t, first, draw(kerneltest.Contiguous, 1, 3))
	x := optest.Tensor(t, dtype.Float32, []int64{5, 7})
	optest.Run(t, "InplaceNormalTensor", optest.Args{"selfRef": x, "std": 1.0, "seedTensor": optest.Tensor(t, dtype.Int64, []int64{1}, 1), "offsetTensor": optest.Tensor(t, dtype.Int64, []int64{1}, 0), "offset": 2})
	require.Equal(t, first, optest.Values(x))
	for _, d := range []dtype.Type{dtype.Int64, dtype.Uint64} {
		optest.Run(t, "InplaceUniformTensor", optest.Args{"selfRef": x, "to": 1.0, "seedTensor": optest.Tensor(t, d, []int64{1}, 1), "offsetTensor": optest.Tensor(t, d, []int64{1}, 0), "offset": 2})
		uniform := optest.Values(x)
		optest.Run(t, "InplaceUniform", optest.Args{"selfRef": x, "to": 1.0, "seed": 1, "offset": 2})
		require.Equal(t, uniform, optest.Values(x), "%v", d)
	}
	optest.Run(t, "InplaceNormal", optest.Args{"selfRef": x, "std": 1.0, "seed": 1, "offset": 2})
	require.Equal(t, first, optest.Values(x))
	optest.Run(t, "NormalTensorFloat", optest.Args{"mean": optest.Tensor(t, dtype.Float32, []int64{1}, 0), "std": 1.0, "seed": 1, "offset": 2, "out": x})
	require.Equal(t, first, optest.Values(x))
	optest.Refused(t, op.InvalidParam, "InplaceNormal", optest.Args{"selfRef": x, "std": -1.0}, "std")
	optest.Refused(t, op.InvalidParam, "InplaceUniform", optest.Args{"selfRef": x, "from": 1.0}, "larger")
	optest.Refused(t, op.InvalidParam, "InplaceRandom", optest.Args{"selfRef": x, "from": 1, "to": 1}, "smaller")
	optest.Refused(t, op.NullPointer, "InplaceNormalTensor", optest.Args{"selfRef": x}, "seedTensor")
}

func TestDraws(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Int64, dtype.Int32, dtype.Float32} {
		x := optest.Tensor(t, d, []int64{101})
		optest.Run(t, "Randperm", optest.Args{"n": 101, "seed": 4, "out": x})
		sorted := slices.Sorted(slices.Values(optest.Values(x)))
		require.NotEqual(t, sorted, optest.Values(x))
		for i, v := range sorted {
			require.Equal(t, float64(i), v)
		}
	}
	weights := optest.Tensor(t, dtype.Float32, []int64{2, 4}, 1, 0, 3, 0, 0, 1, 1, 2)
	out := optest.Tensor(t, dtype.Int64, []int64{2, 4000})
	optest.Run(t, "Multinomial", optest.Args{"self": weights, "numsamples": 4000, "replacement": true, "seed": 5, "out": out})
	var counts [2][4]float64
	for i, v := range optest.Values(out) {
		counts[i/4000][int(v)]++
	}
	for row, want := range [2][4]float64{{0.25, 0, 0.75, 0}, {0, 0.25, 0.25, 0.5}} {
		for k, share := range want {
			require.InDelta(t, share, counts[row][k]/4000, 0.03*math.Ceil(share))
		}
	}
	few := optest.Tensor(t, dtype.Int64, []int64{2, 2})
	optest.Run(t, "Multinomial", optest.Args{"self": weights, "numsamples": 2, "out": few})
	v := optest.Values(few)
	require.ElementsMatch(t, []float64{0, 2}, v[:2])
	require.NotEqual(t, v[2], v[3])
	require.ErrorContains(t, optest.Execute(t, "Multinomial", optest.Args{"self": weights, "numsamples": 3, "out": optest.Tensor(t, dtype.Int64, []int64{2, 3})}), "2 positive weights for 3 draws")
	optest.Refused(t, op.InvalidParam, "Multinomial", optest.Args{"self": weights, "numsamples": 5, "out": out}, "numsamples is 5")

	probabilities := optest.Tensor(t, dtype.Float32, []int64{3}, 0, 1, 0)
	hits := optest.Tensor(t, dtype.Bool, []int64{3})
	optest.Run(t, "BernoulliTensor", optest.Args{"self": hits, "prob": probabilities, "out": hits})
	require.Equal(t, []float64{0, 1, 0}, optest.Values(hits))
	require.ErrorContains(t, optest.Execute(t, "BernoulliTensor", optest.Args{"self": hits, "prob": optest.Tensor(t, dtype.Float32, []int64{3}, 2), "out": hits}), "probability 2")
	optest.Refused(t, op.InvalidParam, "Bernoulli", optest.Args{"self": hits, "prob": optest.Scalar(1.5), "out": hits}, "prob is 1.5")
}

func TestDropoutKeepsByTheBits(t *testing.T) {
	const n = 1003
	for _, d := range op.FloatTypes {
		for _, l := range kerneltest.Layouts {
			x, out := optest.TensorIn(t, d, l, []int64{17, 59}, 1, 2, 3), optest.TensorIn(t, d, l, []int64{17, 59})
			mask := optest.Tensor(t, dtype.Uint8, []int64{128}, 0)
			optest.Run(t, "Dropout", optest.Args{"input": x, "p": 0.25, "train": true, "seed": 6, "out": out, "maskOut": mask})
			bits, in, kept := optest.Values(mask), optest.Values(x), 0.0
			want := make([]float64, n)
			for i := range want {
				if int(bits[i/8])>>(i%8)&1 == 1 {
					want[i] = kerneltest.Round(d, in[i]/0.75)
					kept++
				}
			}
			require.Equal(t, want, optest.Values(out), "%v %v", d, l)
			require.InDelta(t, 0.75, kept/n, 0.05)

			again := optest.Tensor(t, dtype.Uint8, []int64{128})
			optest.Run(t, "DropoutGenMaskV2", optest.Args{"shape": []int64{17, 59}, "prob": 0.25, "seed": 6, "probDataType": d, "out": again})
			require.Equal(t, bits, optest.Values(again), "the mask of the same seed")
			grad := optest.TensorIn(t, d, l, []int64{17, 59})
			optest.Run(t, "DropoutBackward", optest.Args{"gradOutput": x, "mask": mask, "scale": 1 / 0.75, "out": grad})
			require.Equal(t, want, optest.Values(grad))
			optest.Run(t, "DropoutDoMask", optest.Args{"self": x, "mask": mask, "prob": 0.25, "out": grad})
			require.Equal(t, want, optest.Values(grad))
		}
	}
	x, out, mask := optest.Tensor(t, dtype.Float32, []int64{3}, 1, math.Inf(1), 3), optest.Tensor(t, dtype.Float32, []int64{3}), optest.Tensor(t, dtype.Uint8, []int64{16})
	optest.Run(t, "Dropout", optest.Args{"input": x, "p": 0.5, "out": out, "maskOut": mask})
	require.Equal(t, optest.Values(x), optest.Values(out), "nothing is dropped outside of training")
	optest.Run(t, "DropoutV3", optest.Args{"input": x, "p": 1.0, "out": out, "maskOut": mask})
	require.Equal(t, []float64{0, 0, 0}, optest.Values(out))
	optest.Refused(t, op.InvalidParam, "Dropout", optest.Args{"input": x, "p": 1.5, "out": out, "maskOut": mask}, "p is 1.5")
	optest.Refused(t, op.InvalidParam, "Dropout", optest.Args{"input": x, "out": out, "maskOut": optest.Tensor(t, dtype.Uint8, []int64{1}, 0)}, "16 bytes")
	optest.Refused(t, op.InvalidParam, "DropoutDoMask", optest.Args{"self": x, "mask": x, "out": out}, "dtype")
}

func TestSimThreadExponential(t *testing.T) {
	const n, lambda = 20000, 2.0
	for _, d := range op.FloatTypes {
		for _, l := range kerneltest.Layouts {
			x, again, other := optest.TensorIn(t, d, l, []int64{n / 4, 4}), optest.TensorIn(t, d, l, []int64{n / 4, 4}), optest.TensorIn(t, d, l, []int64{n / 4, 4})
			a := optest.Args{"selfRef": x, "count": n, "lambda": lambda, "seed": 7, "offset": 4}
			optest.Run(t, "SimThreadExponential", a)
			optest.Run(t, "SimThreadExponential", a.With(optest.Args{"selfRef": again}))
			optest.Run(t, "SimThreadExponential", a.With(optest.Args{"selfRef": other, "seed": 8}))
			v := optest.Values(x)
			assert.Equal(t, v, optest.Values(again))
			assert.NotEqual(t, v, optest.Values(other))
			mean, above := 0.0, 0
			for _, y := range v {
				mean += y / n
				if y > 1 {
					above++
				}
			}
			assert.GreaterOrEqual(t, slices.Min(v), 0.0)
			assert.False(t, math.IsInf(slices.Max(v), 0))
			assert.InDelta(t, 1/lambda, mean, 0.02, "%v %v", d, l)
			assert.InDelta(t, math.Exp(-lambda), float64(above)/n, 0.01, "%v %v", d, l)
			optest.Refused(t, op.InvalidParam, "SimThreadExponential", a.With(optest.Args{"lambda": 0.0}), "lambda is 0")
			optest.Refused(t, op.InvalidParam, "SimThreadExponential", a.With(optest.Args{"count": 3}), "count is 3")
			optest.Refused(t, op.InvalidParam, "SimThreadExponential", a.With(optest.Args{"selfRef": optest.Tensor(t, dtype.Int32, []int64{n}, 0)}), "dtype")
		}
	}
}

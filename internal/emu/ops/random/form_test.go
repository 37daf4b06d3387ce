package random

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// Operators that differ in how they get their arguments draw the same elements: numbers or tensors of
// one element, in place or to an output.
func TestFormsDrawTheSame(t *testing.T) {
	shape := []int64{5, 7}
	seed, offset := optest.Tensor(t, dtype.Int64, []int64{1}, 6), optest.Tensor(t, dtype.Int64, []int64{1}, 3)
	numbers, tensors := optest.Args{"seed": 6, "offset": 4}, optest.Args{"seedTensor": seed, "offsetTensor": offset, "offset": 1}
	draw := func(name, out string, d dtype.Type, shape []int64, args ...optest.Args) []float64 {
		x := optest.Tensor(t, d, shape, 0)
		a := optest.Args{out: x}
		for _, more := range args {
			a = a.With(more)
		}
		optest.Run(t, name, a)
		return optest.Values(x)
	}
	for _, d := range op.FloatTypes {
		normal := draw("InplaceNormal", "selfRef", d, shape, numbers, optest.Args{"mean": 2.0, "std": .5})
		mean, std := optest.Tensor(t, dtype.Float32, shape, 2), optest.Tensor(t, dtype.Float32, shape, .5)
		require.Equal(t, normal, draw("NormalFloatFloat", "out", d, shape, numbers, optest.Args{"mean": 2.0, "std": .5}), "%v", d)
		require.Equal(t, normal, draw("NormalFloatTensor", "out", d, shape, numbers, optest.Args{"mean": 2.0, "std": std}), "%v", d)
		require.Equal(t, normal, draw("NormalTensorTensor", "out", d, shape, numbers, optest.Args{"mean": mean, "std": std}), "%v", d)

		mask := draw("DropoutGenMaskV2", "out", dtype.Uint8, []int64{16}, numbers, optest.Args{"shape": shape, "prob": .25, "probDataType": d})
		require.Equal(t, mask, draw("DropoutGenMaskV2Tensor", "out", dtype.Uint8, []int64{16}, tensors, optest.Args{"shape": shape, "prob": .25, "probDataType": d}), "%v", d)
		require.Equal(t, mask, draw("DropoutGenMask", "out", dtype.Uint8, []int64{16}, numbers, optest.Args{"shape": shape, "prob": .25}), "%v", d)
		kept := optest.Args{"mask": optest.Tensor(t, dtype.Uint8, []int64{16}, mask...), "scale": 1 / .75}
		grad := optest.Tensor(t, d, shape, 1, 2, 3)
		require.Equal(t, draw("DropoutBackward", "out", d, shape, kept, optest.Args{"gradOutput": grad}), draw("DropoutV3Grad", "gradX", d, shape, kept, optest.Args{"gradY": grad}), "%v", d)

		weights := optest.Args{"self": optest.Tensor(t, d, []int64{2, 4}, 1, 0, 3, 0, 0, 1, 1, 2), "numsamples": 9, "replacement": true}
		require.Equal(t, draw("Multinomial", "out", dtype.Int64, []int64{2, 9}, numbers, weights), draw("MultinomialTensor", "out", dtype.Int64, []int64{2, 9}, tensors, weights), "%v", d)
	}
	for _, d := range []dtype.Type{dtype.Float32, dtype.Float16, dtype.Int32, dtype.Uint8, dtype.Bool} {
		few := optest.Args{"prob": optest.Scalar(.3)}
		hits := draw("InplaceBernoulli", "selfRef", d, shape, numbers, few)
		require.Contains(t, hits, 1.0)
		require.Contains(t, hits, 0.0)
		require.Equal(t, hits, draw("Bernoulli", "out", d, shape, numbers, few, optest.Args{"self": optest.Tensor(t, d, shape, 0)}), "%v", d)
		probabilities := optest.Args{"prob": optest.Tensor(t, dtype.Float32, shape, .3)}
		require.Equal(t, hits, draw("InplaceBernoulliTensor", "selfRef", d, shape, numbers, probabilities), "%v", d)
		for _, one := range [][]int64{nil, {1}, {1, 1, 1}} {
			probability := optest.Args{"prob": optest.Tensor(t, dtype.Float32, one, .3)}
			require.Equal(t, hits, draw("InplaceBernoulliTensor", "selfRef", d, shape, numbers, probability), "%v %v", d, one)
			require.Equal(t, hits, draw("BernoulliTensor", "out", d, shape, numbers, probability, optest.Args{"self": optest.Tensor(t, d, shape, 0)}), "%v %v", d, one)
		}

		bounds := optest.Args{"from": 0, "to": 2}
		require.Equal(t, draw("InplaceRandom", "selfRef", d, shape, numbers, bounds), draw("InplaceRandomTensor", "selfRef", d, shape, tensors, bounds), "%v", d)
		require.Equal(t, draw("InplaceRandomWithoutFromTo", "selfRef", d, shape, numbers), draw("InplaceRandomWithoutFromToTensor", "selfRef", d, shape, tensors), "%v", d)
	}
}

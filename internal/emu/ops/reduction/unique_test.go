package reduction

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestUniqueForms(t *testing.T) {
	x := []float64{3, 1, 1, 3, 2, 1}
	for _, d := range optest.OrderedTypes {
		for _, l := range kerneltest.Layouts {
			self := optest.TensorIn(t, d, l, []int64{2, 3}, x...)
			value, inverse, counts := optest.Tensor(t, d, []int64{6}), optest.Tensor(t, dtype.Int64, []int64{2, 3}), optest.Tensor(t, dtype.Int64, []int64{6})
			optest.Run(t, "Unique2", optest.Args{"self": self, "sorted": true, "returnInverse": true, "returnCounts": true, "valueOut": value, "inverseOut": inverse, "countsOut": counts})
			require.Equal(t, []int64{3}, value.Shape)
			require.Equal(t, []float64{1, 2, 3}, optest.Values(value), "%v %v", d, l)
			require.Equal(t, []float64{2, 0, 0, 2, 1, 0}, optest.Values(inverse), "%v %v", d, l)
			require.Equal(t, []float64{3, 1, 2}, optest.Values(counts), "%v %v", d, l)

			value, inverse, counts = optest.Tensor(t, d, []int64{6}), optest.Tensor(t, dtype.Int64, []int64{2, 3}), optest.Tensor(t, dtype.Int64, []int64{6})
			optest.Run(t, "UniqueConsecutive", optest.Args{"self": self, "returnInverse": true, "returnCounts": true, "dim": noDimension, "valueOut": value, "inverseOut": inverse, "countsOut": counts})
			require.Equal(t, []float64{3, 1, 3, 2, 1}, optest.Values(value), "%v %v", d, l)
			require.Equal(t, []float64{0, 1, 1, 2, 3, 4}, optest.Values(inverse), "%v %v", d, l)
			require.Equal(t, []float64{1, 2, 1, 1, 1}, optest.Values(counts), "%v %v", d, l)

			columns := optest.TensorIn(t, d, l, []int64{2, 3}, 5, 4, 5, 1, 9, 1)
			value, inverse, counts = optest.Tensor(t, d, []int64{2, 3}), optest.Tensor(t, dtype.Int64, []int64{3}), optest.Tensor(t, dtype.Int64, []int64{3})
			optest.Run(t, "UniqueDim", optest.Args{"self": columns, "sorted": true, "returnInverse": true, "dim": 1, "valueOut": value, "inverseOut": inverse, "countsOut": counts})
			require.Equal(t, []int64{2, 2}, value.Shape)
			require.Equal(t, []float64{4, 5, 9, 1}, optest.Values(value), "%v %v", d, l)
			require.Equal(t, []float64{1, 0, 1}, optest.Values(inverse), "%v %v", d, l)
			require.Equal(t, []float64{1, 2}, optest.Values(counts), "%v %v", d, l)
		}
	}
	value, inverse := optest.Tensor(t, dtype.Float32, []int64{3}), optest.Tensor(t, dtype.Int64, []int64{3})
	optest.Run(t, "Unique", optest.Args{"self": optest.Tensor(t, dtype.Float32, []int64{3}, math.NaN(), 1, math.NaN()), "returnInverse": true, "valueOut": value, "inverseOut": inverse})
	require.Equal(t, []int64{3}, value.Shape, "a NaN is distinct from another")
	optest.Run(t, "Unique", optest.Args{"self": optest.Tensor(t, dtype.Float32, []int64{0, 2}), "valueOut": value, "inverseOut": inverse})
	require.Equal(t, []int64{0}, value.Shape)
	optest.Refused(t, op.NullPointer, "Unique", optest.Args{"self": value, "returnInverse": true, "valueOut": value}, "inverseOut")
	require.ErrorContains(t, optest.Execute(t, "Unique", optest.Args{"self": optest.Tensor(t, dtype.Float32, []int64{3}, 1, 2, 3), "valueOut": optest.Tensor(t, dtype.Float32, []int64{2}), "inverseOut": inverse}), "no room")
}

func TestUniqueRunsOfComplex(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Complex64, dtype.Complex128} {
		x, _ := complexOf(t, d, []int64{2, 2}, 1, 2, 1, 2, 1, -2, 1, 2)
		value, parts := complexOf(t, d, []int64{4}, 0)
		inverse, counts := optest.Tensor(t, dtype.Int64, []int64{2, 2}), optest.Tensor(t, dtype.Int64, []int64{4})
		a := optest.Args{"self": x, "returnInverse": true, "returnCounts": true, "dim": noDimension, "valueOut": value, "inverseOut": inverse, "countsOut": counts}
		optest.Run(t, "UniqueConsecutive", a)
		require.Equal(t, []float64{1, 2, 1, -2, 1, 2}, optest.Values(parts)[:6])
		require.Equal(t, []float64{0, 0, 1, 2}, optest.Values(inverse))
		require.Equal(t, []float64{2, 1, 1}, optest.Values(counts))
		columns, _ := complexOf(t, d, []int64{2, 2}, 1, 2, 1, 2, 5, 0, 5, 0)
		inverse = optest.Tensor(t, dtype.Int64, []int64{2})
		value, _ = complexOf(t, d, []int64{2, 2})
		optest.Run(t, "UniqueConsecutive", a.With(optest.Args{"self": columns, "dim": 1, "valueOut": value, "inverseOut": inverse}))
		require.Equal(t, []int64{2, 1}, value.Shape)
		require.Equal(t, []float64{0, 0}, optest.Values(inverse))
	}
}

package reduction

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// complexOf returns a complex tensor and the tensor of its parts, [..., 2].
func complexOf(t *testing.T, d dtype.Type, shape []int64, parts ...float64) (x, of *op.Tensor) {
	of = optest.Tensor(t, op.PartTypes[d], append(append([]int64{}, shape...), 2), parts...)
	x = optest.Of(of.View())
	x.DType, x.Shape, x.Strides, x.Storage = d, shape, op.ContiguousStrides(shape), shape
	return x, of
}

func TestComplexSums(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Complex64, dtype.Complex128} {
		x, _ := complexOf(t, d, []int64{2, 2}, 1, 2, 3, 4, 5, -6, 7, 8)
		out, parts := complexOf(t, d, []int64{2}, 1, 1, 1, 1)
		optest.Run(t, "ReduceSum", optest.Args{"self": x, "dims": []int64{0}, "dtype": int64(d), "out": out})
		assert.Equal(t, []float64{6, -4, 10, 12}, optest.Values(parts))
		kept, parts := complexOf(t, d, []int64{2, 1})
		optest.Run(t, "Mean", optest.Args{"self": x, "dim": []int64{1}, "keepDim": true, "dtype": int64(d), "out": kept})
		assert.Equal(t, []float64{2, 3, 6, 1}, optest.Values(parts))
		sums, parts := complexOf(t, d, []int64{2, 2})
		optest.Run(t, "Cumsum", optest.Args{"self": x, "dim": 1, "dtype": int64(d), "out": sums})
		assert.Equal(t, []float64{1, 2, 4, 6, 5, -6, 12, 2}, optest.Values(parts))
	}
}

func TestComplexProducts(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Complex64, dtype.Complex128} {
		x, _ := complexOf(t, d, []int64{2, 2}, 1, 2, 3, 4, 5, -6, 7, 8)
		for axis, want := range [][]float64{{17, 4, -11, 52}, {-5, 10, 83, -2}} {
			out, parts := complexOf(t, d, []int64{2})
			optest.Run(t, "ProdDim", optest.Args{"self": x, "dim": axis, "dtype": int64(d), "out": out})
			assert.Equal(t, want, optest.Values(parts))
		}
		all, parts := complexOf(t, d, []int64{})
		optest.Run(t, "Prod", optest.Args{"self": x, "dtype": int64(d), "out": all})
		assert.Equal(t, []float64{-395, 840}, optest.Values(parts))
	}
}

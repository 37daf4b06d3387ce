package matmul

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// tiled returns a weight in FRACTAL_NZ storage with the elements of another one.
func tiled(t *testing.T, plain *op.Tensor) *op.Tensor {
	nz := optest.NZ(t, plain.DType, plain.Shape, false, 32/int64(plain.DType.Size()))
	optest.StoreNZ(t, nz, plain)
	return nz
}

// A product does not depend on how the weight is stored.
func TestProductsWithNzWeights(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Float16, dtype.BFloat16} {
		dense := func(seed uint64, shape ...int64) *op.Tensor {
			return optest.Filled(t, seed, d, kerneltest.Contiguous, shape)
		}
		for _, c := range []struct {
			plain, stored, weight string
			args                  optest.Args
			out                   []int64
		}{
			{"Mm", "MatmulWeightNz", "mat2", optest.Args{"self": dense(1, 3, 20), "mat2": dense(2, 20, 33)}, []int64{3, 33}},
			{"BatchMatMul", "BatchMatMulWeightNz", "mat2", optest.Args{"self": dense(1, 2, 3, 20), "mat2": dense(2, 2, 20, 33)}, []int64{2, 3, 33}},
			{"Addmm", "AddmmWeightNz", "mat2", optest.Args{
				"self": dense(3, 3, 33), "mat1": dense(1, 3, 20), "mat2": dense(2, 20, 33), "beta": optest.Scalar(.5), "alpha": optest.Scalar(2.0),
			}, []int64{3, 33}},
			{"TransposeBatchMatMul", "TransposeBatchMatMulWeightNz", "x2", optest.Args{
				"x1": dense(1, 3, 2, 16), "x2": dense(2, 2, 16, 32), "permX1": []int64{1, 0, 2}, "permX2": []int64{0, 1, 2}, "permY": []int64{1, 0, 2}, "batchSplitFactor": 1,
			}, []int64{3, 2, 32}},
		} {
			want, got := optest.Tensor(t, d, c.out), optest.Tensor(t, d, c.out)
			optest.Run(t, c.plain, c.args.With(optest.Args{"out": want}))
			optest.Run(t, c.stored, c.args.With(optest.Args{"out": got, c.weight: tiled(t, c.args[c.weight].(*op.Tensor))}))
			require.Equal(t, optest.Values(want), optest.Values(got), "%v %s", d, c.stored)
		}
		x, w, y, same := dense(1, 4, 16), dense(2, 2, 16, 16), optest.Tensor(t, d, []int64{4, 16}), optest.Tensor(t, d, []int64{4, 16})
		optest.Run(t, "GroupedMatmulV5", groupedArgs(x, w, listed(t, 0, 1, 3), y))
		optest.Run(t, "GroupedMatmulWeightNz", groupedArgs(x, tiled(t, w), listed(t, 0, 1, 3), same))
		require.Equal(t, optest.Values(y), optest.Values(same), "%v", d)
	}
}

// Storage whose tiles have no columns is refused: a storage shape that ends in 0, and element types without
// a size.
func TestNzWeightsWithoutColumns(t *testing.T) {
	d := dtype.Float16
	x := optest.Tensor(t, d, []int64{2, 3, 32})
	nothing := tiled(t, optest.Tensor(t, d, []int64{2, 32, 32}))
	nothing.Storage = []int64{2, 2, 2, 16, 0}
	unsized := tiled(t, optest.Tensor(t, d, []int64{2, 32, 32}))
	unsized.DType, unsized.Storage = dtype.String, []int64{2, 32, 32}
	for _, w := range []*op.Tensor{nothing, unsized} {
		matrix := *w
		matrix.Shape, matrix.Strides, matrix.Storage = w.Shape[1:], w.Strides[1:], w.Storage[1:]
		row := optest.Tensor(t, d, []int64{3, 32})
		optest.Refused(t, op.InvalidParam, "BatchMatMulWeightNz", optest.Args{"self": x, "mat2": w, "out": x})
		optest.Refused(t, op.InvalidParam, "MatmulWeightNz", optest.Args{"self": row, "mat2": &matrix, "out": row})
		optest.Refused(t, op.InvalidParam, "AddmmWeightNz", optest.Args{
			"self": row, "mat1": row, "mat2": &matrix, "beta": optest.Scalar(1.0), "alpha": optest.Scalar(1.0), "out": row,
		})
	}
}

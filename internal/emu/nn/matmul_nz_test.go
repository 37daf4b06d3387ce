package nn

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestMatmulWithNzWeight(t *testing.T) {
	for _, op := range []string{"Mm", "MatmulWeightNz", "Matmul"} {
		x := optest.Tensor(t, dtype.Float16, []int64{3, 20}, 1, 2, 3)
		w := optest.Tensor(t, dtype.Float16, []int64{32 * 48}, 1, -1, 2, 5)
		w.Shape, w.Strides, w.Storage = []int64{20, 33}, []int64{33, 1}, []int64{660}
		plain, tiled := optest.Tensor(t, dtype.Float16, []int64{3, 33}), optest.Tensor(t, dtype.Float16, []int64{3, 33})
		optest.Run(t, "Mm", optest.Args{"self": x, "mat2": w, "out": plain})
		optest.Run(t, "TransMatmulWeight", optest.Args{"mmWeightRef": w})
		optest.Run(t, op, optest.Args{"self": x, "mat2": w, "out": tiled})
		require.Equal(t, optest.Values(plain), optest.Values(tiled))
		// The view of the same storage with swapped strides is the transpose.
		y, back, again := optest.Tensor(t, dtype.Float16, []int64{2, 33}, 1, 0, 2), optest.Tensor(t, dtype.Float16, []int64{2, 20}), optest.Tensor(t, dtype.Float16, []int64{2, 20})
		swapped := *w
		swapped.Shape, swapped.Strides = []int64{33, 20}, []int64{1, 33}
		optest.Run(t, op, optest.Args{"self": y, "mat2": &swapped, "out": back})
		nd := optest.Tensor(t, dtype.Float16, []int64{20, 33}, 1, -1, 2, 5)
		nd.Shape, nd.Strides = swapped.Shape, swapped.Strides
		optest.Run(t, "Mm", optest.Args{"self": y, "mat2": nd, "out": again})
		require.Equal(t, optest.Values(again), optest.Values(back))
	}
	one := optest.NZ(t, dtype.Float16, []int64{1, 16}, false, 16)
	optest.Refused(t, op.InvalidParam, "MatmulWeightNz", optest.Args{"self": optest.Tensor(t, dtype.Float16, []int64{3, 1}), "mat2": one, "out": optest.Tensor(t, dtype.Float16, []int64{3, 16})}, "may be 1")
}

// The matrices of a batch of weights are stored one after the other.
func TestBatchMatmulWithNzWeight(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Float16, dtype.BFloat16} {
		for _, batch := range []int64{1, 3} {
			x, w := optest.Filled(t, 1, d, kerneltest.Contiguous, []int64{3, 2, 20}), optest.Filled(t, 2, d, kerneltest.Contiguous, []int64{batch, 20, 33})
			tiled := optest.NZ(t, d, []int64{batch, 20, 33}, false, 16)
			optest.Run(t, "NpuFormatCast", optest.Args{"srcTensor": w, "dstTensor": tiled})
			want, got := optest.Tensor(t, d, []int64{3, 2, 33}), optest.Tensor(t, d, []int64{3, 2, 33})
			optest.Run(t, "BatchMatMul", optest.Args{"self": x, "mat2": w, "out": want})
			optest.Run(t, "BatchMatMulWeightNz", optest.Args{"self": x, "mat2": tiled, "out": got})
			require.Equal(t, optest.Values(want), optest.Values(got), "%v %d", d, batch)
		}
	}
	optest.Refused(t, op.InvalidParam, "BatchMatMulWeightNz", optest.Args{"self": optest.Tensor(t, dtype.Float16, []int64{2, 3}), "mat2": optest.NZ(t, dtype.Float16, []int64{16, 16}, false, 16), "out": optest.Tensor(t, dtype.Float16, []int64{2, 16})}, "dimensions")
}

package reduction

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestSortAndTopK(t *testing.T) {
	x := []float64{3, 1, 2, 9, 7, 8, 3, 3, 1}
	for _, d := range []dtype.Type{dtype.Float32, dtype.BFloat16, dtype.Float16, dtype.Int8, dtype.Int64, dtype.Uint8} {
		for _, l := range kerneltest.Layouts {
			self := optest.TensorIn(t, d, l, []int64{3, 3}, x...)
			v, at := optest.TensorIn(t, d, l, []int64{3, 3}), optest.TensorIn(t, dtype.Int64, l, []int64{3, 3})
			optest.Run(t, "Sort", optest.Args{"self": self, "stable": true, "dim": -1, "descending": false, "valuesOut": v, "indicesOut": at})
			require.Equal(t, []float64{1, 2, 3, 7, 8, 9, 1, 3, 3}, optest.Values(v), "%v %v", d, l)
			require.Equal(t, []float64{1, 2, 0, 1, 2, 0, 2, 0, 1}, optest.Values(at), "%v %v", d, l)
			optest.Run(t, "Argsort", optest.Args{"self": self, "dim": 0, "descending": true, "out": at})
			require.Equal(t, []float64{1, 1, 1, 0, 2, 0, 2, 0, 2}, optest.Values(at), "%v %v", d, l)
			v, at = optest.TensorIn(t, d, l, []int64{3, 2}), optest.TensorIn(t, dtype.Int64, l, []int64{3, 2})
			optest.Run(t, "Topk", optest.Args{"self": self, "k": 2, "dim": 1, "largest": true, "sorted": true, "valuesOut": v, "indicesOut": at})
			require.Equal(t, []float64{3, 2, 9, 8, 3, 3}, optest.Values(v), "%v %v", d, l)
			require.Equal(t, []float64{0, 2, 0, 2, 0, 1}, optest.Values(at), "%v %v", d, l)
		}
	}
	one, v, at := optest.Tensor(t, dtype.Float32, []int64{}, 4), optest.Tensor(t, dtype.Float32, []int64{}), optest.Tensor(t, dtype.Int64, []int64{})
	optest.Run(t, "Topk", optest.Args{"self": one, "k": 1, "dim": 0, "largest": true, "sorted": true, "valuesOut": v, "indicesOut": at})
	require.Equal(t, []float64{4}, optest.Values(v))
	v, at = optest.Tensor(t, dtype.Float32, []int64{1}), optest.Tensor(t, dtype.Int64, []int64{1}, 7)
	optest.Run(t, "Topk", optest.Args{"self": one, "k": 1, "dim": -1, "largest": true, "sorted": true, "valuesOut": v, "indicesOut": at})
	require.Equal(t, []float64{4, 0}, append(optest.Values(v), optest.Values(at)...))
	v = optest.Tensor(t, dtype.Float32, []int64{})
	empty, none := optest.Tensor(t, dtype.Float32, []int64{2, 0}), optest.Tensor(t, dtype.Int64, []int64{2, 0})
	optest.Run(t, "Sort", optest.Args{"self": empty, "dim": 1, "valuesOut": empty, "indicesOut": none})
	optest.Refused(t, op.InvalidParam, "Topk", optest.Args{"self": empty, "k": 1, "dim": 1, "valuesOut": empty, "indicesOut": none}, "k is 1", "0 elements")
	optest.Refused(t, op.InvalidParam, "Sort", optest.Args{"self": one, "dim": 0, "valuesOut": v, "indicesOut": optest.Tensor(t, dtype.Int32, []int64{})}, "dtype")
	optest.Refused(t, op.NullPointer, "Argsort", optest.Args{"self": one}, "out is null")
}

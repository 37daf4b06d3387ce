package reduction

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestRanksAgainstSorting(t *testing.T) {
	x := []float64{5, 2, 9, 4, 7, 1, 3, 3, 8, 0, 6, 2}
	for _, d := range optest.OrderedTypes {
		if d == dtype.Float64 { // for older chips
			continue
		}
		for _, l := range kerneltest.Layouts {
			self := optest.TensorIn(t, d, l, []int64{3, 4}, x...)
			v, at := optest.TensorIn(t, d, l, []int64{3, 1}), optest.TensorIn(t, dtype.Int64, l, []int64{3, 1})
			for k := 1; k <= 4; k++ {
				optest.Run(t, "Kthvalue", optest.Args{"self": self, "k": k, "dim": 1, "keepdim": true, "valuesOut": v, "indicesOut": at})
				for row := range 3 {
					sorted := slices.Sorted(slices.Values(x[row*4 : row*4+4]))
					require.Equal(t, sorted[k-1], optest.Values(v)[row], "%v %v", d, l)
					require.Equal(t, sorted[k-1], x[row*4+int(optest.Values(at)[row])])
				}
			}
			v, at = optest.TensorIn(t, d, l, []int64{4}), optest.TensorIn(t, dtype.Int64, l, []int64{4})
			optest.Run(t, "MedianDim", optest.Args{"self": self, "dim": 0, "valuesOut": v, "indicesOut": at})
			require.Equal(t, []float64{7, 1, 6, 3}, optest.Values(v), "%v %v", d, l)
			require.Equal(t, []float64{1, 1, 2, 1}, optest.Values(at), "%v %v", d, l)
			all := optest.Tensor(t, d, []int64{})
			optest.Run(t, "Median", optest.Args{"self": self, "valuesOut": all})
			require.Equal(t, []float64{3}, optest.Values(all))
		}
	}
	nan := math.NaN()
	self := optest.Tensor(t, dtype.Float32, []int64{2, 3}, 4, nan, 2, nan, nan, nan)
	v, at := optest.Tensor(t, dtype.Float32, []int64{2}), optest.Tensor(t, dtype.Int64, []int64{2})
	optest.Run(t, "MedianDim", optest.Args{"self": self, "dim": 1, "valuesOut": v, "indicesOut": at})
	require.Equal(t, []float64{1, 0}, optest.Values(at), "the first NaN")
	optest.Run(t, "NanMedianDim", optest.Args{"self": self, "dim": 1, "valuesOut": v, "indicesOut": at})
	require.Equal(t, 2.0, optest.Values(v)[0])
	require.True(t, math.IsNaN(optest.Values(v)[1]))
	all := optest.Tensor(t, dtype.Float32, []int64{})
	optest.Run(t, "NanMedian", optest.Args{"self": self, "out": all})
	require.Equal(t, []float64{2}, optest.Values(all))
	optest.Refused(t, op.InvalidParam, "Kthvalue", optest.Args{"self": self, "k": 4, "dim": 1, "valuesOut": v, "indicesOut": at}, "k is 4")
	optest.Run(t, "MedianDim", optest.Args{"self": optest.Tensor(t, dtype.Float32, []int64{2, 0}), "dim": 1, "valuesOut": v, "indicesOut": at})
	require.Equal(t, 2.0, optest.Values(v)[0], "CANN starts no kernel")
}

func TestCounts(t *testing.T) {
	self := optest.Tensor(t, dtype.Int32, []int64{5}, 1, 3, 1, 0, 1)
	out := optest.Tensor(t, dtype.Int64, []int64{5})
	optest.Run(t, "Bincount", optest.Args{"self": self, "minlength": 5, "out": out})
	require.Equal(t, []float64{1, 3, 0, 1, 0}, optest.Values(out))
	sums := optest.Tensor(t, dtype.Float32, []int64{4})
	optest.Run(t, "Bincount", optest.Args{"self": self, "weights": optest.Tensor(t, dtype.Float32, []int64{5}, 0.5, 2, 1, 4, 8), "out": sums})
	require.Equal(t, []float64{4, 9.5, 0, 2}, optest.Values(sums))
	require.ErrorContains(t, optest.Execute(t, "Bincount", optest.Args{"self": self, "out": optest.Tensor(t, dtype.Int64, []int64{2})}), "element 1 is 3")
	optest.Refused(t, op.InvalidParam, "Bincount", optest.Args{"self": sums, "out": out}, "integer")

	for _, d := range []dtype.Type{dtype.Float32, dtype.Float16, dtype.Int32} {
		for _, l := range kerneltest.Layouts {
			bins := optest.TensorIn(t, d, l, []int64{4})
			optest.Run(t, "Histc", optest.Args{"self": optest.TensorIn(t, d, l, []int64{2, 4}, 0, 1, 2, 3, 4, 8, 9, -1), "bins": 4, "min": optest.Scalar(0), "max": optest.Scalar(8), "out": bins})
			require.Equal(t, []float64{2, 2, 1, 1}, optest.Values(bins), "%v %v", d, l)
			optest.Run(t, "Histc", optest.Args{"self": optest.TensorIn(t, d, l, []int64{2, 2}, 0, 4, 2, 1), "bins": 4, "min": optest.Scalar(0), "max": optest.Scalar(0), "out": bins})
			require.Equal(t, []float64{1, 1, 1, 1}, optest.Values(bins), "%v %v", d, l)
		}
	}
	optest.Refused(t, op.InvalidParam, "Histc", optest.Args{"self": sums, "bins": 4, "min": optest.Scalar(1), "max": optest.Scalar(0), "out": sums}, "larger")
}

package nn

import (
	"math"
	"slices"
	"sort"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

var orderedTypes = []dtype.Type{dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Float64, dtype.Int8, dtype.Int32, dtype.Int64, dtype.Uint8}

func TestUniqueForms(t *testing.T) {
	x := []float64{3, 1, 1, 3, 2, 1}
	for _, d := range orderedTypes {
		for _, l := range kerneltest.Layouts {
			self := tensorIn(t, d, l, []int64{2, 3}, x...)
			value, inverse, counts := tensor(t, d, []int64{6}), tensor(t, dtype.Int64, []int64{2, 3}), tensor(t, dtype.Int64, []int64{6})
			run(t, "Unique2", args{"self": self, "sorted": true, "returnInverse": true, "returnCounts": true, "valueOut": value, "inverseOut": inverse, "countsOut": counts})
			require.Equal(t, []int64{3}, shapeAfter(value))
			require.Equal(t, []float64{1, 2, 3}, values(value), "%v %v", d, l)
			require.Equal(t, []float64{2, 0, 0, 2, 1, 0}, values(inverse), "%v %v", d, l)
			require.Equal(t, []float64{3, 1, 2}, values(counts), "%v %v", d, l)

			value, inverse, counts = tensor(t, d, []int64{6}), tensor(t, dtype.Int64, []int64{2, 3}), tensor(t, dtype.Int64, []int64{6})
			run(t, "UniqueConsecutive", args{"self": self, "returnInverse": true, "returnCounts": true, "dim": noDimension, "valueOut": value, "inverseOut": inverse, "countsOut": counts})
			require.Equal(t, []float64{3, 1, 3, 2, 1}, values(value), "%v %v", d, l)
			require.Equal(t, []float64{0, 1, 1, 2, 3, 4}, values(inverse), "%v %v", d, l)
			require.Equal(t, []float64{1, 2, 1, 1, 1}, values(counts), "%v %v", d, l)

			columns := tensorIn(t, d, l, []int64{2, 3}, 5, 4, 5, 1, 9, 1)
			value, inverse, counts = tensor(t, d, []int64{2, 3}), tensor(t, dtype.Int64, []int64{3}), tensor(t, dtype.Int64, []int64{3})
			run(t, "UniqueDim", args{"self": columns, "sorted": true, "returnInverse": true, "dim": 1, "valueOut": value, "inverseOut": inverse, "countsOut": counts})
			require.Equal(t, []int64{2, 2}, shapeAfter(value))
			require.Equal(t, []float64{4, 5, 9, 1}, values(value), "%v %v", d, l)
			require.Equal(t, []float64{1, 0, 1}, values(inverse), "%v %v", d, l)
			require.Equal(t, []float64{1, 2}, values(counts), "%v %v", d, l)
		}
	}
	value, inverse := tensor(t, dtype.Float32, []int64{3}), tensor(t, dtype.Int64, []int64{3})
	run(t, "Unique", args{"self": tensor(t, dtype.Float32, []int64{3}, math.NaN(), 1, math.NaN()), "returnInverse": true, "valueOut": value, "inverseOut": inverse})
	require.Equal(t, []int64{3}, shapeAfter(value), "a NaN is distinct from another")
	run(t, "Unique", args{"self": tensor(t, dtype.Float32, []int64{0, 2}), "valueOut": value, "inverseOut": inverse})
	require.Equal(t, []int64{0}, shapeAfter(value))
	refused(t, nullPointer, "Unique", args{"self": value, "returnInverse": true, "valueOut": value}, "inverseOut")
	require.ErrorContains(t, execute(t, "Unique", args{"self": tensor(t, dtype.Float32, []int64{3}, 1, 2, 3), "valueOut": tensor(t, dtype.Float32, []int64{2}), "inverseOut": inverse}), "no room")
}

func TestSearchAgainstDefinition(t *testing.T) {
	bounds := []float64{1, 3, 3, 7}
	x := []float64{0, 1, 3, 5, 7, 9}
	for _, d := range orderedTypes {
		for _, l := range kerneltest.Layouts {
			for _, right := range []bool{false, true} {
				var want []float64
				for _, v := range x {
					want = append(want, float64(sort.Search(len(bounds), func(i int) bool { return bounds[i] > v || !right && bounds[i] == v })))
				}
				out := tensorIn(t, dtype.Int32, l, []int64{2, 3})
				self, sorted := tensorIn(t, d, l, []int64{2, 3}, x...), tensor(t, d, []int64{4}, bounds...)
				run(t, "Bucketize", args{"self": self, "boundaries": sorted, "outInt32": true, "right": right, "out": out})
				require.Equal(t, want, values(out), "%v %v", d, l)
				shuffled := tensor(t, d, []int64{4}, 7, 3, 1, 3)
				run(t, "SearchSorted", args{"sortedSequence": shuffled, "self": self, "outInt32": true, "right": right, "sorter": tensor(t, dtype.Int64, []int64{4}, 2, 1, 3, 0), "out": out})
				require.Equal(t, want, values(out), "%v %v", d, l)
				one := tensor(t, dtype.Int64, []int64{})
				run(t, "SearchSorteds", args{"sortedSequence": sorted, "self": scalar(3), "right": right, "out": one})
				require.Equal(t, want[2:3], values(one))
			}
		}
	}
	rows := tensor(t, dtype.Float32, []int64{2, 3}, 1, 2, 3, 10, 20, 30)
	out := tensor(t, dtype.Int64, []int64{2, 2})
	run(t, "SearchSorted", args{"sortedSequence": rows, "self": tensor(t, dtype.Float32, []int64{2, 2}, 2, 5, 2, 25), "out": out})
	require.Equal(t, []float64{1, 3, 0, 2}, values(out))
	refused(t, invalidParam, "Bucketize", args{"self": rows, "boundaries": rows, "out": out}, "dimensions")
	refused(t, invalidParam, "SearchSorted", args{"sortedSequence": rows, "self": tensor(t, dtype.Float32, []int64{3, 2}, 1), "out": tensor(t, dtype.Int64, []int64{3, 2})}, "leading dimensions")
}

func TestCounts(t *testing.T) {
	self := tensor(t, dtype.Int32, []int64{5}, 1, 3, 1, 0, 1)
	out := tensor(t, dtype.Int64, []int64{5})
	run(t, "Bincount", args{"self": self, "minlength": 5, "out": out})
	require.Equal(t, []float64{1, 3, 0, 1, 0}, values(out))
	sums := tensor(t, dtype.Float32, []int64{4})
	run(t, "Bincount", args{"self": self, "weights": tensor(t, dtype.Float32, []int64{5}, 0.5, 2, 1, 4, 8), "out": sums})
	require.Equal(t, []float64{4, 9.5, 0, 2}, values(sums))
	require.ErrorContains(t, execute(t, "Bincount", args{"self": self, "out": tensor(t, dtype.Int64, []int64{2})}), "element 1 is 3")
	refused(t, invalidParam, "Bincount", args{"self": sums, "out": out}, "integer")

	for _, d := range []dtype.Type{dtype.Float32, dtype.Float16, dtype.Int32} {
		for _, l := range kerneltest.Layouts {
			bins := tensorIn(t, d, l, []int64{4})
			run(t, "Histc", args{"self": tensorIn(t, d, l, []int64{2, 4}, 0, 1, 2, 3, 4, 8, 9, -1), "bins": 4, "min": scalar(0), "max": scalar(8), "out": bins})
			require.Equal(t, []float64{2, 2, 1, 1}, values(bins), "%v %v", d, l)
			run(t, "Histc", args{"self": tensorIn(t, d, l, []int64{2, 2}, 0, 4, 2, 1), "bins": 4, "min": scalar(0), "max": scalar(0), "out": bins})
			require.Equal(t, []float64{1, 1, 1, 1}, values(bins), "%v %v", d, l)
		}
	}
	refused(t, invalidParam, "Histc", args{"self": sums, "bins": 4, "min": scalar(1), "max": scalar(0), "out": sums}, "larger")

	truth := tensor(t, dtype.Bool, []int64{5})
	run(t, "IsInTensorScalar", args{"element": self, "testElement": scalar(1), "invert": true, "out": truth})
	require.Equal(t, []float64{0, 1, 0, 1, 0}, values(truth))
	one := tensor(t, dtype.Bool, []int64{})
	for v, want := range map[int]float64{3: 1, 4: 0} {
		run(t, "IsInScalarTensor", args{"element": scalar(v), "testElements": self, "out": one})
		require.Equal(t, []float64{want}, values(one))
		run(t, "IsInScalarTensor", args{"element": scalar(v), "testElements": self, "invert": true, "out": one})
		require.Equal(t, []float64{1 - want}, values(one))
	}
}

func TestRanksAgainstSorting(t *testing.T) {
	x := []float64{5, 2, 9, 4, 7, 1, 3, 3, 8, 0, 6, 2}
	for _, d := range orderedTypes {
		for _, l := range kerneltest.Layouts {
			self := tensorIn(t, d, l, []int64{3, 4}, x...)
			v, at := tensorIn(t, d, l, []int64{3, 1}), tensorIn(t, dtype.Int64, l, []int64{3, 1})
			for k := 1; k <= 4; k++ {
				run(t, "Kthvalue", args{"self": self, "k": k, "dim": 1, "keepdim": true, "valuesOut": v, "indicesOut": at})
				for row := range 3 {
					sorted := slices.Sorted(slices.Values(x[row*4 : row*4+4]))
					require.Equal(t, sorted[k-1], values(v)[row], "%v %v", d, l)
					require.Equal(t, sorted[k-1], x[row*4+int(values(at)[row])])
				}
			}
			v, at = tensorIn(t, d, l, []int64{4}), tensorIn(t, dtype.Int64, l, []int64{4})
			run(t, "MedianDim", args{"self": self, "dim": 0, "valuesOut": v, "indicesOut": at})
			require.Equal(t, []float64{7, 1, 6, 3}, values(v), "%v %v", d, l)
			require.Equal(t, []float64{1, 1, 2, 1}, values(at), "%v %v", d, l)
			all := tensor(t, d, []int64{})
			run(t, "Median", args{"self": self, "valuesOut": all})
			require.Equal(t, []float64{3}, values(all))
		}
	}
	nan := math.NaN()
	self := tensor(t, dtype.Float32, []int64{2, 3}, 4, nan, 2, nan, nan, nan)
	v, at := tensor(t, dtype.Float32, []int64{2}), tensor(t, dtype.Int64, []int64{2})
	run(t, "MedianDim", args{"self": self, "dim": 1, "valuesOut": v, "indicesOut": at})
	require.Equal(t, []float64{1, 0}, values(at), "the first NaN")
	run(t, "NanMedianDim", args{"self": self, "dim": 1, "valuesOut": v, "indicesOut": at})
	require.Equal(t, 2.0, values(v)[0])
	require.True(t, math.IsNaN(values(v)[1]))
	all := tensor(t, dtype.Float32, []int64{})
	run(t, "NanMedian", args{"self": self, "out": all})
	require.Equal(t, []float64{2}, values(all))
	refused(t, invalidParam, "Kthvalue", args{"self": self, "k": 4, "dim": 1, "valuesOut": v, "indicesOut": at}, "k is 4")
	refused(t, invalidParam, "MedianDim", args{"self": tensor(t, dtype.Float32, []int64{2, 0}), "dim": 1, "valuesOut": v, "indicesOut": at}, "empty")
}

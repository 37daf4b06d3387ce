package index

import (
	"slices"
	"sort"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// bucketTypes are the element types that the 950 puts into buckets.
var bucketTypes = []dtype.Type{dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Int8, dtype.Int16, dtype.Int32, dtype.Int64, dtype.Uint8}

func TestSearchAgainstDefinition(t *testing.T) {
	bounds := []float64{1, 3, 3, 7}
	x := []float64{0, 1, 3, 5, 7, 9}
	for _, d := range optest.OrderedTypes {
		for _, l := range kerneltest.Layouts {
			for _, right := range []bool{false, true} {
				var want []float64
				for _, v := range x {
					want = append(want, float64(sort.Search(len(bounds), func(i int) bool { return bounds[i] > v || !right && bounds[i] == v })))
				}
				out := optest.TensorIn(t, dtype.Int32, l, []int64{2, 3})
				self, sorted := optest.TensorIn(t, d, l, []int64{2, 3}, x...), optest.Tensor(t, d, []int64{4}, bounds...)
				if slices.Contains(bucketTypes, d) {
					optest.Run(t, "Bucketize", optest.Args{"self": self, "boundaries": sorted, "outInt32": true, "right": right, "out": out})
					require.Equal(t, want, optest.Values(out), "%v %v", d, l)
				}
				if d != dtype.BFloat16 {
					shuffled := optest.Tensor(t, d, []int64{4}, 7, 3, 1, 3)
					optest.Run(t, "SearchSorted", optest.Args{"sortedSequence": shuffled, "self": self, "outInt32": true, "right": right, "sorter": optest.Tensor(t, dtype.Int64, []int64{4}, 2, 1, 3, 0), "out": out})
					require.Equal(t, want, optest.Values(out), "%v %v", d, l)
				}
				one := optest.Tensor(t, dtype.Int64, []int64{})
				optest.Run(t, "SearchSorteds", optest.Args{"sortedSequence": sorted, "self": optest.Scalar(3), "right": right, "out": one})
				require.Equal(t, want[2:3], optest.Values(one))
			}
		}
	}
	rows := optest.Tensor(t, dtype.Float32, []int64{2, 3}, 1, 2, 3, 10, 20, 30)
	out := optest.Tensor(t, dtype.Int64, []int64{2, 2})
	optest.Run(t, "SearchSorted", optest.Args{"sortedSequence": rows, "self": optest.Tensor(t, dtype.Float32, []int64{2, 2}, 2, 5, 2, 25), "out": out})
	require.Equal(t, []float64{1, 3, 0, 2}, optest.Values(out))
	optest.Refused(t, op.InvalidParam, "Bucketize", optest.Args{"self": rows, "boundaries": rows, "out": out}, "dimensions")
	optest.Refused(t, op.InvalidParam, "SearchSorted", optest.Args{"sortedSequence": rows, "self": optest.Tensor(t, dtype.Float32, []int64{3, 2}, 1), "out": optest.Tensor(t, dtype.Int64, []int64{3, 2})}, "leading dimensions")
}

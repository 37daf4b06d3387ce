package nn

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

func TestScatterAddRows(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Int32, dtype.Int8, dtype.Uint8} {
		for _, l := range kerneltest.Layouts {
			for _, whole := range indexTypes {
				for _, s := range []struct {
					into, index, updates []int64
					places               []float64
					at                   []int64 // the first element that each part of updates goes to
				}{
					{[]int64{4, 3}, []int64{5}, []int64{5, 3}, []float64{0, 3, 0, 1, 0}, []int64{0, 9, 0, 3, 0}},
					{[]int64{4}, []int64{2, 2}, []int64{2, 2}, []float64{3, 1, 1, 1}, []int64{3, 1, 1, 1}},
					{[]int64{2, 3, 2}, []int64{3, 2}, []int64{3, 2}, []float64{1, 2, 0, 1, 1, 2}, []int64{10, 2, 10}},
					{[]int64{2, 3}, []int64{2, 2}, []int64{2}, []float64{1, 2, 0, 0}, []int64{5, 0}},
				} {
					what := fmt.Sprintf("%v %v %v %+v", d, l, whole, s)
					into, updates := tensorIn(t, d, l, s.into, 1, 2, 3), tensorIn(t, d, l, s.updates, 1, 2, 3, 4, 5)
					want := values(into)
					n := len(values(updates)) / len(s.at)
					for i, v := range values(updates) {
						want[int(s.at[i/n])+i%n] += v
					}
					run(t, "TfScatterAdd", args{"varRef": into, "indices": tensorIn(t, whole, l, s.index, s.places...), "updates": updates})
					assert.Equal(t, want, values(into), what)
				}
			}
		}
	}
	f := dtype.Float32
	into, index := tensor(t, f, []int64{2, 3}, 1), tensor(t, dtype.Int32, []int64{2}, 0, 2)
	refused(t, invalidParam, "TfScatterAdd", args{"varRef": into, "indices": index, "updates": tensor(t, f, []int64{2, 2}, 1)}, "must have shape")
	refused(t, invalidParam, "TfScatterAdd", args{"varRef": tensor(t, f, []int64{0, 3}), "indices": index, "updates": tensor(t, f, []int64{2, 3}, 1)}, "is empty")
	refused(t, nullPointer, "TfScatterAdd", args{"varRef": into, "indices": index}, "updates is null")
	assert.ErrorContains(t, execute(t, "TfScatterAdd", args{"varRef": into, "indices": index, "updates": tensor(t, f, []int64{2, 3}, 1)}), "2")
}

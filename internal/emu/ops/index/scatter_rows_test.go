package index

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestScatterAddRows(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Int32, dtype.Int8, dtype.Uint8} {
		for _, l := range kerneltest.Layouts {
			for _, whole := range op.IndexTypes {
				for _, s := range []struct {
					into, index, updates []int64
					places               []float64
					at                   []int64 // first destination element of each slice of updates
				}{
					{[]int64{4, 3}, []int64{5}, []int64{5, 3}, []float64{0, 3, 0, 1, 0}, []int64{0, 9, 0, 3, 0}},
					{[]int64{4}, []int64{2, 2}, []int64{2, 2}, []float64{3, 1, 1, 1}, []int64{3, 1, 1, 1}},
					{[]int64{2, 3, 2}, []int64{3, 2}, []int64{3, 2}, []float64{1, 2, 0, 1, 1, 2}, []int64{10, 2, 10}},
					{[]int64{2, 3}, []int64{2, 2}, []int64{2}, []float64{1, 2, 0, 0}, []int64{5, 0}},
				} {
					what := fmt.Sprintf("%v %v %v %+v", d, l, whole, s)
					into, updates := optest.TensorIn(t, d, l, s.into, 1, 2, 3), optest.TensorIn(t, d, l, s.updates, 1, 2, 3, 4, 5)
					want := optest.Values(into)
					n := len(optest.Values(updates)) / len(s.at)
					for i, v := range optest.Values(updates) {
						want[int(s.at[i/n])+i%n] += v
					}
					optest.Run(t, "TfScatterAdd", optest.Args{"varRef": into, "indices": optest.TensorIn(t, whole, l, s.index, s.places...), "updates": updates})
					assert.Equal(t, want, optest.Values(into), what)
				}
			}
		}
	}
	f := dtype.Float32
	into, index := optest.Tensor(t, f, []int64{2, 3}, 1), optest.Tensor(t, dtype.Int32, []int64{2}, 0, 2)
	optest.Refused(t, op.InvalidParam, "TfScatterAdd", optest.Args{"varRef": into, "indices": index, "updates": optest.Tensor(t, f, []int64{2, 2}, 1)}, "must have shape")
	optest.Run(t, "TfScatterAdd", optest.Args{"varRef": optest.Tensor(t, f, []int64{0, 3}), "indices": index, "updates": optest.Tensor(t, f, []int64{2, 3}, 1)}) // no kernel runs
	optest.Refused(t, op.NullPointer, "TfScatterAdd", optest.Args{"varRef": into, "indices": index}, "updates is null")
	assert.ErrorContains(t, optest.Execute(t, "TfScatterAdd", optest.Args{"varRef": into, "indices": index, "updates": optest.Tensor(t, f, []int64{2, 3}, 1)}), "2")
}

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

func TestRepeatInterleaveGrad(t *testing.T) {
	for _, d := range op.FloatTypes {
		for _, l := range kerneltest.Layouts {
			for _, s := range []struct {
				shape   []int64
				axis    int
				repeats []float64
				out     []int64
			}{
				{[]int64{2, 6}, 1, []float64{1, 2, 2, 1}, []int64{2, 4}}, {[]int64{2, 6}, -1, []float64{2}, []int64{2, 3}}, {[]int64{5, 3, 2}, 0, []float64{0, 5}, []int64{2, 3, 2}},
				{[]int64{64}, 0, []float64{2}, []int64{2, 4, 4}}, {[]int64{0, 3}, 0, []float64{0, 0}, []int64{2, 3}},
			} {
				what := fmt.Sprintf("%v %v %v", d, l, s)
				dy, out := optest.Filled(t, 1, d, l, s.shape), optest.TensorIn(t, d, l, s.out)
				axis := (s.axis + len(s.shape)) % len(s.shape)
				inner := int(optest.Elements(s.shape[axis+1:]))
				var place []int // index of the source of each element along the axis
				for i := 0; len(place) < int(s.shape[axis]); i++ {
					n := s.repeats[0]
					if len(s.repeats) > 1 {
						n = s.repeats[i]
					}
					for range int(n) {
						place = append(place, i)
					}
				}
				want := make([]float64, out.Len())
				along := int(out.Len()) / max(int(optest.Elements(s.shape[:axis]))*inner, 1)
				for i, v := range optest.Values(dy) {
					outer, at, in := i/inner/len(place), i/inner%len(place), i%inner
					want[(outer*along+place[at])*inner+in] += v
				}
				a := optest.Args{"yGrad": dy, "repeats": optest.Tensor(t, dtype.Int64, []int64{int64(len(s.repeats))}, s.repeats...), "axis": s.axis, "out": out}
				optest.Run(t, "RepeatInterleaveGrad", a)
				optest.CloseTo(t, what, want, optest.Values(out), 2*optest.ResultLimit(d))
			}
		}
	}
	f := dtype.Float32
	a := optest.Args{"yGrad": optest.Tensor(t, f, []int64{4, 2}, 1), "repeats": optest.Tensor(t, dtype.Int32, []int64{2}, 1, 2), "axis": 0, "out": optest.Tensor(t, f, []int64{2, 2})}
	assert.ErrorContains(t, optest.Execute(t, "RepeatInterleaveGrad", a), "together they are 3")
	assert.ErrorContains(t, optest.Execute(t, "RepeatInterleaveGrad", a.With(optest.Args{"repeats": optest.Tensor(t, dtype.Int32, []int64{2}, 3, 2)})), "must not be negative")
	optest.Refused(t, op.InvalidParam, "RepeatInterleaveGrad", a.With(optest.Args{"out": optest.Tensor(t, f, []int64{3, 2})}), "does not hold the sums")
	optest.Refused(t, op.InvalidParam, "RepeatInterleaveGrad", a.With(optest.Args{"repeats": optest.Tensor(t, dtype.Int32, []int64{0})}), "is empty")
	optest.Refused(t, op.InvalidParam, "RepeatInterleaveGrad", a.With(optest.Args{"axis": 2}), "out of range")
	optest.Refused(t, op.NullPointer, "RepeatInterleaveGrad", a.With(optest.Args{"repeats": nil}), "repeats is null")
}

func TestJaggedPermute(t *testing.T) {
	i32 := func(v ...float64) *op.Tensor { return optest.Tensor(t, dtype.Int32, []int64{int64(len(v))}, v...) }
	out := i32(0, 0, 0, 0, 0, 0)
	a := optest.Args{"permute": i32(1, 0, 2), "inputOffset": i32(0, 3, 5, 6), "outputOffset": i32(0, 2, 5, 6), "outputSize": 6, "outputPermuteOut": out}
	optest.Run(t, "ExpandIntoJaggedPermute", a)
	assert.Equal(t, []float64{3, 4, 0, 1, 2, 5}, optest.Values(out))
	assert.ErrorContains(t, optest.Execute(t, "ExpandIntoJaggedPermute", a.With(optest.Args{"permute": i32(1, 0, 3)})), "part 3 at position 2")
	assert.ErrorContains(t, optest.Execute(t, "ExpandIntoJaggedPermute", a.With(optest.Args{"outputOffset": i32(0, 4, 2, 6)})), "must not fall")
	assert.ErrorContains(t, optest.Execute(t, "ExpandIntoJaggedPermute", a.With(optest.Args{"outputOffset": i32(0, 2, 4, 5)})), "ends at 5")
	optest.Refused(t, op.InvalidParam, "ExpandIntoJaggedPermute", a.With(optest.Args{"outputSize": 5}), "outputSize")
	optest.Refused(t, op.InvalidParam, "ExpandIntoJaggedPermute", a.With(optest.Args{"inputOffset": i32(0, 3)}), "inputOffset")
	optest.Refused(t, op.InvalidParam, "ExpandIntoJaggedPermute", a.With(optest.Args{"permute": optest.Tensor(t, dtype.Float32, []int64{3}, 1)}), "dtype")
}

func TestCoalesceSparse(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Int32, dtype.Float16, dtype.Float32} {
		for _, l := range kerneltest.Layouts {
			for _, inner := range [][]int64{nil, {2}} {
				x := optest.TensorIn(t, d, l, append([]int64{4}, inner...), 1, 2, 3, 4, 5, 6, 7, 8)
				y := optest.TensorIn(t, d, l, append([]int64{3}, inner...))
				indices, places := optest.TensorIn(t, dtype.Int64, l, []int64{4, 2}, 0, 1, 5, 5, 0, 1, 2, 0), optest.TensorIn(t, dtype.Int64, l, []int64{3, 2})
				a := optest.Args{"uniqueLen": optest.Tensor(t, dtype.Int32, []int64{1}, 3), "uniqueIndices": optest.Tensor(t, dtype.Int32, []int64{4}, 0, 2, 0, 1), "indices": indices, "values": x, "newIndicesOut": places, "newValuesOut": y}
				optest.Run(t, "CoalesceSparse", a)
				assert.Equal(t, []float64{0, 1, 2, 0, 5, 5}, optest.Values(places))
				want := []float64{4, 4, 2}
				if inner != nil {
					want = []float64{6, 8, 7, 8, 3, 4}
				}
				assert.Equal(t, want, optest.Values(y), "%v %v", d, l)
				assert.ErrorContains(t, optest.Execute(t, "CoalesceSparse", a.With(optest.Args{"uniqueIndices": optest.Tensor(t, dtype.Int32, []int64{4}, 0, 3, 0, 1)})), "out of range")
				optest.Refused(t, op.InvalidParam, "CoalesceSparse", a.With(optest.Args{"uniqueIndices": optest.Tensor(t, dtype.Int32, []int64{3}, 0)}), "a row of coordinates")
				optest.Refused(t, op.InvalidParam, "CoalesceSparse", a.With(optest.Args{"values": optest.Tensor(t, dtype.Float64, []int64{4}, 0)}), "dtype")
			}
		}
	}
}

package nn

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

func TestRepeatInterleaveGrad(t *testing.T) {
	for _, d := range transformerTypes {
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
				dy, out := filled(t, 1, d, l, s.shape), tensorIn(t, d, l, s.out)
				axis := (s.axis + len(s.shape)) % len(s.shape)
				inner := int(elements(s.shape[axis+1:]))
				var place []int // of each element along the axis
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
				along := int(out.Len()) / max(int(elements(s.shape[:axis]))*inner, 1)
				for i, v := range values(dy) {
					outer, at, in := i/inner/len(place), i/inner%len(place), i%inner
					want[(outer*along+place[at])*inner+in] += v
				}
				a := args{"yGrad": dy, "repeats": tensor(t, dtype.Int64, []int64{int64(len(s.repeats))}, s.repeats...), "axis": s.axis, "out": out}
				run(t, "RepeatInterleaveGrad", a)
				closeTo(t, what, want, values(out), 2*resultLimit(d))
			}
		}
	}
	f := dtype.Float32
	a := args{"yGrad": tensor(t, f, []int64{4, 2}, 1), "repeats": tensor(t, dtype.Int32, []int64{2}, 1, 2), "axis": 0, "out": tensor(t, f, []int64{2, 2})}
	assert.ErrorContains(t, execute(t, "RepeatInterleaveGrad", a), "together they are 3")
	assert.ErrorContains(t, execute(t, "RepeatInterleaveGrad", a.with(args{"repeats": tensor(t, dtype.Int32, []int64{2}, 3, 2)})), "must not be negative")
	refused(t, invalidParam, "RepeatInterleaveGrad", a.with(args{"out": tensor(t, f, []int64{3, 2})}), "does not hold the sums")
	refused(t, invalidParam, "RepeatInterleaveGrad", a.with(args{"repeats": tensor(t, dtype.Int32, []int64{0})}), "is empty")
	refused(t, invalidParam, "RepeatInterleaveGrad", a.with(args{"axis": 2}), "out of range")
	refused(t, nullPointer, "RepeatInterleaveGrad", a.with(args{"repeats": nil}), "repeats is null")
}

func TestJaggedPermute(t *testing.T) {
	i32 := func(v ...float64) *Tensor { return tensor(t, dtype.Int32, []int64{int64(len(v))}, v...) }
	out := i32(0, 0, 0, 0, 0, 0)
	a := args{"permute": i32(1, 0, 2), "inputOffset": i32(0, 3, 5, 6), "outputOffset": i32(0, 2, 5, 6), "outputSize": 6, "outputPermuteOut": out}
	run(t, "ExpandIntoJaggedPermute", a)
	assert.Equal(t, []float64{3, 4, 0, 1, 2, 5}, values(out))
	assert.ErrorContains(t, execute(t, "ExpandIntoJaggedPermute", a.with(args{"permute": i32(1, 0, 3)})), "part 3 at position 2")
	assert.ErrorContains(t, execute(t, "ExpandIntoJaggedPermute", a.with(args{"outputOffset": i32(0, 4, 2, 6)})), "must not fall")
	assert.ErrorContains(t, execute(t, "ExpandIntoJaggedPermute", a.with(args{"outputOffset": i32(0, 2, 4, 5)})), "ends at 5")
	refused(t, invalidParam, "ExpandIntoJaggedPermute", a.with(args{"outputSize": 5}), "outputSize")
	refused(t, invalidParam, "ExpandIntoJaggedPermute", a.with(args{"inputOffset": i32(0, 3)}), "inputOffset")
	refused(t, invalidParam, "ExpandIntoJaggedPermute", a.with(args{"permute": tensor(t, dtype.Float32, []int64{3}, 1)}), "dtype")
}

func TestCoalesceSparse(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Int32, dtype.Float16, dtype.Float32} {
		for _, l := range kerneltest.Layouts {
			for _, inner := range [][]int64{nil, {2}} {
				x := tensorIn(t, d, l, append([]int64{4}, inner...), 1, 2, 3, 4, 5, 6, 7, 8)
				y := tensorIn(t, d, l, append([]int64{3}, inner...))
				indices, places := tensorIn(t, dtype.Int64, l, []int64{4, 2}, 0, 1, 5, 5, 0, 1, 2, 0), tensorIn(t, dtype.Int64, l, []int64{3, 2})
				a := args{"uniqueLen": tensor(t, dtype.Int32, []int64{1}, 3), "uniqueIndices": tensor(t, dtype.Int32, []int64{4}, 0, 2, 0, 1), "indices": indices, "values": x, "newIndicesOut": places, "newValuesOut": y}
				run(t, "CoalesceSparse", a)
				assert.Equal(t, []float64{0, 1, 2, 0, 5, 5}, values(places))
				want := []float64{4, 4, 2}
				if inner != nil {
					want = []float64{6, 8, 7, 8, 3, 4}
				}
				assert.Equal(t, want, values(y), "%v %v", d, l)
				assert.ErrorContains(t, execute(t, "CoalesceSparse", a.with(args{"uniqueIndices": tensor(t, dtype.Int32, []int64{4}, 0, 3, 0, 1)})), "out of range")
				refused(t, invalidParam, "CoalesceSparse", a.with(args{"uniqueIndices": tensor(t, dtype.Int32, []int64{3}, 0)}), "a row of coordinates")
				refused(t, invalidParam, "CoalesceSparse", a.with(args{"values": tensor(t, dtype.Float64, []int64{4}, 0)}), "dtype")
			}
		}
	}
}

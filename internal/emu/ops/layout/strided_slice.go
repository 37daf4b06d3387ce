package layout

import (
	"math/bits"
	"slices"

	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/op"
)

// stridedSlices lists the operators that read every n-th element of a range of each dimension.
var stridedSlices = op.Table{"StridedSlice": stridedSlice}.Selects()

// sliceSpec holds the arguments of a strided slice. Bit i of a mask refers to entry i of begin,
// end and strides.
type sliceSpec struct {
	begin, end, strides                            []int64
	beginMask, endMask, ellipsis, newAxis, oneOnly int64
}

func (s sliceSpec) has(mask int64, i int) bool { return mask>>i&1 != 0 }

// stridedSlice follows TensorFlow's StridedSlice: an ellipsis covers all dimensions that no
// other entry covers, an entry in the new-axis mask inserts a dimension of size one, and an
// entry in the shrink mask selects a single position and drops the dimension.
func stridedSlice(c *op.Call) (op.Run, error) {
	self, out := c.Tensor("self"), c.Tensor("out")
	s := sliceSpec{
		begin: c.Ints("begin"), end: c.Ints("end"), strides: c.Ints("strides"),
		beginMask: c.Int("beginMask"), endMask: c.Int("endMask"), ellipsis: c.Int("ellipsisMask"), newAxis: c.Int("newAxisMask"), oneOnly: c.Int("shrinkAxisMask"),
	}
	for _, list := range []struct {
		name   string
		values []int64
	}{{"begin", s.begin}, {"end", s.end}, {"strides", s.strides}} {
		if list.values == nil {
			c.Fail(op.NullPointer, "%s is null", list.name)
		}
	}
	c.Movable(self, out)
	c.SameDType(self, out)
	c.Rank(self, 0, 8)
	switch n := len(s.begin); {
	case len(s.end) != n || len(s.strides) != n || n > 32:
		c.Invalid("begin, end and strides have %d, %d and %d entries; they must have as many, at most 32", n, len(s.end), len(s.strides))
	case slices.Contains(s.strides, 0):
		c.Invalid("strides is %s; no stride may be 0", op.Dims(s.strides))
	case bits.OnesCount64(uint64(s.ellipsis)) > 1:
		c.Invalid("ellipsisMask is %#x; only one bit may be set", s.ellipsis)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	w := sectionOf(self)
	shape, kept := sliceAxes(c, self, s, w)
	c.Shape(out, shape, "what begin, end, strides and the masks name")
	return c.CopyRun(out.View, func() kernel.View {
		v := w.view(self)
		r := kernel.View{Data: v.Data, DType: v.DType}
		for _, axis := range kept {
			if axis < 0 {
				r.Shape, r.Strides = append(r.Shape, 1), append(r.Strides, 0)
			} else {
				r.Shape, r.Strides = append(r.Shape, v.Shape[axis]), append(r.Strides, v.Strides[axis])
			}
		}
		return r
	})
}

// sliceAxes applies s to a section. It returns the shape of the result and, for each of its
// dimensions, the matching dimension of self, or -1 for a new one.
func sliceAxes(c *op.Call, self *op.Tensor, s sliceSpec, w section) (shape []int64, kept []int) {
	named := 0 // number of dimensions of self that entries cover
	open := true
	for i := range s.begin {
		switch {
		case s.has(s.ellipsis, i):
			open = false
		case !s.has(s.newAxis, i):
			named++
		}
	}
	if named > self.Rank() {
		c.Invalid("%d entries name dimensions, but %v has %d", named, self, self.Rank())
		return nil, nil
	}
	axis := 0
	whole := func(n int) {
		for range n {
			shape, kept = append(shape, self.Shape[axis]), append(kept, axis)
			axis++
		}
	}
	for i := range s.begin {
		switch {
		case s.has(s.ellipsis, i):
			whole(self.Rank() - named)
		case s.has(s.newAxis, i):
			shape, kept = append(shape, 1), append(kept, -1)
		case s.has(s.oneOnly, i):
			at, n := s.begin[i], self.Shape[axis]
			if at < 0 {
				at += n
			}
			if at < 0 || at >= n || s.strides[i] < 0 {
				c.Invalid("place %d with stride %d of dimension %d of %v: a single place must exist, and its stride be above 0", s.begin[i], s.strides[i], axis, self)
				return nil, nil
			}
			w.cut(axis, at, 1, 1)
			axis++
		default:
			lo, n := s.span(i, self.Shape[axis])
			w.cut(axis, lo, n, s.strides[i])
			shape, kept = append(shape, n), append(kept, axis)
			axis++
		}
	}
	if open {
		whole(self.Rank() - axis)
	}
	return shape, kept
}

// span returns where entry i begins in a dimension of n elements, and how many it selects.
func (s sliceSpec) span(i int, n int64) (first, count int64) {
	stride, lowest, highest := s.strides[i], int64(0), n
	if stride < 0 {
		lowest, highest = -1, n-1
	}
	at := func(x int64) int64 {
		if x < 0 {
			x += n
		}
		return min(max(x, lowest), highest)
	}
	first, last := at(s.begin[i]), at(s.end[i])
	if s.has(s.beginMask, i) {
		if first = lowest; stride < 0 {
			first = highest
		}
	}
	if s.has(s.endMask, i) {
		if last = highest; stride < 0 {
			last = lowest
		}
	}
	distance := last - first
	if stride < 0 {
		distance, stride = -distance, -stride
	}
	if distance <= 0 {
		return 0, 0
	}
	return first, (distance + stride - 1) / stride
}

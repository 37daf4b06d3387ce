package nn

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// searches are the operators that look for elements: places in an order, members of a set,
// counts, and elements of a rank.
var searches = table{
	"SearchSorted": searchSorted, "SearchSorteds": searchSorted, "Bucketize": bucketize,
	"IsInScalarTensor": isIn, "IsInTensorScalar": isIn,
	"Bincount": bincount, "Histc": histogram,
	"Kthvalue": kthValue, "Median": median, "MedianDim": median, "NanMedian": median, "NanMedianDim": median,
}

// countable refuses element types that cannot be compared.
func (c *Call) countable(tensors ...*Tensor) {
	c.plain(tensors...)
	for _, t := range tensors {
		if !kernel.Computes(t.DType) {
			c.Invalid("%v has a dtype that is not supported", t)
		}
	}
}

// placesOut checks an output of places, whose dtype a flag says.
func (c *Call) placesOut(like *Tensor) *Tensor {
	out := c.Tensor("out")
	c.plain(out)
	c.SameShape(like, out)
	if c.Bool("outInt32") {
		c.DType(out, dtype.Int32)
	} else {
		c.DType(out, dtype.Int64)
	}
	return out
}

func bucketize(c *Call) (Run, error) {
	self, boundaries := c.Tensor("self"), c.Tensor("boundaries")
	c.countable(self, boundaries)
	c.Rank(boundaries, 1, 1)
	out := c.placesOut(self)
	return c.searchRun(out, boundaries, self.View, nil)
}

// searchSorted looks for tensors or, as SearchSorteds, for a scalar.
func searchSorted(c *Call) (Run, error) {
	sorted, sorter := c.Tensor("sortedSequence"), c.Optional("sorter")
	c.countable(sorted)
	c.Rank(sorted, 1, kernel.MaxRank)
	if sorter != nil {
		c.plain(sorter)
		c.DType(sorter, dtype.Int64)
		c.SameShape(sorted, sorter)
	}
	if c.op.name == "SearchSorteds" {
		value := c.Scalar("self")
		c.Rank(sorted, 1, 1)
		out := c.Tensor("out")
		c.placesOut(out)
		if out.Len() != 1 {
			c.Invalid("%v must have one element", out)
		}
		if err := c.Err(); err != nil {
			return nil, err
		}
		return func(*Exec) error {
			return kernel.SearchNumber(out.As([]int64{}, []int64{}), sorted.View(), value.number(), value.IsFloat(), optionalView(sorter), c.Bool("right"))
		}, nil
	}
	self := c.Tensor("self")
	c.countable(self)
	out := c.placesOut(self)
	if sorted.Rank() > 1 && (self.Rank() != sorted.Rank() || !slices.Equal(self.Shape[:self.Rank()-1], sorted.Shape[:sorted.Rank()-1])) {
		c.Invalid("%v must be a vector or have the leading dimensions of %v", sorted, self)
	}
	return c.searchRun(out, sorted, self.View, sorter)
}

func (c *Call) searchRun(out, sorted *Tensor, x func() kernel.View, sorter *Tensor) (Run, error) {
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if out.Len() == 0 {
			return nil
		}
		return kernel.Search(out.View(), sorted.View(), x(), optionalView(sorter), c.Bool("right"))
	}, nil
}

// isIn asks whether each element is among the tests; one of the two is a scalar.
func isIn(c *Call) (Run, error) {
	out := c.Tensor("out")
	c.plain(out)
	c.DType(out, dtype.Bool)
	name, scalar := "element", "testElement"
	if c.op.name == "IsInScalarTensor" {
		name, scalar = "testElements", "element"
	}
	t, s := c.Tensor(name), c.Scalar(scalar)
	c.countable(t)
	invert := c.Bool("invert")
	if name == "testElements" {
		if out.Len() != 1 {
			c.Invalid("%v must have one element", out)
		}
	} else {
		c.SameShape(t, out)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	equal, join := kernel.Equal, kernel.ReduceAny
	if invert {
		equal, join = kernel.NotEqual, kernel.ReduceAll
	}
	compute := promoteScalar(t.DType, s.DType)
	return func(*Exec) error {
		if name == "element" {
			if t.Len() == 0 {
				return nil
			}
			return kernel.Map(equal, compute, out.View(), []kernel.Input{kernel.Of(t.View()), kernel.Const(s.number())})
		}
		return kernel.AnyEqual(equal, join, compute, out.As([]int64{}, []int64{}), t.View(), s.number())
	}, nil
}

// bincount counts how often each whole number occurs, or sums the weights it occurs with.
func bincount(c *Call) (Run, error) {
	self, weights, out := c.Tensor("self"), c.Optional("weights"), c.Tensor("out")
	c.countable(self, out)
	c.Rank(self, 1, 1)
	c.Rank(out, 1, 1)
	if !self.DType.IsInteger() {
		c.Invalid("%v must have an integer dtype", self)
	}
	if weights != nil && weights.Len() > 0 {
		c.countable(weights)
		c.SameShape(self, weights)
	}
	if n := c.Int("minlength"); n < 0 || c.Err() == nil && out.Len() < n {
		c.Invalid("minlength is %d; it must not be negative, and %v must have as many elements", n, out)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if out.Len() == 0 {
			return nil
		}
		return kernel.Count(out.View(), self.View(), optionalView(weights))
	}, nil
}

func histogram(c *Call) (Run, error) {
	self, out, bins := c.Tensor("self"), c.Tensor("out"), c.Int("bins")
	lo, hi := c.Scalar("min").Float64(), c.Scalar("max").Float64()
	c.countable(self, out)
	if bins <= 0 {
		c.Invalid("bins is %d; it must be positive", bins)
	}
	if lo > hi {
		c.Invalid("min %v is larger than max %v", lo, hi)
	}
	c.Shape(out, []int64{bins}, "bins counts")
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if self.Len() == 0 {
			return kernel.Zero(out.View())
		}
		return kernel.Histogram(out.View(), self.View(), lo, hi)
	}, nil
}

// ranked is the Run that finds the element of a rank along a dimension, or among all
// elements.
func (c *Call) ranked(self, value, index *Tensor, axes []int, keep bool, rank func(n, nans int64) int64) (Run, error) {
	c.countable(self)
	c.SameDType(self, value)
	for _, axis := range axes {
		if self.Shape[axis] == 0 {
			c.Invalid("dimension %d of %v is empty; it has no elements to order", axis, self)
		}
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	valueView := c.reduced(value, self, axes, keep)
	indexView := func() kernel.View { return kernel.View{} }
	if index != nil {
		c.DType(index, dtype.Int64)
		indexView = c.reduced(index, self, axes, keep)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if value.Len() == 0 {
			return nil
		}
		return kernel.Ranked(valueView(), indexView(), self.View(), axes, rank)
	}, nil
}

func kthValue(c *Call) (Run, error) {
	self, k := c.Tensor("self"), c.Int("k")
	axes, keep := c.axes(self)
	n := self.Len()
	if len(axes) > 0 {
		n = self.Shape[axes[0]]
	}
	if k < 1 || k > n {
		c.Invalid("k is %d; %v has %d elements in the dimension", k, self, n)
	}
	return c.ranked(self, c.Tensor("valuesOut"), c.Tensor("indicesOut"), axes, keep, func(int64, int64) int64 { return k - 1 })
}

// median is the middle element in order, the lower of two. A NaN is the result if there is
// one; the forms for NaN take the others only.
func median(c *Call) (Run, error) {
	self := c.Tensor("self")
	axes, keep := c.axes(self)
	rank := func(n, nans int64) int64 {
		if nans > 0 {
			return n - nans
		}
		return (n - 1) / 2
	}
	if c.op.name == "NanMedian" || c.op.name == "NanMedianDim" {
		rank = func(n, nans int64) int64 { return max(n-nans-1, 0) / 2 }
	}
	if c.Has("dim") {
		return c.ranked(self, c.Tensor("valuesOut"), c.Tensor("indicesOut"), axes, keep, rank)
	}
	name := "out"
	if c.Has("valuesOut") {
		name = "valuesOut"
	}
	return c.ranked(self, c.Tensor(name), nil, axes, false, rank)
}

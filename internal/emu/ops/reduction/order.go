package reduction

import (
	"fmt"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/indexing"
	"github.com/goascend/cann/internal/emu/kernel/order"
	"github.com/goascend/cann/internal/emu/op"
)

// orderStatistics lists the operators that count elements by value or find elements by rank.
var orderStatistics = op.Table{
	"Bincount": bincount, "Histc": histogram,
	"Kthvalue": kthValue, "Median": median, "MedianDim": median, "NanMedian": median, "NanMedianDim": median,
}

// bincount counts how often each integer occurs, or sums the weights of its occurrences.
func bincount(c *op.Call) (op.Run, error) {
	self, weights, out := c.Tensor("self"), c.Optional("weights"), c.Tensor("out")
	c.Countable(self, out)
	c.Rank(self, 1, 1)
	c.Rank(out, 1, 1)
	if !self.DType.IsInteger() {
		c.Invalid("%v must have an integer dtype", self)
	}
	if weights != nil && weights.Len() > 0 {
		c.Countable(weights)
		c.SameShape(self, weights)
	}
	if n := c.Int("minlength"); n < 0 || c.Err() == nil && out.Len() < n {
		c.Invalid("minlength is %d; it must not be negative, and %v must have as many elements", n, out)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if out.Len() == 0 {
			return nil
		}
		return count(out.View(), self.View(), op.OptionalView(weights))
	}, nil
}

// count sets out[v] to the number of elements of x with the value v, or to the sum of their weights.
func count(out, x, weights kernel.View) error {
	if err := elementwise.Zero(out); err != nil || x.Len() == 0 {
		return err
	}
	at, err := elementwise.Indices(x)
	if err != nil {
		return err
	}
	for i, k := range at {
		if k < 0 || k >= out.Shape[0] {
			return fmt.Errorf("element %d is %d; the result has places for 0 to %d", i, k, out.Shape[0]-1)
		}
	}
	if weights.Data == nil {
		return indexing.ScatterNumber(indexing.ScatterAdd, out, elementwise.Whole(1), 0, x)
	}
	return indexing.Scatter(indexing.ScatterAdd, out, weights, 0, x)
}

// histogram counts the elements in bins of equal width between min and max, both inclusive, or over the
// range of the elements if these are equal. It does not count NaN and elements outside the range.
func histogram(c *op.Call) (op.Run, error) {
	self, out, bins := c.Tensor("self"), c.Tensor("out"), c.Int("bins")
	lo, hi := c.Scalar("min").Float64(), c.Scalar("max").Float64()
	c.Countable(self, out)
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
	return func(*op.Exec) error {
		if self.Len() == 0 {
			return elementwise.Zero(out.View())
		}
		values, err := elementwise.Doubles(self.View())
		if err != nil {
			return err
		}
		counts := make([]int64, bins)
		if err := order.Histogram(counts, values, lo, hi); err != nil {
			return err
		}
		return indexing.SetInts(out.View(), counts)
	}, nil
}

// ranked returns the Run that finds the element of a given rank along a dimension, or among all
// elements.
func ranked(c *op.Call, self, value, index *op.Tensor, axes []int, keep bool, rank func(n, nans int64) int64) (op.Run, error) {
	c.Countable(self)
	c.SameDType(self, value)
	for _, axis := range axes {
		if self.Shape[axis] == 0 {
			c.Vacuous("dimension %d of %v is empty; it has no elements to order", axis, self)
		}
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	valueView := reduced(c, value, self, axes, keep)
	indexView := func() kernel.View { return kernel.View{} }
	if index != nil {
		c.DType(index, dtype.Int64)
		indexView = reduced(c, index, self, axes, keep)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if value.Len() == 0 {
			return nil
		}
		return indexing.Ranked(valueView(), indexView(), self.View(), axes, rank)
	}, nil
}

func kthValue(c *op.Call) (op.Run, error) {
	self, k := c.Tensor("self"), c.Int("k")
	axes, keep := axes(c, self)
	n := self.Len()
	if len(axes) > 0 {
		n = self.Shape[axes[0]]
	}
	if k < 1 || k > n {
		c.Invalid("k is %d; %v has %d elements in the dimension", k, self, n)
	}
	return ranked(c, self, c.Tensor("valuesOut"), c.Tensor("indicesOut"), axes, keep, func(int64, int64) int64 { return k - 1 })
}

// median finds the middle element, the lower one if there are two. The result is NaN if any
// element is; the Nan forms ignore NaN.
func median(c *op.Call) (op.Run, error) {
	self := c.Tensor("self")
	axes, keep := axes(c, self)
	rank := func(n, nans int64) int64 {
		if nans > 0 {
			return n - nans
		}
		return (n - 1) / 2
	}
	if c.Op.Name == "NanMedian" || c.Op.Name == "NanMedianDim" {
		rank = func(n, nans int64) int64 { return max(n-nans-1, 0) / 2 }
	}
	if c.Has("dim") {
		return ranked(c, self, c.Tensor("valuesOut"), c.Tensor("indicesOut"), axes, keep, rank)
	}
	name := "out"
	if c.Has("valuesOut") {
		name = "valuesOut"
	}
	return ranked(c, self, c.Tensor(name), nil, axes, false, rank)
}

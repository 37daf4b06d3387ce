package index

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/op"
)

// searches find the positions of values in sorted sequences.
var searches = op.Table{
	"SearchSorted": searchSorted, "SearchSorteds": searchSorted, "Bucketize": bucketize,
}.Selects("SearchSorted", "SearchSorteds")

// placesOut returns and checks the output for positions. The flag outInt32 selects its dtype.
func placesOut(c *op.Call, like *op.Tensor) *op.Tensor {
	out := c.Tensor("out")
	c.Plain(out)
	c.SameShape(like, out)
	if c.Bool("outInt32") {
		c.DType(out, dtype.Int32)
	} else {
		c.DType(out, dtype.Int64)
	}
	return out
}

func bucketize(c *op.Call) (op.Run, error) {
	self, boundaries := c.Tensor("self"), c.Tensor("boundaries")
	c.Countable(self, boundaries)
	c.Rank(boundaries, 1, 1)
	out := placesOut(c, self)
	return searchRun(c, out, boundaries, self.View, nil)
}

// searchSorted searches for the values of a tensor or, as SearchSorteds, for a scalar.
func searchSorted(c *op.Call) (op.Run, error) {
	sorted, sorter := c.Tensor("sortedSequence"), c.Optional("sorter")
	c.Countable(sorted)
	c.Rank(sorted, 1, kernel.MaxRank)
	if sorter != nil {
		c.Plain(sorter)
		c.DType(sorter, dtype.Int64)
		c.SameShape(sorted, sorter)
	}
	if c.Op.Name == "SearchSorteds" {
		value := c.Scalar("self")
		c.Rank(sorted, 1, 1)
		out := c.Tensor("out")
		placesOut(c, out)
		if out.Len() != 1 {
			c.Invalid("%v must have one element", out)
		}
		if err := c.Err(); err != nil {
			return nil, err
		}
		return func(*op.Exec) error {
			return kernel.SearchNumber(out.As([]int64{}, []int64{}), sorted.View(), value.Number(), value.IsFloat(), op.OptionalView(sorter), c.Bool("right"))
		}, nil
	}
	self := c.Tensor("self")
	c.Countable(self)
	out := placesOut(c, self)
	if sorted.Rank() > 1 && (self.Rank() != sorted.Rank() || !slices.Equal(self.Shape[:self.Rank()-1], sorted.Shape[:sorted.Rank()-1])) {
		c.Invalid("%v must be a vector or have the leading dimensions of %v", sorted, self)
	}
	return searchRun(c, out, sorted, self.View, sorter)
}

func searchRun(c *op.Call, out, sorted *op.Tensor, x func() kernel.View, sorter *op.Tensor) (op.Run, error) {
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if out.Len() == 0 {
			return nil
		}
		return kernel.Search(out.View(), sorted.View(), x(), op.OptionalView(sorter), c.Bool("right"))
	}, nil
}

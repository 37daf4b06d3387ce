package index

import (
	"cmp"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	indexingkernel "github.com/goascend/cann/internal/emu/kernel/indexing"
	"github.com/goascend/cann/internal/emu/kernel/order"
	"github.com/goascend/cann/internal/emu/kernel/thread"
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
			d := dtype.Int64
			if value.IsFloat() {
				d = dtype.Float64
			}
			x, release := kernel.TemporaryOf(d)
			defer release()
			if err := elementwise.Fill(x, value.Number()); err != nil {
				return err
			}
			return search(out.As([]int64{}, []int64{}), sorted.View(), x, op.OptionalView(sorter), c.Bool("right"))
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
		return search(out.View(), sorted.View(), x(), op.OptionalView(sorter), c.Bool("right"))
	}, nil
}

// search sets every element of out to the index in sorted at which the element of x can be
// inserted without breaking the order: before equal elements, or after them with right. sorted
// is a vector, or has the leading dimensions of x, and then each row of x is searched for in its
// own row. If sorter has data, it holds the indices that sort the rows of sorted.
func search(out, sorted, x, sorter kernel.View, right bool) error {
	last := len(sorted.Shape) - 1
	n, perRow := sorted.Shape[last], x.Len()
	if last > 0 {
		perRow = x.Shape[len(x.Shape)-1]
	}
	if sorter.Data != nil && n > 0 {
		ordered, release := kernel.TemporaryOf(sorted.DType, sorted.Shape...)
		defer release()
		if err := indexingkernel.Gather(ordered, sorted, last, sorter); err != nil {
			return err
		}
		sorted = ordered
	}
	if sorted.DType.IsFloat() || x.DType.IsFloat() {
		return searchAs(elementwise.Doubles, out, sorted, x, n, perRow, right)
	}
	return searchAs(elementwise.Indices, out, sorted, x, n, perRow, right)
}

// searchAs compares the elements as the numbers that read returns.
func searchAs[T cmp.Ordered](read func(kernel.View) ([]T, error), out, sorted, x kernel.View, n, perRow int64, right bool) error {
	rows, err := read(sorted)
	if err != nil {
		return err
	}
	values, err := read(x)
	if err != nil {
		return err
	}
	found := make([]int64, len(values))
	thread.Parallel(x.Len(), 1<<11, func(lo, hi int64) {
		for i := lo; i < hi; i++ {
			found[i] = order.Search(rows[i/perRow*n:][:n], values[i], right)
		}
	})
	return indexingkernel.SetInts(out, found)
}

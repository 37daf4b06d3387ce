package matmul

import (
	"fmt"

	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/op"
)

// groupedBiases lists the gradients of a bias per group of rows.
var groupedBiases = op.Table{"GroupedBiasAddGrad": groupedBiasGrad, "GroupedBiasAddGradV2": groupedBiasGrad}.Selects()

// groupedBiasGrad sums the rows of each group. The input is [G, C, H], or [S, H] with a list of
// the ends or the sizes of the groups.
func groupedBiasGrad(c *op.Call) (op.Run, error) {
	dy, groups, out := c.Tensor("gradY"), c.Optional("groupIdxOptional"), c.Tensor("out")
	kind := int64(0)
	if c.Has("groupIdxType") {
		if kind = c.Int("groupIdxType"); kind != 0 && kind != 1 {
			c.Invalid("groupIdxType %d is unknown; 0 is where groups end, 1 how many rows they have", kind)
		}
	}
	c.Plain(dy, out)
	c.DType(dy, op.FloatTypes...)
	c.SameDType(dy, out)
	if groups == nil {
		c.Rank(dy, 3, 3)
		if c.Err() == nil {
			c.Shape(out, []int64{dy.Shape[0], dy.Shape[2]}, "a row for each group")
		}
	} else {
		c.Rank(dy, 2, 2)
		c.DType(groups, op.IndexTypes...)
		c.Rank(groups, 1, 1)
		if c.Err() == nil {
			c.Shape(out, []int64{groups.Len(), dy.Shape[1]}, "a row for each group")
		}
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if groups == nil {
			return rowwise.Reduce(rowwise.ReduceSum, out.View(), dy.View(), []int{1}, 0)
		}
		ends, err := op.GroupEnds(groups, dy.Shape[0], kind == 1)
		if err != nil {
			return err
		}
		if ends[len(ends)-1] != dy.Shape[0] {
			return fmt.Errorf("%v ends at row %d of %d", groups, ends[len(ends)-1], dy.Shape[0])
		}
		if err := op.Zero(out); err != nil {
			return err
		}
		return op.EachGroup(ends, func(g int, first, n int64) error {
			return rowwise.Reduce(rowwise.ReduceSum, out.View().Select(0, int64(g)), dy.View().Narrow(0, first, n), []int{0}, 0)
		})
	}, nil
}

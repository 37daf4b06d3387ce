package reduction

import (
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/op"
)

// sums lists the sums that apply a function before or after adding.
var sums = op.Table{"ReduceLogSum": reduceLogSum}

// reduceLogSum computes the logarithm of sums over the given dimensions, or over all of them if
// the list is empty.
func reduceLogSum(c *op.Call) (op.Run, error) {
	data, out, keep := c.Tensor("data"), c.Tensor("reduce"), c.Bool("keepDims")
	c.DType(data, op.FloatTypes...)
	c.SameDType(data, out)
	named, all := make(map[int]bool), []int{}
	for _, d := range c.Ints("axes") {
		axis := c.Axis(data, d)
		if named[axis] {
			c.Invalid("axes %v names dimension %d twice", c.Ints("axes"), axis)
		}
		named[axis] = true
		all = append(all, axis)
	}
	if len(all) == 0 && c.Bool("noopWithEmptyAxes") {
		c.SameShape(data, out)
		if err := c.Err(); err != nil {
			return nil, err
		}
		return func(*op.Exec) error { return elementwise.Copy(out.View(), data.View()) }, nil
	}
	if len(all) == 0 {
		all = op.Axes(data.Rank())
	}
	view := reduced(c, out, data, all, keep)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		into := view()
		if into.Len() == 0 {
			return nil
		}
		t, release := kernel.Temporary(into.Shape...)
		defer release()
		if err := rowwise.Reduce(rowwise.ReduceSum, t, data.View(), all, 0); err != nil {
			return err
		}
		return elementwise.Map(elementwise.Log, dtype.Float32, into, []elementwise.Input{elementwise.Of(t)})
	}, nil
}

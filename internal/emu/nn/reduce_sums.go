package nn

import (
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// sums are reductions by addition with something done before or after.
var sums = table{"ReduceLogSum": reduceLogSum, "BatchNormReduce": batchNormReduce}

// reduceLogSum is the logarithm of sums over dimensions, all of them if none is named.
func reduceLogSum(c *Call) (Run, error) {
	data, out, keep := c.Tensor("data"), c.Tensor("reduce"), c.Bool("keepDims")
	c.DType(data, transformerTypes...)
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
		return func(*Exec) error { return kernel.Copy(out.View(), data.View()) }, nil
	}
	if len(all) == 0 {
		all = axes(data.Rank())
	}
	view := c.reduced(out, data, all, keep)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		into := view()
		if into.Len() == 0 {
			return nil
		}
		t, release := kernel.Temporary(into.Shape...)
		defer release()
		if err := kernel.Reduce(kernel.ReduceSum, t, data.View(), all, 0); err != nil {
			return err
		}
		return kernel.Map(kernel.Log, dtype.Float32, into, []kernel.Input{kernel.Of(t)})
	}, nil
}

// batchNormReduce sums the elements of each channel of [N, C, H, W], and their squares.
func batchNormReduce(c *Call) (Run, error) {
	x, sum, squares := c.Tensor("x"), c.Tensor("sum"), c.Tensor("squareSum")
	c.plain(x, sum, squares)
	c.DType(x, transformerTypes...)
	c.Rank(x, 4, 4)
	for _, t := range []*Tensor{sum, squares} {
		c.DType(t, dtype.Float32)
		if c.Err() == nil {
			c.Shape(t, x.Shape[1:2], "one for each channel")
		}
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if x.Len() == 0 {
			return zeroAll(sum, squares)
		}
		t, release := kernel.Temporary(x.Shape...)
		defer release()
		if err := kernel.Map(kernel.Square, dtype.Float32, t, []kernel.Input{kernel.Of(x.View())}); err != nil {
			return err
		}
		if err := kernel.Reduce(kernel.ReduceSum, squares.View(), t, []int{0, 2, 3}, 0); err != nil {
			return err
		}
		return kernel.Reduce(kernel.ReduceSum, sum.View(), x.View(), []int{0, 2, 3}, 0)
	}, nil
}

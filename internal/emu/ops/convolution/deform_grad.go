package convolution

import (
	"errors"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/interpolate"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/op"
)

// deformableConvGrad computes the gradients of deformableConv with respect to the image, the
// weights, the offsets with their factors, and the bias. offsetOut has the samples of the forward
// pass.
func deformableConvGrad(c *op.Call) (op.Run, error) {
	x, grad, sampled, weight, offset := c.Tensor("input"), c.Tensor("gradOutput"), c.Tensor("offsetOut"), c.Tensor("weight"), c.Tensor("offset")
	dx, dw, doffset, db := c.Tensor("gradInput"), c.Tensor("gradWeight"), c.Tensor("gradOffset"), c.Tensor("gradBias")
	convTypes(c, x, grad, sampled, weight, offset, dx, dw, doffset, db)
	for _, t := range []*op.Tensor{grad, sampled, weight, offset, dx, dw, doffset, db} {
		c.SameDType(x, t)
	}
	d := newDeformed(c, x, weight, offset)
	if c.Err() != nil {
		return nil, c.Err()
	}
	c.Shape(grad, []int64{x.Shape[0], d.filters, d.rows, d.columns}, "a value for each filter and position")
	c.Shape(sampled, d.places, "the sample of each element of the filter at each position")
	c.SameShape(x, dx)
	c.SameShape(weight, dw)
	c.SameShape(offset, doffset)
	c.Shape(db, []int64{d.filters}, "one for each filter")
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		samples, release := kernel.Temporary(d.places...)
		defer release()
		wide, releaseWide := kernel.Temporary(x.Shape...)
		defer releaseWide()
		err := errors.Join(
			rowwise.Reduce(rowwise.ReduceSum, db.View(), grad.View(), []int{0, 2, 3}, 0),
			d.product.WeightGrad(dw.View(), grad.View(), sampled.View()),
			d.product.ImageGrad(samples, grad.View(), weight.View(), kernel.View{}),
			elementwise.Zero(wide),
		)
		if err == nil {
			err = d.each(func(m tap) error { return m.grads(wide, doffset.View().Select(0, m.n), m.of(samples)) })
		}
		if err != nil {
			return err
		}
		return elementwise.Copy(dx.View(), wide)
	}, nil
}

// grads adds the gradient of the image to dx and sets the gradients of the offsets, given the
// gradient of the samples.
func (m tap) grads(dx, doffset, grad kernel.View) error {
	read, release := kernel.Temporary(grad.Shape...)
	defer release()
	image, releaseImage := kernel.Temporary(m.image.Shape...)
	defer releaseImage()
	grid, releaseGrid := kernel.Temporary(m.grid.Shape...)
	defer releaseGrid()
	product := func(out, a, b kernel.View) error {
		return elementwise.Map(elementwise.Mul, dtype.Float32, out, []elementwise.Input{elementwise.Of(a), elementwise.Of(b)})
	}
	// A factor multiplies the samples, so its gradient is summed over the channels that share it.
	err := errors.Join(
		interpolate.Grid{}.Forward(read, m.image, m.grid),
		product(read, read, grad),
		rowwise.Reduce(rowwise.ReduceSum, doffset.Select(0, m.row(2)), read, []int{0, 1}, 0),
		product(read, grad, m.factor),
		interpolate.Grid{}.Backward(image, grid, read, m.image, m.grid),
	)
	if err != nil {
		return err
	}
	into := dx.Narrow(0, m.n, 1).Narrow(1, m.g*m.channels, m.channels)
	if err := elementwise.Map(elementwise.Add, dtype.Float32, into, []elementwise.Input{elementwise.Of(into), elementwise.Of(image)}, elementwise.Real(1)); err != nil {
		return err
	}
	for axis := range int64(2) { // x, then y; the image has length 2 in the grid's coordinates
		per := elementwise.Const(elementwise.Real(2 / float64(m.x.Shape[3-axis])))
		if err := elementwise.Map(elementwise.Mul, dtype.Float32, doffset.Select(0, m.row(axis)), []elementwise.Input{elementwise.Of(grid.Select(3, axis).Select(0, 0)), per}); err != nil {
			return err
		}
	}
	return nil
}

package reduction

import (
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/op"
)

// cumulatives lists the running reductions along a dimension.
var cumulatives = op.Table{
	"Cumsum": cumsum, "CumsumV2": cumsum, "Cumprod": cumprod, "InplaceCumprod": cumprod,
	"Cummax": cumulativeExtreme(rowwise.RunningMax), "Cummin": cumulativeExtreme(rowwise.RunningMin),
}

// scan writes the running reduction of self to out. index may be nil.
func scan(c *op.Call, r rowwise.Running, out, index, self *op.Tensor, dim int64, exclusive, reverse bool) (op.Run, error) {
	c.Plain(self, out)
	c.SameShape(self, out)
	axis := c.Axis(self, dim)
	for _, t := range []*op.Tensor{self, out} {
		if !kernel.Computes(t.DType) {
			c.Invalid("%v has a dtype that is not supported", t)
		}
	}
	if !op.Castable(self.DType, out.DType) {
		c.Invalid("%v cannot be stored in %v", self, out)
	}
	if c.Has("dtype") {
		if want := dtype.Type(c.Int("dtype")); want != out.DType && want != dtype.Undefined {
			c.Invalid("%v must have dtype %v, the argument dtype", out, want)
		}
	}
	if index != nil {
		c.Plain(index)
		c.SameShape(self, index)
		c.DType(index, dtype.Int64, dtype.Int32)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		var places kernel.View
		if index != nil {
			places = index.View()
		}
		return rowwise.Scan(r, out.View(), places, self.View(), axis, exclusive, reverse)
	}, nil
}

func cumsum(c *op.Call) (op.Run, error) {
	exclusive := c.Has("exclusive") && c.Bool("exclusive")
	reverse := c.Has("reverse") && c.Bool("reverse")
	if c.Tensor("self").DType.IsComplex() {
		return complexCumsum(c, exclusive, reverse)
	}
	return scan(c, rowwise.RunningSum, c.Tensor("out"), nil, c.Tensor("self"), c.Int("dim"), exclusive, reverse)
}

// complexCumsum computes the running sums of the real and of the imaginary parts.
func complexCumsum(c *op.Call, exclusive, reverse bool) (op.Run, error) {
	self, out := c.Tensor("self"), c.Tensor("out")
	c.Plain(self, out)
	c.Same(self, out)
	axis := c.Axis(self, c.Int("dim"))
	if self.DType == dtype.Complex32 {
		c.Invalid("%v has a dtype that is not supported", self)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		re, im := self.Parts()
		outRe, outIm := out.Parts()
		if err := rowwise.Scan(rowwise.RunningSum, outRe, kernel.View{}, re, axis, exclusive, reverse); err != nil {
			return err
		}
		return rowwise.Scan(rowwise.RunningSum, outIm, kernel.View{}, im, axis, exclusive, reverse)
	}, nil
}

func cumprod(c *op.Call) (op.Run, error) {
	input := c.Tensor("input")
	out := input
	if c.Has("out") {
		out = c.Tensor("out")
	}
	return scan(c, rowwise.RunningProd, out, nil, input, c.Scalar("dim").Int64(), false, false)
}

// cumulativeExtreme computes the running maximum or minimum and its index.
func cumulativeExtreme(r rowwise.Running) op.Prepare {
	return func(c *op.Call) (op.Run, error) {
		return scan(c, r, c.Tensor("valuesOut"), c.Tensor("indicesOut"), c.Tensor("self"), c.Int("dim"), false, false)
	}
}

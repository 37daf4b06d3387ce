package nn

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// cumulatives are the running reductions along a dimension, and the comparison of whole
// tensors.
var cumulatives = table{
	"Cumsum": cumsum, "CumsumV2": cumsum, "Cumprod": cumprod, "InplaceCumprod": cumprod,
	"Cummax": cumulativeExtreme(kernel.RunningMax), "Cummin": cumulativeExtreme(kernel.RunningMin),
	"Equal": equal, "PrecisionCompare": compareExactly,
}

// scan is the running reduction of self into out; index may be nil.
func (c *Call) scan(r kernel.Running, out, index, self *Tensor, dim int64, exclusive, reverse bool) (Run, error) {
	c.plain(self, out)
	c.SameShape(self, out)
	axis := c.Axis(self, dim)
	for _, t := range []*Tensor{self, out} {
		if !kernel.Computes(t.DType) {
			c.Invalid("%v has a dtype that is not supported", t)
		}
	}
	if !castable(self.DType, out.DType) {
		c.Invalid("%v cannot be stored in %v", self, out)
	}
	if c.Has("dtype") {
		if want := dtype.Type(c.Int("dtype")); want != out.DType && want != dtype.Undefined {
			c.Invalid("%v must have dtype %v, the argument dtype", out, want)
		}
	}
	if index != nil {
		c.plain(index)
		c.SameShape(self, index)
		c.DType(index, dtype.Int64, dtype.Int32)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		var places kernel.View
		if index != nil {
			places = index.View()
		}
		return kernel.Scan(r, out.View(), places, self.View(), axis, exclusive, reverse)
	}, nil
}

func cumsum(c *Call) (Run, error) {
	exclusive := c.Has("exclusive") && c.Bool("exclusive")
	reverse := c.Has("reverse") && c.Bool("reverse")
	return c.scan(kernel.RunningSum, c.Tensor("out"), nil, c.Tensor("self"), c.Int("dim"), exclusive, reverse)
}

func cumprod(c *Call) (Run, error) {
	input := c.Tensor("input")
	out := input
	if c.Has("out") {
		out = c.Tensor("out")
	}
	return c.scan(kernel.RunningProd, out, nil, input, c.Scalar("dim").Int64(), false, false)
}

// cumulativeExtreme is the running maximum or minimum and where it was met.
func cumulativeExtreme(r kernel.Running) Prepare {
	return func(c *Call) (Run, error) {
		return c.scan(r, c.Tensor("valuesOut"), c.Tensor("indicesOut"), c.Tensor("self"), c.Int("dim"), false, false)
	}
}

// equal sets one bool: whether both tensors have the same shape and elements.
func equal(c *Call) (Run, error) {
	self, other, out := c.Tensor("self"), c.Tensor("other"), c.Tensor("out")
	c.plain(self, other, out)
	c.DType(out, dtype.Bool)
	c.SameDType(self, other)
	if out.Len() != 1 {
		c.Invalid("%v must have one element", out)
	}
	if !kernel.Computes(self.DType) {
		c.Invalid("%v has a dtype that is not supported", self)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		answer := out.As([]int64{}, []int64{})
		if !slices.Equal(self.Shape, other.Shape) {
			return kernel.Fill(answer, kernel.Whole(0))
		}
		return kernel.Equals(answer, self.View(), other.View())
	}, nil
}

// compareExactly sets one number: 0 where two tensors agree in every element, else 1.
func compareExactly(c *Call) (Run, error) {
	want, got, out := c.Tensor("golden"), c.Tensor("realdata"), c.Tensor("out")
	c.plain(want, got, out)
	c.DType(want, transformerTypes...)
	c.Same(want, got)
	c.DType(out, dtype.Uint32)
	c.Shape(out, []int64{}, "a number without dimensions")
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if err := kernel.Equals(out.View(), want.View(), got.View()); err != nil {
			return err
		}
		return kernel.Map(kernel.LogicalNot, dtype.Uint32, out.View(), []kernel.Input{kernel.Of(out.View())})
	}, nil
}

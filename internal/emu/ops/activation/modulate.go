package activation

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/op"
)

// modulations scale and shift tensors.
var modulations = op.Table{"Scale": scaleBias, "Modulate": modulate, "ModulateBackward": modulateGrad}

// scaleBias is x·scale + bias. The dimensions of scale and bias correspond to those of x from axis
// on.
func scaleBias(c *op.Call) (op.Run, error) {
	x, scale, bias, y := c.Tensor("x"), c.Tensor("scale"), c.Optional("bias"), c.Tensor("y")
	c.Plain(x, scale, y)
	c.DType(x, op.FloatTypes...)
	c.SameDType(x, scale)
	c.Same(x, y)
	axis := c.Axis(x, c.Int("axis"))
	n := int64(scale.Rank())
	if c.Bool("scaleFromBlob") {
		if n = c.Int("numAxes"); n == -1 {
			n = int64(x.Rank() - axis)
		}
	}
	if c.Err() == nil && (n < 0 || n > int64(x.Rank()-axis)) {
		c.Invalid("%v has no %d dimensions from axis %d on", x, n, axis)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	if scale.Len() != 1 || n > 0 && scale.Rank() > 0 {
		c.Shape(scale, x.Shape[axis:axis+int(n)], "the dimensions of x from axis on")
	}
	if bias != nil {
		c.Same(scale, bias)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	wide := func(t *op.Tensor) kernel.View {
		if t.Rank() == 0 {
			return t.View()
		}
		rest := x.Rank() - axis - t.Rank()
		return t.As(slices.Concat(t.Shape, slices.Repeat([]int64{1}, rest)), slices.Concat(t.Strides, make([]int64, rest)))
	}
	return func(*op.Exec) error {
		if x.Len() == 0 {
			return nil
		}
		t, release := kernel.Temporary(x.Shape...)
		defer release()
		if err := elementwise.Map(elementwise.Mul, dtype.Float32, t, []elementwise.Input{elementwise.Of(x.View()), elementwise.Of(wide(scale))}); err != nil {
			return err
		}
		if bias == nil {
			return elementwise.Copy(y.View(), t)
		}
		return elementwise.Map(elementwise.Add, dtype.Float32, y.View(), []elementwise.Input{elementwise.Of(t), elementwise.Of(wide(bias))}, elementwise.Real(1))
	}, nil
}

// modulate is self·(1 + scale) + shift for self [B, L, D]. Scale and shift apply to all L rows;
// both may be absent.
func modulate(c *op.Call) (op.Run, error) {
	self, scale, shift, out := c.Tensor("self"), c.Optional("scaleOptional"), c.Optional("shiftOptional"), c.Tensor("out")
	c.Plain(self, out)
	c.DType(self, op.FloatTypes...)
	c.Same(self, out)
	c.Rank(self, 3, 3)
	if c.Err() != nil {
		return nil, c.Err()
	}
	none := func() kernel.View { return kernel.View{} }
	factor, term := none, none
	if scale != nil {
		factor = c.Shared(scale, self)
	}
	if shift != nil {
		term = c.Shared(shift, self)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if self.Len() == 0 {
			return nil
		}
		t, release := kernel.Temporary(self.Shape...)
		defer release()
		if err := elementwise.Copy(t, self.View()); err != nil {
			return err
		}
		if err := rowwise.Adapt(t, factor(), term()); err != nil {
			return err
		}
		return elementwise.Copy(out.View(), t)
	}, nil
}

// modulateGrad multiplies the gradient of the output by scale, not by 1 + scale: the caller adds 1.
// If scale or shift is absent, its gradient is not written.
func modulateGrad(c *op.Call) (op.Run, error) {
	dy, x, dx := c.Tensor("grad_output"), c.Tensor("input"), c.Tensor("grad_input")
	scale, shift := c.Optional("scale"), c.Optional("shift")
	c.Plain(dy, x, dx)
	c.DType(dy, op.FloatTypes...)
	c.Same(dy, x, dx)
	c.Rank(dy, 3, 3)
	if c.Err() != nil {
		return nil, c.Err()
	}
	var dscale, dshift *op.Tensor
	var factor func() kernel.View
	if scale != nil {
		factor, dscale = c.Shared(scale, x), c.Tensor("grad_scale")
		c.Same(scale, dscale)
		c.Rank(dscale, 2, 2)
	}
	if shift != nil {
		c.Shared(shift, x)
		dshift = c.Tensor("grad_shift")
		c.Same(shift, dshift)
		c.Rank(dshift, 2, 2)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if dy.Len() == 0 {
			return op.ZeroAll(dscale, dshift)
		}
		if dscale != nil {
			t, release := kernel.Temporary(x.Shape...)
			defer release()
			if err := elementwise.Map(elementwise.Mul, dtype.Float32, t, []elementwise.Input{elementwise.Of(dy.View()), elementwise.Of(x.View())}); err != nil {
				return err
			}
			if err := rowwise.Reduce(rowwise.ReduceSum, dscale.View(), t, []int{1}, 0); err != nil {
				return err
			}
		}
		if dshift != nil {
			if err := rowwise.Reduce(rowwise.ReduceSum, dshift.View(), dy.View(), []int{1}, 0); err != nil {
				return err
			}
		}
		if factor == nil {
			return elementwise.Copy(dx.View(), dy.View())
		}
		return elementwise.Map(elementwise.Mul, dtype.Float32, dx.View(), []elementwise.Input{elementwise.Of(dy.View()), elementwise.Of(factor())})
	}, nil
}

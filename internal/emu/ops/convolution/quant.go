package convolution

import (
	"slices"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/op"
)

// quantConvolutions are convolutions of integers with a scale for each filter.
var quantConvolutions = op.Table{"QuantConvolution": quantConvolution}

// quantised checks everything of a convolution of integers but the sizes.
func quantised(c *op.Call, input, weight, bias, scale, out *op.Tensor) {
	c.NoneOf("offset")
	c.Plain(input, weight, scale, out)
	c.DType(input, dtype.Int8)
	c.DType(weight, dtype.Int8)
	c.DType(scale, dtype.Float32)
	c.Rank(input, 4, 5)
	if c.Chip() == acceptance.Ascend950 {
		c.DType(out, dtype.Float16, dtype.BFloat16, dtype.Float32)
	} else {
		c.DType(out, dtype.Float16, dtype.BFloat16)
		if bias == nil {
			c.Fail(op.NullPointer, "bias is null; only the Ascend950 goes without")
		} else if bias.DType != out.DType {
			c.DType(bias, dtype.Float32)
		}
	}
	if c.Err() == nil {
		want := dtype.NCDHW
		if input.Rank() == 4 {
			want = dtype.NCHW
		}
		for _, t := range []*op.Tensor{input, weight, out} {
			if t.Format != want {
				c.Invalid("%v must be in format %v", t, want)
			}
		}
	}
	if mode := c.Text("roundMode"); mode != "" && mode != "rint" && mode != "round" {
		c.Invalid("roundMode is %q; use rint, round or null, none of which matters for results with a fraction", mode)
	}
	if c.Bool("transposed") || c.Int("groups") != 1 || c.Int("offsetx") != 0 {
		c.Invalid("transposed is %v, groups %d and offsetx %d; only false, 1 and 0 are supported", c.Bool("transposed"), c.Int("groups"), c.Int("offsetx"))
	}
}

// quantConvolution is a convolution of int8 images, multiplied by a scale for each filter, plus a bias.
func quantConvolution(c *op.Call) (op.Run, error) {
	input, weight, bias, scale, out := c.Tensor("input"), c.Tensor("weight"), c.Optional("bias"), c.Tensor("scale"), c.Tensor("output")
	quantised(c, input, weight, bias, scale, out)
	if c.Err() != nil {
		return nil, c.Err()
	}
	v, sizes := convOf(c, input, weight)
	if c.Err() != nil {
		return nil, c.Err()
	}
	filters := v.filters(weight)
	c.Shape(scale, []int64{filters}, "one for each filter")
	if bias != nil {
		c.Plain(bias)
		c.DType(bias, dtype.Float32, dtype.Float16, dtype.BFloat16)
		c.Shape(bias, []int64{filters}, "one for each filter")
	}
	c.Shape(out, slices.Concat([]int64{input.Shape[0], filters}, sizes), "the convolution of "+input.String()+" with "+weight.String())
	if c.Err() != nil {
		return nil, c.Err()
	}
	// perFilter views one number for each filter so that it broadcasts to the output.
	perFilter := func(t *op.Tensor) kernel.View {
		shape, strides := slices.Repeat([]int64{1}, out.Rank()), make([]int64, out.Rank())
		shape[1], strides[1] = filters, t.Strides[0]
		return t.As(shape, strides)
	}
	return func(*op.Exec) error {
		if out.Len() == 0 {
			return nil
		}
		images, releaseImages := kernel.Temporary(input.Shape...)
		defer releaseImages()
		windows, releaseWindows := kernel.Temporary(weight.Shape...)
		defer releaseWindows()
		sums, releaseSums := kernel.Temporary(out.Shape...)
		defer releaseSums()
		if err := elementwise.Copy(images, input.View()); err != nil {
			return err
		}
		if err := elementwise.Copy(windows, weight.View()); err != nil {
			return err
		}
		if err := v.run(sums, images, windows, nil); err != nil {
			return err
		}
		f := dtype.Float32
		if bias == nil {
			return elementwise.Map(elementwise.Mul, f, out.View(), []elementwise.Input{elementwise.Of(sums), elementwise.Of(perFilter(scale))})
		}
		in := []elementwise.Input{elementwise.Of(perFilter(bias)), elementwise.Of(sums), elementwise.Of(perFilter(scale))}
		return elementwise.Map(elementwise.Addcmul, f, out.View(), in, elementwise.Real(1))
	}, nil
}

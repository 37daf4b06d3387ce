package convolution

import (
	"slices"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/op"
)

// weights are the operators that prepare the weight of a convolution.
var weights = op.Table{"TransConvolutionWeight": transConvolutionWeight}

// transConvolutionWeight stores a weight in FRACTAL_Z on the Ascend310P, which alone has it. As on the
// device, the caller's tensor has the new format and storage shape when phase one returns, and its
// memory must have room for the elements that aclnnCalculateConvolutionWeightSize counts.
func transConvolutionWeight(c *op.Call) (op.Run, error) {
	weight, out, groups := c.Tensor("weightIn"), c.Tensor("weightOut"), c.Int("groups")
	if c.Err() != nil {
		return nil, c.Err()
	}
	if c.Chip() != acceptance.Ascend310P {
		c.Invalid("%v cannot become %v: only the Ascend310P has weights in FRACTAL_Z; convolve with the weight as it is", weight, out)
	}
	c.SameShape(weight, out)
	if !out.Contiguous() {
		c.Invalid("%v must be contiguous", out)
	}
	if groups < 1 || groups > 65535 || weight.Rank() == 4 && weight.Shape[0]%groups != 0 {
		c.Invalid("groups is %d; use 1 to 65535, a divisor of the filters of %v", groups, weight)
	}
	if c.Err() != nil || weight.Len() == 0 {
		return func(*op.Exec) error { return nil }, c.Err()
	}
	z := fractalZOf(weight.Shape, groups)
	dense := kernel.View{DType: dtype.Float16, Shape: weight.Shape, Strides: op.ContiguousStrides(weight.Shape)}
	c.Workspace(weight.Len() * 2)
	out.Recast(dtype.FractalZ, z.shape())
	return func(x *op.Exec) error {
		dense := dense
		dense.Data = x.Workspace()
		if err := elementwise.Copy(dense, weight.View()); err != nil {
			return err
		}
		z.pack(out.Data, dense.Data)
		return nil
	}, nil
}

// WeightShape returns the storage shape of a weight in FRACTAL_Z, for a convolution in groups.
func WeightShape(weight []int64, groups int64) []int64 { return fractalZOf(weight, groups).shape() }

// weightOf checks the weight of a convolution and returns a dense view of it. On the Ascend310P it may
// be in FRACTAL_Z storage, as TransConvolutionWeight leaves it.
func weightOf(c *op.Call, weight *op.Tensor) func(*op.Exec) kernel.View {
	stored := func(*op.Exec) kernel.View { return weight.View() }
	groups := c.Int("groups")
	if weight.Format != dtype.FractalZ || c.Chip() != acceptance.Ascend310P {
		convTypes(c, weight)
		return stored
	}
	c.DType(weight, dtype.Float16)
	c.Rank(weight, 4, 4)
	if c.Err() != nil || groups < 1 || weight.Len() == 0 || weight.Shape[0]%groups != 0 {
		return stored
	}
	z := fractalZOf(weight.Shape, groups)
	if want := z.shape(); !slices.Equal(weight.Storage, want) {
		c.Invalid("%v has a storage shape of %s; aclnnTransConvolutionWeight gives it %s in %d groups", weight, op.Dims(weight.Storage), op.Dims(want), groups)
	}
	c.Workspace(weight.Len() * 2)
	return func(x *op.Exec) kernel.View { return z.dense(weight, x.Workspace()) }
}

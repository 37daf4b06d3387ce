package convolution

import "github.com/goascend/cann/internal/emu/op"

// weights are the operators that prepare the weight of a convolution.
var weights = op.Table{"TransConvolutionWeight": transConvolutionWeight}

// transConvolutionWeight stores a weight in FRACTAL_Z on the Ascend310P. On the 910 family, which
// the emulator presents, CANN refuses every call. Null pointers, and values of rank, transposed or
// groups that no chip supports, are reported first.
func transConvolutionWeight(c *op.Call) (op.Run, error) {
	weight, out := c.Tensor("weightIn"), c.Tensor("weightOut")
	switch {
	case c.Err() != nil:
	case weight.Rank() != 4:
		c.Invalid("%v must have 4 dimensions", weight)
	case c.Bool("transposed"):
		c.Invalid("transposed is true; only weights of forward convolutions are supported")
	case c.Int("groups") == 0:
		c.Invalid("groups is 0; it must be above 0")
	default:
		c.Invalid("%v cannot become %v: only the Ascend310P has weights in FRACTAL_Z; convolve with the weight as it is", weight, out)
	}
	return nil, c.Err()
}

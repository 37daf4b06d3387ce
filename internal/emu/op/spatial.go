package op

import (
	"slices"

	"github.com/goascend/cann/internal/emu/kernel/convolution"
)

// Spatial reads a list with one number for each of n spatial dimensions. Each must be at least
// least. A single number applies to all dimensions.
func (c *Call) Spatial(name string, n int, least int64) []int64 {
	values := c.Ints(name)
	if values == nil {
		c.Fail(NullPointer, "%s is null", name)
	}
	return c.EachAxis(name, values, n, least)
}

// EachAxis is like Spatial for values that the caller has read.
func (c *Call) EachAxis(name string, values []int64, n int, least int64) []int64 {
	if len(values) == 1 {
		values = slices.Repeat(values, n)
	}
	if len(values) != n {
		c.Invalid("%s %s must have one number for each of the %d spatial dimensions", name, Dims(values), n)
		return slices.Repeat([]int64{max(least, 1)}, n)
	}
	for _, v := range values {
		if v < least {
			c.Invalid("%s %s must not have numbers below %d", name, Dims(values), least)
		}
	}
	return values
}

// Resample returns the Run that resamples the last n dimensions of self to the sizes of out.
func (c *Call) Resample(out, self *Tensor, n int, taps func() []convolution.Taps) (Run, error) {
	c.Plain(self, out)
	if err := c.Err(); err != nil {
		return nil, err
	}
	t := taps()
	return func(*Exec) error {
		if out.Len() == 0 {
			return nil
		}
		return convolution.Resample(out.View(), self.View(), self.Rank()-n, t...)
	}, nil
}

// ResampleGrad returns the Run that computes the gradient of Resample.
func (c *Call) ResampleGrad(out, grad *Tensor, n int, taps func() []convolution.Taps) (Run, error) {
	c.Plain(out, grad)
	if err := c.Err(); err != nil {
		return nil, err
	}
	t := taps()
	return func(*Exec) error {
		if grad.Len() == 0 {
			return Zero(out)
		}
		return convolution.ResampleGrad(out.View(), grad.View(), out.Rank()-n, t...)
	}, nil
}

// Gradients returns the outputs of a backward operator that outputMask requests. The others are
// nil.
func (c *Call) Gradients() (input, weight, bias *Tensor) {
	mask := c.Bools("outputMask")
	if len(mask) != 3 {
		c.Invalid("outputMask has %d elements; it has one for the input, the weight and the bias", len(mask))
		return nil, nil, nil
	}
	wanted := func(i int, name string) *Tensor {
		if !mask[i] {
			return nil
		}
		return c.Tensor(name)
	}
	return wanted(0, "gradInput"), wanted(1, "gradWeight"), wanted(2, "gradBias")
}

package layout

import (
	"errors"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/convolution"
	"github.com/goascend/cann/internal/emu/op"
)

var paddings = op.Table{
	"ReflectionPad1d": padded(1, reflect), "ReflectionPad2d": padded(2, reflect), "ReflectionPad3d": padded(3, reflect),
	"ReplicationPad1d": padded(1, replicate), "ReplicationPad2d": padded(2, replicate), "ReplicationPad3d": padded(3, replicate),
	"CircularPad2d": padded(2, wrap), "CircularPad3d": padded(3, wrap),
	"ReflectionPad1dBackward": paddedBackward(1, reflect), "ReflectionPad2dBackward": paddedBackward(2, reflect), "ReflectionPad3dBackward": paddedBackward(3, reflect),
	"ReplicationPad1dBackward": paddedBackward(1, replicate), "ReplicationPad2dBackward": paddedBackward(2, replicate), "ReplicationPad3dBackward": paddedBackward(3, replicate),
	"CircularPad2dBackward": paddedBackward(2, wrap), "CircularPad3dBackward": paddedBackward(3, wrap),
}

// padding maps a position outside a dimension of n elements to the position whose element it
// repeats, and limits how many positions may be added on each side.
type padding struct {
	place func(k, n int64) int64
	limit func(n int64) int64
	full  bool // dimensions other than the batch must have elements
}

var (
	reflect = padding{ // mirrors at the first and the last element without repeating them
		place: func(k, n int64) int64 {
			if k < 0 {
				k = -k
			}
			return min(k, 2*(n-1)-k)
		},
		limit: func(n int64) int64 { return n - 1 },
	}
	replicate = padding{
		place: func(k, n int64) int64 { return min(max(k, 0), n-1) },
		limit: func(int64) int64 { return 1 << 40 },
	}
	wrap = padding{
		place: func(k, n int64) int64 { return ((k % n) + n) % n },
		limit: func(n int64) int64 { return n },
		full:  true,
	}
)

// taps reads the padding of the last n dimensions of self, starting with the last one, and
// returns the padded shape. Negative padding is refused.
func (p padding) taps(c *op.Call, self *op.Tensor, n int) (taps []convolution.Taps, shape []int64) {
	c.Plain(self)
	c.Rank(self, n+1, n+2)
	sides := c.Ints("padding")
	if len(sides) != 2*n {
		c.Invalid("padding %s must have two numbers for each of the last %d dimensions", op.Dims(sides), n)
		return nil, nil
	}
	c.EachAxis("padding", sides, 2*n, 0)
	if c.Err() != nil {
		return nil, nil
	}
	axis := self.Rank() - n
	if p.full && self.Shape[axis-1] == 0 {
		c.Invalid("dimension %d of %v is empty; only the batch may be", axis-1, self)
		return nil, nil
	}
	shape = slices.Clone(self.Shape)
	for i := range n {
		size, before, after := self.Shape[axis+i], sides[2*(n-1-i)], sides[2*(n-1-i)+1]
		if size == 0 || max(before, after) > p.limit(size) {
			c.Invalid("padding %s is too much for dimension %d of %v; at most %d fits", op.Dims(sides), axis+i, self, max(p.limit(size), 0))
			return nil, nil
		}
		var t convolution.Taps
		for k := -before; k < size+after; k++ {
			t.Index = append(t.Index, []int64{p.place(k, size)})
		}
		shape[axis+i] += before + after
		taps = append(taps, t)
	}
	return taps, shape
}

func padded(n int, p padding) op.Prepare {
	return func(c *op.Call) (op.Run, error) {
		self, out := c.Tensor("self"), c.Tensor("out")
		c.Movable(self, out)
		c.SameDType(self, out)
		taps, shape := p.taps(c, self, n)
		if c.Err() == nil {
			c.Shape(out, shape, "the padded shape of "+self.String())
		}
		return c.Resample(out, self, n, func() []convolution.Taps { return taps })
	}
}

func paddedBackward(n int, p padding) op.Prepare {
	return func(c *op.Call) (op.Run, error) {
		grad, self, out := c.Tensor("gradOutput"), c.Tensor("self"), c.Tensor("gradInput")
		c.DType(self, dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Float64, dtype.Complex64, dtype.Complex128)
		c.SameDType(self, grad)
		c.Same(self, out)
		taps, shape := p.taps(c, self, n)
		if c.Err() == nil {
			c.Shape(grad, shape, "the padded shape of "+self.String())
		}
		if self.DType.IsComplex() {
			return paddedBackwardComplex(c, out, grad, n, taps)
		}
		return c.ResampleGrad(out, grad, n, func() []convolution.Taps { return taps })
	}
}

// paddedBackwardComplex computes the gradient of the real and of the imaginary parts.
func paddedBackwardComplex(c *op.Call, out, grad *op.Tensor, n int, taps []convolution.Taps) (op.Run, error) {
	c.Plain(out, grad)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if grad.Len() == 0 {
			return op.Zero(out)
		}
		re, im := grad.Parts()
		outRe, outIm := out.Parts()
		return errors.Join(convolution.ResampleGrad(outRe, re, out.Rank()-n, taps...), convolution.ResampleGrad(outIm, im, out.Rank()-n, taps...))
	}, nil
}

package pooling

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/convolution"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/indexing"
	"github.com/goascend/cann/internal/emu/op"
)

// maskPools lists the 2-D max poolings that record, for every element of the window, one bit per
// result: whether the result came from that element. The bit order is the emulator's own (result
// i is bit i%8 of byte i/8). The device's order differs, but only MaxPool2dWithMaskBackward
// reads the mask.
var maskPools = op.Table{"MaxPool2dWithMask": maskPool, "MaxPool2dWithMaskBackward": maskPoolGrad}

// maskPooling reads the window of a pooling with a mask, and checks the mask.
func maskPooling(c *op.Call, self, pooled, mask *op.Tensor) (p pooling) {
	c.DType(self, op.FloatTypes...)
	c.SameDType(self, pooled)
	c.Plain(pooled, mask)
	c.DType(mask, dtype.Int8)
	for _, d := range c.Spatial("dilation", 2, 1) {
		if d != 1 {
			c.Invalid("dilation is %s; only 1 is supported", op.Dims(c.Ints("dilation")))
		}
	}
	if p = newPooling(c, self, 2); c.Err() != nil {
		return p
	}
	c.Shape(pooled, p.shape, "the pooled shape of "+self.String())
	n := self.Rank()
	bits := slices.Clone(p.shape)
	bits[n-2] = p.windows[0].size * p.windows[1].size
	bits[n-1] = ((p.shape[n-2]*p.shape[n-1]+15)/16 + 1) * 32
	c.Shape(mask, bits, "a row of bits for each element of the window")
	return p
}

// bit returns the byte and the bit within it that record whether a result came from an element
// of its window. row is the number of bytes per row of the mask.
func (p pooling) bit(result, element, row int64) (place, bit int64) {
	n := len(p.shape)
	plane := p.shape[n-2] * p.shape[n-1]
	i := result % plane
	return (result/plane*p.windows[0].size*p.windows[1].size+element)*row + i/8, 1 << (i % 8)
}

// corner returns the first row and column of a result's window in the plane.
func (p pooling) corner(result int64) (row, col int64) {
	h, w := p.shape[len(p.shape)-2], p.shape[len(p.shape)-1]
	i := result % (h * w)
	return i/w*p.windows[0].stride - p.windows[0].before, i%w*p.windows[1].stride - p.windows[1].before
}

func maskPool(c *op.Call) (op.Run, error) {
	self, out, mask := c.Tensor("self"), c.Tensor("out"), c.Tensor("indices")
	p := maskPooling(c, self, out, mask)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		at, release := kernel.TemporaryInt64(out.Shape...)
		defer release()
		var spans [][]convolution.Span
		for i, w := range p.windows {
			spans = append(spans, w.spans(out.Dim(i-2)))
		}
		if err := convolution.MaxPool(out.View(), at, self.View(), spans); err != nil || out.Len() == 0 {
			return err
		}
		places, err := elementwise.Indices(at)
		if err != nil {
			return err
		}
		bits := make([]int64, mask.Len())
		for i, place := range places {
			row, col := p.corner(int64(i))
			element := (place/self.Dim(-1)-row)*p.windows[1].size + place%self.Dim(-1) - col
			k, bit := p.bit(int64(i), element, mask.Dim(-1))
			bits[k] |= bit
		}
		for i, b := range bits {
			bits[i] = int64(int8(b))
		}
		return indexing.SetInts(mask.View(), bits)
	}, nil
}

func maskPoolGrad(c *op.Call) (op.Run, error) {
	dy, self, mask, dx := c.Tensor("gradOutput"), c.Tensor("self"), c.Tensor("indices"), c.Tensor("gradInput")
	c.Same(self, dx)
	p := maskPooling(c, self, dy, mask)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if dy.Len() == 0 {
			return op.Zero(dx)
		}
		bits, err := elementwise.Indices(mask.View())
		if err != nil {
			return err
		}
		// The mask has one bit set per result. Without a set bit the first element is assumed.
		places := make([]int64, dy.Len())
		for i := range places {
			row, col := p.corner(int64(i))
			places[i] = max(row, 0)*self.Dim(-1) + max(col, 0)
			for e := range p.windows[0].size * p.windows[1].size {
				if k, bit := p.bit(int64(i), e, mask.Dim(-1)); bits[k]&bit != 0 {
					places[i] = (row+e/p.windows[1].size)*self.Dim(-1) + col + e%p.windows[1].size
				}
			}
		}
		at, release := kernel.TemporaryInt64(dy.Shape...)
		defer release()
		if err := indexing.SetInts(at, places); err != nil {
			return err
		}
		return convolution.Unpool(indexing.ScatterAdd, dx.View(), dy.View(), at, 2)
	}, nil
}

package nn

import (
	"slices"

	"github.com/goascend/cann/internal/emu/kernel"
)

// segmentSums are the decays between the places of a sequence, which selective state spaces
// multiply by.
var segmentSums = table{"ExpSegsum": expSegsum, "ExpSegsumBackward": expSegsumGrad}

// segments checks a tensor [lead…, n] and one [lead…, n, n].
func (c *Call) segments(line, square *Tensor) {
	c.plain(line, square)
	c.DType(line, transformerTypes...)
	c.SameDType(line, square)
	c.Rank(line, 3, 4)
	if c.Err() == nil {
		c.Shape(square, append(slices.Clone(line.Shape), line.Dim(-1)), "a matrix for each sequence")
	}
}

func expSegsum(c *Call) (Run, error) {
	self, out := c.Tensor("self"), c.Tensor("out")
	c.segments(self, out)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error { return kernel.ExpSegsum(out.View(), self.View()) }, nil
}

func expSegsumGrad(c *Call) (Run, error) {
	dy, y, dx := c.Tensor("gradOutput"), c.Tensor("gradSelf"), c.Tensor("gradInput")
	c.Same(dy, y)
	c.segments(dx, dy)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error { return kernel.ExpSegsumGrad(dx.View(), dy.View(), y.View()) }, nil
}

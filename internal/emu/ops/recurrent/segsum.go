package recurrent

import (
	"slices"

	"github.com/goascend/cann/internal/emu/kernel/segsum"
	"github.com/goascend/cann/internal/emu/op"
)

// segmentSums lists the operators that compute the decays between positions of a sequence, which
// selective state space models multiply by.
var segmentSums = op.Table{"ExpSegsum": expSegsum, "ExpSegsumBackward": expSegsumGrad}

// segments checks a tensor [lead…, n] and a tensor [lead…, n, n].
func segments(c *op.Call, line, square *op.Tensor) {
	c.Plain(line, square)
	c.DType(line, op.FloatTypes...)
	c.SameDType(line, square)
	c.Rank(line, 3, 4)
	if c.Err() == nil {
		c.Shape(square, append(slices.Clone(line.Shape), line.Dim(-1)), "a matrix for each sequence")
	}
}

func expSegsum(c *op.Call) (op.Run, error) {
	self, out := c.Tensor("self"), c.Tensor("out")
	segments(c, self, out)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error { return segsum.Exp(out.View(), self.View()) }, nil
}

func expSegsumGrad(c *op.Call) (op.Run, error) {
	dy, y, dx := c.Tensor("gradOutput"), c.Tensor("gradSelf"), c.Tensor("gradInput")
	c.Same(dy, y)
	segments(c, dx, dy)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error { return segsum.ExpGrad(dx.View(), dy.View(), y.View()) }, nil
}

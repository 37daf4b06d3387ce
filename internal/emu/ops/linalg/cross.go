package linalg

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/op"
)

// crossProducts lists the products of vectors of three elements. Complex vectors are not
// supported.
var crossProducts = op.Table{"LinalgCross": cross}

func cross(c *op.Call) (op.Run, error) {
	self, other, out := c.Tensor("self"), c.Tensor("other"), c.Tensor("out")
	c.Plain(self, other, out)
	c.DType(self, dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Float64, dtype.Int8, dtype.Int16, dtype.Int32, dtype.Int64, dtype.Uint8)
	c.SameDType(self, other, out)
	shape, ok := op.BroadcastShape(self.Shape, other.Shape)
	if !ok || !slices.Equal(shape, out.Shape) {
		c.Invalid("%v and %v do not broadcast to %v", self, other, out)
	}
	// A positive dim counts in self, whose dimensions broadcasting puts behind those that it lacks.
	axis := c.Axis(self, c.Int("dim"))
	axis += max(out.Rank()-self.Rank(), 0)
	if c.Err() == nil && out.Len() > 0 && (out.Rank() == 0 || out.Shape[axis] != 3) {
		c.Invalid("dimension %d of %v must have 3 elements", axis, out)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if out.Len() == 0 {
			return nil
		}
		return kernel.Cross(out.View(), self.View(), other.View(), axis)
	}, nil
}

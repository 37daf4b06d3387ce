package linalg

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/op"
)

// crossProducts lists the products of vectors of three elements.
var crossProducts = op.Table{"LinalgCross": cross}

func cross(c *op.Call) (op.Run, error) {
	self, other, out := c.Tensor("self"), c.Tensor("other"), c.Tensor("out")
	c.Plain(self, other, out)
	c.DType(self, dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Float64, dtype.Int8, dtype.Int16, dtype.Int32, dtype.Int64, dtype.Uint8, dtype.Complex64, dtype.Complex128)
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
		if out.DType.IsComplex() {
			return crossComplex(out, self, other, axis)
		}
		return rowwise.Cross(out.View(), self.View(), other.View(), axis)
	}, nil
}

// crossComplex multiplies complex vectors along an axis of out, to whose shape both are broadcast.
func crossComplex(out, self, other *op.Tensor, axis int) error {
	a, err := self.Numbers(out.Shape)
	if err != nil {
		return err
	}
	b, err := other.Numbers(out.Shape)
	if err != nil {
		return err
	}
	step, values := op.Count(out.Shape[axis+1:]), make([]complex128, len(a))
	for i := range int64(len(a)) {
		k := i / step % 3
		next, last := i+((k+1)%3-k)*step, i+((k+2)%3-k)*step
		values[i] = a[next]*b[last] - a[last]*b[next]
	}
	return out.SetNumbers(values)
}

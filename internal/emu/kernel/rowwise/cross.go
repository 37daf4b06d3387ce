package rowwise

import (
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
)

// Cross sets out to the cross product of a and b along axis, which has size 3. a and b broadcast
// to out. Integers wrap around.
func Cross(out, a, b kernel.View, axis int) error {
	a, err := a.Broadcast(out.Shape)
	if err != nil {
		return err
	}
	if b, err = b.Broadcast(out.Shape); err != nil {
		return err
	}
	c := NewChain(out)
	c.Compute = kernel.Accumulators[kernel.Classes[out.DType]]
	whole := c.Temp(out.Shape) // a result may share memory with a factor
	for i := range int64(3) {
		j, k := (i+1)%3, (i+2)%3
		part := whole.Select(axis, i)
		c.Mul(part, a.Select(axis, j), b.Select(axis, k))
		c.Set(part, elementwise.Addcmul, []elementwise.Number{elementwise.Whole(-1)}, elementwise.Of(part), elementwise.Of(a.Select(axis, k)), elementwise.Of(b.Select(axis, j)))
	}
	c.Set(out, elementwise.Identity, nil, elementwise.Of(whole))
	return c.End()
}

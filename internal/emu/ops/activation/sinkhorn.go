package activation

import (
	"github.com/goascend/cann/internal/emu/kernel/gating"
	"github.com/goascend/cann/internal/emu/op"
)

// transports computes transport plans that distribute rows evenly over columns, for example tokens
// over experts.
var transports = op.Table{"Sinkhorn": sinkhorn}

func sinkhorn(c *op.Call) (op.Run, error) {
	cost, out, tolerance := c.Tensor("cost"), c.Tensor("p"), 1e-4
	if s := c.OptionalScalar("tol"); s != nil {
		tolerance = s.Float64()
	}
	c.Plain(cost, out)
	c.DType(cost, op.FloatTypes...)
	c.Rank(cost, 2, 2)
	c.Same(cost, out)
	if !(tolerance > 0) {
		c.Invalid("tol is %g; it must be above 0", tolerance)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error { return gating.Sinkhorn(out.View(), cost.View(), tolerance) }, nil
}

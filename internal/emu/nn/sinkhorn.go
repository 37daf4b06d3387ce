package nn

import "github.com/goascend/cann/internal/emu/kernel"

// transports are plans that spread rows evenly over columns, as tokens over experts.
var transports = table{"Sinkhorn": sinkhorn}

func sinkhorn(c *Call) (Run, error) {
	cost, out, tolerance := c.Tensor("cost"), c.Tensor("p"), 1e-4
	if s := c.OptionalScalar("tol"); s != nil {
		tolerance = s.Float64()
	}
	c.plain(cost, out)
	c.DType(cost, transformerTypes...)
	c.Rank(cost, 2, 2)
	c.Same(cost, out)
	if !(tolerance > 0) {
		c.Invalid("tol is %g; it must be above 0", tolerance)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error { return kernel.Sinkhorn(out.View(), cost.View(), tolerance) }, nil
}

package normalization

import (
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/op"
)

// renorms lists the operators that limit the norms of the slices of a tensor along a dimension.
var renorms = op.Table{"Renorm": renorm, "InplaceRenorm": renorm}

func renorm(c *op.Call) (op.Run, error) {
	x := c.Tensor(c.Either("self", "selfRef"))
	out := x
	if c.Has("out") {
		out = c.Tensor("out")
	}
	p, most := c.Scalar("p").Float64(), c.Scalar("maxNorm").Float64()
	c.Plain(x, out)
	c.DType(x, op.FloatTypes...)
	c.Same(x, out)
	c.Rank(x, 2, kernel.MaxRank)
	axis := c.Axis(x, c.Int("dim"))
	if !(p >= 0) || !(most >= 0) { // the norm of order 0 counts the elements that are not 0
		c.Invalid("p is %g and maxNorm %g; neither may be below 0", p, most)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if x.Len() == 0 {
			return nil
		}
		return rowwise.Renorm(out.View(), x.View(), axis, p, most)
	}, nil
}

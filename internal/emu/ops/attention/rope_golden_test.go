package attention

import (
	"testing"

	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
	"github.com/goascend/cann/internal/testing/golden"
)

// The gradient of a rotation is the rotation by the negative angle.
func TestGoldenRotary(t *testing.T) {
	for _, c := range golden.Cases(t, "rope_half") {
		c.Run(t, func(t *testing.T, c *golden.Case) {
			d, rotated := c.DType, int64(c.Int("rotary_dim"))
			x, dy := optest.GoldenTensor(t, c, d, "x"), optest.GoldenTensor(t, c, d, "dy")
			cos, sin := optest.GoldenTensor(t, c, d, "cos"), optest.GoldenTensor(t, c, d, "sin")
			table := func(x *op.Tensor) *op.Tensor {
				return optest.Of(x.As([]int64{1, x.Dim(0), 1, rotated}, []int64{0, rotated, 0, 1}))
			}
			negated := optest.Values(sin)
			for i := range negated {
				negated[i] *= -1
			}
			minus := optest.Tensor(t, d, sin.Shape, negated...)
			for _, r := range []struct {
				name    string
				in, sin *op.Tensor
			}{{"y", x, sin}, {"dx", dy, minus}} {
				out := optest.Tensor(t, d, x.Shape, optest.Values(r.in)...)
				optest.Run(t, "RotaryPositionEmbedding", optest.Args{
					"x": optest.Of(r.in.View().Narrow(3, 0, rotated)), "cos": table(cos), "sin": table(r.sin), "out": optest.Of(out.View().Narrow(3, 0, rotated)),
				})
				optest.RequireRMS(t, c, r.name, out, optest.GoldenLimit(d))
			}
		})
	}
}

package activation

import (
	"testing"

	"github.com/goascend/cann/internal/emu/op/optest"
	"github.com/goascend/cann/internal/testing/golden"
)

func TestGoldenSwiGLU(t *testing.T) {
	for _, c := range golden.Cases(t, "swiglu") {
		c.Run(t, func(t *testing.T, c *golden.Case) {
			d := c.DType
			x, dy := optest.GoldenTensor(t, c, d, "x"), optest.GoldenTensor(t, c, d, "dy")
			y, dx := optest.Tensor(t, d, dy.Shape), optest.Tensor(t, d, x.Shape)
			optest.Run(t, "SwiGlu", optest.Args{"x": x, "dim": -1, "out": y})
			optest.Run(t, "SwiGluGrad", optest.Args{"yGrad": dy, "x": x, "dim": -1, "out": dx})
			optest.RequireRMS(t, c, "y", y, optest.GoldenLimit(d))
			optest.RequireRMS(t, c, "dx", dx, optest.GoldenLimit(d))
		})
	}
}

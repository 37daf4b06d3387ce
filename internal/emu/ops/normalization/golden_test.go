package normalization

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op/optest"
	"github.com/goascend/cann/internal/testing/golden"
)

func TestGoldenRMSNorm(t *testing.T) {
	for _, c := range golden.Cases(t, "rms_norm") {
		c.Run(t, func(t *testing.T, c *golden.Case) {
			d, limit := c.DType, optest.GoldenLimit(c.DType)
			x, dy, gamma := optest.GoldenTensor(t, c, d, "x"), optest.GoldenTensor(t, c, d, "dy"), optest.GoldenTensor(t, c, d, "w")
			y, dx := optest.Tensor(t, d, x.Shape), optest.Tensor(t, d, x.Shape)
			rstd, dgamma := optest.Tensor(t, dtype.Float32, []int64{x.Dim(0), 1}), optest.Tensor(t, dtype.Float32, gamma.Shape)
			optest.Run(t, "RmsNorm", optest.Args{"x": x, "gamma": gamma, "epsilon": c.Float("eps"), "yOut": y, "rstdOut": rstd})
			optest.Run(t, "RmsNormGrad", optest.Args{"dy": dy, "x": x, "rstd": rstd, "gamma": gamma, "dxOut": dx, "dgammaOut": dgamma})
			optest.RequireRMS(t, c, "y", y, limit)
			optest.RequireRMS(t, c, "dx", dx, limit)
			require.NoError(t, golden.CheckClose(optest.Values(rstd), c.Float32("rstd"), 0, 1e-6), "rstd")
			require.NoError(t, golden.CheckRMS(optest.Values(dgamma), c.Float32("dw"), 1e-6), "dw")
		})
	}
}

package optimizer

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op/optest"
	"github.com/goascend/cann/internal/testing/golden"
)

func TestGoldenAdamW(t *testing.T) {
	for _, c := range golden.Cases(t, "adamw") {
		c.Run(t, func(t *testing.T, c *golden.Case) {
			grads, params := optest.GoldenTensor(t, c, dtype.Float32, "grads"), c.Float32("params")
			w := optest.GoldenTensor(t, c, dtype.Float32, "p0")
			m, v := optest.Tensor(t, dtype.Float32, w.Shape, 0), optest.Tensor(t, dtype.Float32, w.Shape, 0)
			n, betas := w.Len(), c.Floats("betas")
			for step := range int64(c.Int("steps")) {
				optest.Run(t, "ApplyAdamWV2", optest.Args{
					"varRef": w, "mRef": m, "vRef": v, "grad": optest.Of(grads.View().Select(0, step)), "step": optest.Tensor(t, dtype.Int64, []int64{1}, float64(step)),
					"lr": c.Float("lr"), "beta1": betas[0], "beta2": betas[1], "weightDecay": c.Float("weight_decay"), "eps": c.Float("eps"),
				})
				require.NoError(t, golden.CheckClose(optest.Values(w), params[step*n:][:n], 1e-7, 1e-6), "after step %d", step)
			}
			optest.RequireRMS(t, c, "m", m, 1e-6)
			optest.RequireRMS(t, c, "v", v, 1e-6)
		})
	}
}

package loss

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op/optest"
	"github.com/goascend/cann/internal/testing/golden"
)

func TestGoldenCrossEntropy(t *testing.T) {
	for _, c := range golden.Cases(t, "cross_entropy") {
		c.Run(t, func(t *testing.T, c *golden.Case) {
			d := c.DType
			x := optest.GoldenTensor(t, c, d, "logits")
			ids := c.Int64("target")
			target := optest.Tensor(t, dtype.Int64, []int64{int64(len(ids))}, optest.Floats(ids)...)
			// The log-probabilities passed to backward are rounded to the dtype of the logits.
			l := lossTrial{x: x, target: target, reduction: c.Text("reduction"), ignore: c.Int("ignore_index"), gradLoss: []float64{1}}
			loss, logProb, dx := l.compute(t)
			require.NoError(t, golden.CheckClose(optest.Values(loss), c.Float32("loss"), 0, optest.GoldenLimit(d)), "loss")
			optest.RequireRMS(t, c, "log_prob", logProb, optest.GoldenLimit(d))
			optest.RequireRMS(t, c, "dlogits", dx, 4*optest.GoldenLimit(d))
		})
	}
}

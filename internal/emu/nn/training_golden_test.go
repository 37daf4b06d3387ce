package nn

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/golden"
)

func TestGoldenRMSNorm(t *testing.T) {
	for _, c := range golden.Cases(t, "rms_norm") {
		c.Run(t, func(t *testing.T, c *golden.Case) {
			d, limit := c.DType, goldenLimit(c.DType)
			x, dy, gamma := goldenTensor(t, c, d, "x"), goldenTensor(t, c, d, "dy"), goldenTensor(t, c, d, "w")
			y, dx := tensor(t, d, x.Shape), tensor(t, d, x.Shape)
			rstd, dgamma := tensor(t, dtype.Float32, []int64{x.Dim(0), 1}), tensor(t, dtype.Float32, gamma.Shape)
			run(t, "RmsNorm", args{"x": x, "gamma": gamma, "epsilon": c.Float("eps"), "yOut": y, "rstdOut": rstd})
			run(t, "RmsNormGrad", args{"dy": dy, "x": x, "rstd": rstd, "gamma": gamma, "dxOut": dx, "dgammaOut": dgamma})
			requireRMS(t, c, "y", y, limit)
			requireRMS(t, c, "dx", dx, limit)
			require.NoError(t, golden.CheckClose(values(rstd), c.Float32("rstd"), 0, 1e-6), "rstd")
			require.NoError(t, golden.CheckRMS(values(dgamma), c.Float32("dw"), 1e-6), "dw")
		})
	}
}

// The gradient of a rotation is the rotation by the opposite angle.
func TestGoldenRotary(t *testing.T) {
	for _, c := range golden.Cases(t, "rope_half") {
		c.Run(t, func(t *testing.T, c *golden.Case) {
			d, rotated := c.DType, int64(c.Int("rotary_dim"))
			x, dy := goldenTensor(t, c, d, "x"), goldenTensor(t, c, d, "dy")
			cos, sin := goldenTensor(t, c, d, "cos"), goldenTensor(t, c, d, "sin")
			table := func(x *Tensor) *Tensor { return of(x.As([]int64{1, x.Dim(0), 1, rotated}, []int64{0, rotated, 0, 1})) }
			minus := tensor(t, d, sin.Shape)
			run(t, "Neg", args{"self": sin, "out": minus})
			for _, r := range []struct {
				name    string
				in, sin *Tensor
			}{{"y", x, sin}, {"dx", dy, minus}} {
				out := tensor(t, d, x.Shape, values(r.in)...)
				run(t, "RotaryPositionEmbedding", args{
					"x": of(r.in.View().Narrow(3, 0, rotated)), "cos": table(cos), "sin": table(r.sin), "out": of(out.View().Narrow(3, 0, rotated)),
				})
				requireRMS(t, c, r.name, out, goldenLimit(d))
			}
		})
	}
}

func TestGoldenSwiGLU(t *testing.T) {
	for _, c := range golden.Cases(t, "swiglu") {
		c.Run(t, func(t *testing.T, c *golden.Case) {
			d := c.DType
			x, dy := goldenTensor(t, c, d, "x"), goldenTensor(t, c, d, "dy")
			y, dx := tensor(t, d, dy.Shape), tensor(t, d, x.Shape)
			run(t, "SwiGlu", args{"x": x, "dim": -1, "out": y})
			run(t, "SwiGluGrad", args{"yGrad": dy, "x": x, "dim": -1, "out": dx})
			requireRMS(t, c, "y", y, goldenLimit(d))
			requireRMS(t, c, "dx", dx, goldenLimit(d))
		})
	}
}

func TestGoldenCrossEntropy(t *testing.T) {
	for _, c := range golden.Cases(t, "cross_entropy") {
		c.Run(t, func(t *testing.T, c *golden.Case) {
			d := c.DType
			x := goldenTensor(t, c, d, "logits")
			ids := c.Int64("target")
			target := tensor(t, dtype.Int64, []int64{int64(len(ids))}, reals(ids)...)
			// What backward gets is rounded to the dtype of the logits.
			l := lossTrial{x: x, target: target, reduction: c.Text("reduction"), ignore: c.Int("ignore_index"), gradLoss: []float64{1}}
			loss, logProb, dx := l.compute(t)
			require.NoError(t, golden.CheckClose(values(loss), c.Float32("loss"), 0, goldenLimit(d)), "loss")
			requireRMS(t, c, "log_prob", logProb, goldenLimit(d))
			requireRMS(t, c, "dlogits", dx, 4*goldenLimit(d))
		})
	}
}

func reals(v []int64) []float64 {
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = float64(x)
	}
	return out
}

func TestGoldenEmbedding(t *testing.T) {
	for _, c := range golden.Cases(t, "embedding") {
		c.Run(t, func(t *testing.T, c *golden.Case) {
			w, dy := goldenTensor(t, c, c.DType, "w"), goldenTensor(t, c, c.DType, "dy")
			ids := c.Int64("ids")
			indices := tensor(t, dtype.Int64, []int64{int64(len(ids))}, reals(ids)...)
			y, dw := tensor(t, c.DType, dy.Shape), tensor(t, c.DType, w.Shape)
			run(t, "Embedding", args{"weight": w, "indices": indices, "out": y})
			run(t, "EmbeddingDenseBackward", args{"grad": dy, "indices": indices, "numWeights": w.Dim(0), "paddingIdx": -1, "out": dw})
			requireRMS(t, c, "y", y, 0)
			requireRMS(t, c, "dw", dw, goldenLimit(c.DType))
		})
	}
}

func TestGoldenAdamW(t *testing.T) {
	for _, c := range golden.Cases(t, "adamw") {
		c.Run(t, func(t *testing.T, c *golden.Case) {
			grads, params := goldenTensor(t, c, dtype.Float32, "grads"), c.Float32("params")
			w := goldenTensor(t, c, dtype.Float32, "p0")
			m, v := tensor(t, dtype.Float32, w.Shape, 0), tensor(t, dtype.Float32, w.Shape, 0)
			n, betas := w.Len(), c.Floats("betas")
			for step := range int64(c.Int("steps")) {
				run(t, "ApplyAdamWV2", args{
					"varRef": w, "mRef": m, "vRef": v, "grad": of(grads.View().Select(0, step)), "step": tensor(t, dtype.Int64, []int64{1}, float64(step)),
					"lr": c.Float("lr"), "beta1": betas[0], "beta2": betas[1], "weightDecay": c.Float("weight_decay"), "eps": c.Float("eps"),
				})
				require.NoError(t, golden.CheckClose(values(w), params[step*n:][:n], 1e-7, 1e-6), "after step %d", step)
			}
			requireRMS(t, c, "m", m, 1e-6)
			requireRMS(t, c, "v", v, 1e-6)
		})
	}
}

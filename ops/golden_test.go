package ops_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/internal/testing/golden"
	"github.com/goascend/cann/ops"
)

func TestGoldenRMSNorm(t *testing.T) {
	for _, c := range golden.Cases(t, "rms_norm") {
		c.Run(t, func(t *testing.T, c *golden.Case) {
			everyKernel(t, func(r *ops.Registry) dispatched { return r.RMSNorm },
				func(r *ops.Registry) dispatched { return r.RMSNormGrad },
				func(b *bench) bool {
					x, w := b.golden(c, "x"), b.golden(c, "w")
					y, rstd := b.empty(c.DType, x.Shape()...), b.empty(aclnn.Float32, shapeOf(c, "rstd")...)
					run(b, b.RMSNorm, &ops.RMSNormArgs{X: x, Weight: w, Epsilon: c.Float("eps"), Out: y, RStd: rstd})
					b.near("y", y, c.Float32("y"), tolerance(c.DType))
					b.near("rstd", rstd, c.Float32("rstd"), 1e-5)
					dx, dw := b.empty(c.DType, x.Shape()...), b.empty(aclnn.Float32, w.Shape()...)
					run(b, b.RMSNormGrad, &ops.RMSNormGradArgs{DOut: b.golden(c, "dy"), X: x, RStd: rstd, Weight: w, DX: dx, DWeight: dw})
					b.near("dx", dx, c.Float32("dx"), tolerance(c.DType))
					b.near("dw", dw, c.Float32("dw"), 1e-5)
					return true
				})
		})
	}
}

func TestGoldenRoPE(t *testing.T) {
	for _, c := range golden.Cases(t, "rope_half") {
		c.Run(t, func(t *testing.T, c *golden.Case) {
			everyKernel(t, func(r *ops.Registry) dispatched { return r.RoPE },
				func(r *ops.Registry) dispatched { return r.RoPEGrad },
				func(b *bench) bool {
					s, r := int64(c.Int("S")), int64(c.Int("rotary_dim"))
					x := b.golden(c, "x")
					// The fused kernel takes tables of the dtype of x, the composite exact ones.
					for _, tables := range []aclnn.DType{c.DType, aclnn.Float32} {
						cos, sin := b.floats(tables, c.Float32("cos"), 1, s, 1, r), b.floats(tables, c.Float32("sin"), 1, s, 1, r)
						y, dx := b.empty(c.DType, x.Shape()...), b.empty(c.DType, x.Shape()...)
						forward := &ops.RoPEArgs{X: x, Cos: cos, Sin: sin, Out: y}
						backward := &ops.RoPEGradArgs{DOut: b.golden(c, "dy"), Cos: cos, Sin: sin, DX: dx}
						if b.RoPE.Explain(forward).Kernel == "" || b.RoPEGrad.Explain(backward).Kernel == "" {
							continue
						}
						run(b, b.RoPE, forward)
						b.near("y", y, c.Float32("y"), tolerance(c.DType))
						run(b, b.RoPEGrad, backward)
						b.near("dx", dx, c.Float32("dx"), tolerance(c.DType))
					}
					return true
				})
		})
	}
}

func TestGoldenSwiGLU(t *testing.T) {
	for _, c := range golden.Cases(t, "swiglu") {
		c.Run(t, func(t *testing.T, c *golden.Case) {
			everyKernel(t, func(r *ops.Registry) dispatched { return r.SwiGLU },
				func(r *ops.Registry) dispatched { return r.SwiGLUGrad },
				func(b *bench) bool {
					x, dy := b.golden(c, "x"), b.golden(c, "dy")
					y, dx := b.empty(c.DType, dy.Shape()...), b.empty(c.DType, x.Shape()...)
					run(b, b.SwiGLU, &ops.SwiGLUArgs{X: x, Out: y})
					b.near("y", y, c.Float32("y"), tolerance(c.DType))
					run(b, b.SwiGLUGrad, &ops.SwiGLUGradArgs{DOut: dy, X: x, DX: dx})
					b.near("dx", dx, c.Float32("dx"), tolerance(c.DType))
					return true
				})
			t.Run("separate", func(t *testing.T) {
				b := newBench(t)
				x, dy := b.golden(c, "x"), b.golden(c, "dy")
				y, dx := b.empty(c.DType, dy.Shape()...), b.empty(c.DType, x.Shape()...)
				h := x.Dim(-1) / 2
				gate, up := x.Narrow(-1, 0, h), x.Narrow(-1, h, h)
				run(b, b.SwiGLU, &ops.SwiGLUArgs{Gate: gate, Up: up, Out: y})
				b.near("y", y, c.Float32("y"), tolerance(c.DType))
				run(b, b.SwiGLUGrad, &ops.SwiGLUGradArgs{DOut: dy, Gate: gate, Up: up, DGate: dx.Narrow(-1, 0, h), DUp: dx.Narrow(-1, h, h)})
				b.near("dx", dx, c.Float32("dx"), tolerance(c.DType))
			})
		})
	}
}

func TestGoldenEmbedding(t *testing.T) {
	for _, c := range golden.Cases(t, "embedding") {
		c.Run(t, func(t *testing.T, c *golden.Case) {
			everyKernel(t, func(r *ops.Registry) dispatched { return r.Embedding },
				func(r *ops.Registry) dispatched { return r.EmbeddingGrad },
				func(b *bench) bool {
					w, ids := b.golden(c, "w"), data(b, aclnn.Int64, c.Int64("ids"), shapeOf(c, "ids")...)
					y, dw := b.empty(c.DType, shapeOf(c, "y")...), b.empty(c.DType, w.Shape()...)
					run(b, b.Embedding, &ops.EmbeddingArgs{Weight: w, IDs: ids, Out: y})
					b.near("y", y, c.Float32("y"), 0)
					backward := &ops.EmbeddingGradArgs{DOut: b.golden(c, "dy"), IDs: ids, DWeight: dw}
					run(b, b.EmbeddingGrad, backward)
					b.near("dw", dw, c.Float32("dw"), tolerance(c.DType))
					backward.Accumulate = true
					run(b, b.EmbeddingGrad, backward)
					b.near("twice dw", dw, convert(c.Float32("dw"), func(x float32) float32 { return 2 * x }), tolerance(c.DType))
					return true
				})
		})
	}
}

func TestGoldenCrossEntropy(t *testing.T) {
	for _, c := range golden.Cases(t, "cross_entropy") {
		c.Run(t, func(t *testing.T, c *golden.Case) {
			everyKernel(t, func(r *ops.Registry) dispatched { return r.CrossEntropy },
				func(r *ops.Registry) dispatched { return r.CrossEntropyGrad },
				func(b *bench) bool {
					labels := convert(c.Int64("target"), func(x int64) int32 { return int32(x) })
					count := float32(0)
					for _, l := range labels {
						if int(l) != c.Int("ignore_index") {
							count++
						}
					}
					logits := b.golden(c, "logits")
					a := ops.CrossEntropyArgs{
						Logits: logits, Labels: data(b, aclnn.Int32, labels, int64(len(labels))), IgnoreIndex: int64(c.Int("ignore_index")),
						Loss: b.empty(aclnn.Float32, 1), LogProb: b.empty(aclnn.Float32, logits.Shape()...), Count: b.empty(aclnn.Float32, 1),
					}
					run(b, b.CrossEntropy, &a)
					b.near("loss", a.Loss, c.Float32("loss"), 1e-5)
					b.near("log probabilities", a.LogProb, c.Float32("log_prob"), 1e-5)
					require.Equal(t, []float32{count}, b.read(a.Count))
					dlogits := b.empty(c.DType, logits.Shape()...)
					run(b, b.CrossEntropyGrad, &ops.CrossEntropyGradArgs{CrossEntropyArgs: a, DLogits: dlogits})
					b.near("dlogits", dlogits, c.Float32("dlogits"), tolerance(c.DType))
					return true
				})
		})
	}
}

func TestGoldenAdamW(t *testing.T) {
	for _, c := range golden.Cases(t, "adamw") {
		c.Run(t, func(t *testing.T, c *golden.Case) {
			reg, err := ops.NewRegistry(ops.Env{})
			require.NoError(t, err)
			for _, k := range reg.AdamW.Kernels() {
				t.Run(k, func(t *testing.T) {
					b := newBench(t)
					require.NoError(t, b.AdamW.Pin(k))
					n := int64(c.Int("n"))
					zero := make([]float32, n)
					param, m, v := b.golden(c, "p0"), b.floats(c.DType, zero, n), b.floats(c.DType, zero, n)
					grads, params := b.golden(c, "grads"), c.Float32("params")
					model := b.empty(aclnn.BFloat16, n)
					betas := c.Floats("betas")
					for step := range c.Int("steps") {
						run(b, b.AdamW, &ops.AdamWArgs{
							Param: param, Grad: grads.Select(0, int64(step)), ExpAvg: m, ExpAvgSq: v, Copy: model, Step: step + 1,
							LR: c.Float("lr"), Beta1: betas[0], Beta2: betas[1], Epsilon: c.Float("eps"), WeightDecay: c.Float("weight_decay"),
						})
						b.near("params", param, params[step*int(n):(step+1)*int(n)], 1e-6)
					}
					b.near("m", m, c.Float32("m"), 1e-6)
					b.near("v", v, c.Float32("v"), 1e-6)
					b.near("copy", model, params[len(params)-int(n):], tolerance(aclnn.BFloat16))
				})
			}
		})
	}
}

package ops_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/internal/testing/golden"
	"github.com/goascend/cann/internal/testing/opstest"
	"github.com/goascend/cann/ops"
)

func TestGoldenRMSNorm(t *testing.T) {
	for _, c := range golden.Cases(t, "rms_norm") {
		c.Run(t, func(t *testing.T, c *golden.Case) {
			everyKernel(t, func(r *ops.Registry) dispatched { return r.RMSNorm() },
				func(r *ops.Registry) dispatched { return r.RMSNormGrad() },
				func(b *opstest.Bench) bool {
					x, w := tensorOf(b, c, "x"), tensorOf(b, c, "w")
					y, rstd := b.Empty(c.DType, x.Shape()...), b.Empty(aclnn.Float32, shapeOf(c, "rstd")...)
					opstest.Run(b, b.RMSNorm(), &ops.RMSNormArgs{X: x, Weight: w, Epsilon: c.Float("eps"), Out: y, RStd: rstd})
					b.Near("y", y, c.Float32("y"), opstest.Tolerance(c.DType))
					b.Near("rstd", rstd, c.Float32("rstd"), 1e-5)
					dx, dw := b.Empty(c.DType, x.Shape()...), b.Empty(aclnn.Float32, w.Shape()...)
					opstest.Run(b, b.RMSNormGrad(), &ops.RMSNormGradArgs{DOut: tensorOf(b, c, "dy"), X: x, RStd: rstd, Weight: w, DX: dx, DWeight: dw})
					b.Near("dx", dx, c.Float32("dx"), opstest.Tolerance(c.DType))
					b.Near("dw", dw, c.Float32("dw"), 1e-5)
					return true
				})
		})
	}
}

func TestGoldenRoPE(t *testing.T) {
	for _, c := range golden.Cases(t, "rope_half") {
		c.Run(t, func(t *testing.T, c *golden.Case) {
			everyKernel(t, func(r *ops.Registry) dispatched { return r.RoPE() },
				func(r *ops.Registry) dispatched { return r.RoPEGrad() },
				func(b *opstest.Bench) bool {
					s, r := int64(c.Int("S")), int64(c.Int("rotary_dim"))
					x := tensorOf(b, c, "x")
					// The fused kernel takes tables of the dtype of x, the composite exact ones.
					for _, tables := range []aclnn.DType{c.DType, aclnn.Float32} {
						cos, sin := b.Floats(tables, c.Float32("cos"), 1, s, 1, r), b.Floats(tables, c.Float32("sin"), 1, s, 1, r)
						y, dx := b.Empty(c.DType, x.Shape()...), b.Empty(c.DType, x.Shape()...)
						forward := &ops.RoPEArgs{X: x, Cos: cos, Sin: sin, Out: y}
						backward := &ops.RoPEGradArgs{DOut: tensorOf(b, c, "dy"), Cos: cos, Sin: sin, DX: dx}
						if b.RoPE().Explain(forward).Kernel == "" || b.RoPEGrad().Explain(backward).Kernel == "" {
							continue
						}
						opstest.Run(b, b.RoPE(), forward)
						b.Near("y", y, c.Float32("y"), opstest.Tolerance(c.DType))
						opstest.Run(b, b.RoPEGrad(), backward)
						b.Near("dx", dx, c.Float32("dx"), opstest.Tolerance(c.DType))
					}
					return true
				})
		})
	}
}

func TestGoldenSwiGLU(t *testing.T) {
	for _, c := range golden.Cases(t, "swiglu") {
		c.Run(t, func(t *testing.T, c *golden.Case) {
			everyKernel(t, func(r *ops.Registry) dispatched { return r.SwiGLU() },
				func(r *ops.Registry) dispatched { return r.SwiGLUGrad() },
				func(b *opstest.Bench) bool {
					x, dy := tensorOf(b, c, "x"), tensorOf(b, c, "dy")
					y, dx := b.Empty(c.DType, dy.Shape()...), b.Empty(c.DType, x.Shape()...)
					opstest.Run(b, b.SwiGLU(), &ops.SwiGLUArgs{X: x, Out: y})
					b.Near("y", y, c.Float32("y"), opstest.Tolerance(c.DType))
					opstest.Run(b, b.SwiGLUGrad(), &ops.SwiGLUGradArgs{DOut: dy, X: x, DX: dx})
					b.Near("dx", dx, c.Float32("dx"), opstest.Tolerance(c.DType))
					return true
				})
			t.Run("separate", func(t *testing.T) {
				b := opstest.New(t)
				x, dy := tensorOf(b, c, "x"), tensorOf(b, c, "dy")
				y, dx := b.Empty(c.DType, dy.Shape()...), b.Empty(c.DType, x.Shape()...)
				h := x.Dim(-1) / 2
				gate, up := x.Narrow(-1, 0, h), x.Narrow(-1, h, h)
				opstest.Run(b, b.SwiGLU(), &ops.SwiGLUArgs{Gate: gate, Up: up, Out: y})
				b.Near("y", y, c.Float32("y"), opstest.Tolerance(c.DType))
				opstest.Run(b, b.SwiGLUGrad(), &ops.SwiGLUGradArgs{DOut: dy, Gate: gate, Up: up, DGate: dx.Narrow(-1, 0, h), DUp: dx.Narrow(-1, h, h)})
				b.Near("dx", dx, c.Float32("dx"), opstest.Tolerance(c.DType))
			})
		})
	}
}

func TestGoldenEmbedding(t *testing.T) {
	for _, c := range golden.Cases(t, "embedding") {
		c.Run(t, func(t *testing.T, c *golden.Case) {
			everyKernel(t, func(r *ops.Registry) dispatched { return r.Embedding() },
				func(r *ops.Registry) dispatched { return r.EmbeddingGrad() },
				func(b *opstest.Bench) bool {
					w, ids := tensorOf(b, c, "w"), opstest.Data(b, aclnn.Int64, c.Int64("ids"), shapeOf(c, "ids")...)
					y, dw := b.Empty(c.DType, shapeOf(c, "y")...), b.Empty(c.DType, w.Shape()...)
					opstest.Run(b, b.Embedding(), &ops.EmbeddingArgs{Weight: w, IDs: ids, Out: y})
					b.Near("y", y, c.Float32("y"), 0)
					backward := &ops.EmbeddingGradArgs{DOut: tensorOf(b, c, "dy"), IDs: ids, DWeight: dw}
					opstest.Run(b, b.EmbeddingGrad(), backward)
					b.Near("dw", dw, c.Float32("dw"), opstest.Tolerance(c.DType))
					backward.Accumulate = true
					opstest.Run(b, b.EmbeddingGrad(), backward)
					b.Near("twice dw", dw, opstest.Convert(c.Float32("dw"), func(x float32) float32 { return 2 * x }), opstest.Tolerance(c.DType))
					return true
				})
		})
	}
}

func TestGoldenCrossEntropy(t *testing.T) {
	for _, c := range golden.Cases(t, "cross_entropy") {
		c.Run(t, func(t *testing.T, c *golden.Case) {
			everyKernel(t, func(r *ops.Registry) dispatched { return r.CrossEntropy() },
				func(r *ops.Registry) dispatched { return r.CrossEntropyGrad() },
				func(b *opstest.Bench) bool {
					labels := opstest.Convert(c.Int64("target"), func(x int64) int32 { return int32(x) })
					count := float32(0)
					for _, l := range labels {
						if int(l) != c.Int("ignore_index") {
							count++
						}
					}
					logits := tensorOf(b, c, "logits")
					a := ops.CrossEntropyArgs{
						Logits: logits, Labels: opstest.Data(b, aclnn.Int32, labels, int64(len(labels))), IgnoreIndex: new(int64(c.Int("ignore_index"))),
						Loss: b.Empty(aclnn.Float32, 1), LogProb: b.Empty(aclnn.Float32, logits.Shape()...), Count: b.Empty(aclnn.Float32, 1),
					}
					opstest.Run(b, b.CrossEntropy(), &a)
					b.Near("loss", a.Loss, c.Float32("loss"), 1e-5)
					b.Near("log probabilities", a.LogProb, c.Float32("log_prob"), 1e-5)
					require.Equal(t, []float32{count}, b.Read(a.Count))
					dlogits := b.Empty(c.DType, logits.Shape()...)
					opstest.Run(b, b.CrossEntropyGrad(), &ops.CrossEntropyGradArgs{CrossEntropyArgs: a, DLogits: dlogits})
					b.Near("dlogits", dlogits, c.Float32("dlogits"), opstest.Tolerance(c.DType))
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
			for _, k := range reg.AdamW().Kernels() {
				t.Run(k, func(t *testing.T) {
					b := opstest.New(t)
					require.NoError(t, b.AdamW().Pin(k))
					n := int64(c.Int("n"))
					zero := make([]float32, n)
					param, m, v := tensorOf(b, c, "p0"), b.Floats(c.DType, zero, n), b.Floats(c.DType, zero, n)
					grads, params := tensorOf(b, c, "grads"), c.Float32("params")
					model := b.Empty(aclnn.BFloat16, n)
					betas := c.Floats("betas")
					for step := range c.Int("steps") {
						opstest.Run(b, b.AdamW(), &ops.AdamWArgs{
							Param: param, Grad: grads.Select(0, int64(step)), ExpAvg: m, ExpAvgSq: v, Copy: model, Step: step + 1,
							LR: c.Float("lr"), Beta1: betas[0], Beta2: betas[1], Epsilon: c.Float("eps"), WeightDecay: c.Float("weight_decay"),
						})
						b.Near("params", param, params[step*int(n):(step+1)*int(n)], 1e-6)
					}
					b.Near("m", m, c.Float32("m"), 1e-6)
					b.Near("v", v, c.Float32("v"), 1e-6)
					b.Near("copy", model, params[len(params)-int(n):], opstest.Tolerance(aclnn.BFloat16))
				})
			}
		})
	}
}

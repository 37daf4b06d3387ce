package compare_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/mask"
)

// BenchmarkDispatch measures the host time of an operator compared with a direct launch of the same
// aclnn operator, on tensors too small for the kernel to matter.
func BenchmarkDispatch(b *testing.B) {
	dev := acltest.Device(b, acltest.Open(b), 0)
	st := acltest.Stream(b, dev)
	reg, err := ops.NewRegistry(ops.EnvOf(dev))
	require.NoError(b, err)
	b.Cleanup(func() { _ = reg.Close() })
	tensor := func(shape ...int64) *aclnn.Tensor {
		t, err := aclnn.New(st, aclnn.Float32, shape...)
		require.NoError(b, err)
		b.Cleanup(func() { _ = t.Close() })
		return t
	}
	ctx := b.Context()
	x, w, y, rstd := tensor(1, 8), tensor(8), tensor(1, 8), tensor(1, 1)
	q, out, top, sum := tensor(1, 1, 1, 8), tensor(1, 1, 1, 8), tensor(1, 1, 1, 8), tensor(1, 1, 1, 8)
	for _, c := range []struct {
		name string
		run  func() error
	}{
		{"RMSNorm/aclnn", func() error {
			return aclnn.RmsNorm(st, aclnn.RmsNormParams{X: x, Gamma: w, Epsilon: 1e-6, YOut: y, RstdOut: rstd})
		}},
		{"RMSNorm/ops", func() error {
			return reg.RMSNorm().Run(ctx, st, &ops.RMSNormArgs{X: x, Weight: w, Epsilon: 1e-6, Out: y, RStd: rstd})
		}},
		{"Attention/aclnn", func() error {
			return aclnn.FlashAttentionScore(st, aclnn.FlashAttentionScoreParams{
				Query: q, Key: q, Value: q, ScaleValue: 1, KeepProb: 1, HeadNum: 1, InputLayout: "BSND", SoftmaxMaxOut: top, SoftmaxSumOut: sum, AttentionOut: out,
			})
		}},
		{"Attention/ops", func() error {
			return reg.Attention().Run(ctx, st, &ops.AttentionArgs{
				Query: q, Key: q, Value: q, Layout: ops.BSND, Mask: mask.Causal{}, Scale: 1, Out: out, SoftmaxMax: top, SoftmaxSum: sum,
			})
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := c.run(); err != nil {
					b.Fatal(err)
				}
			}
			require.NoError(b, st.Synchronize(ctx))
		})
	}
}

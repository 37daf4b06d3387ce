package ops

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/mask"
)

// choosers choose kernels for arguments of several operators.
func choosers(t testing.TB) map[string]func() error {
	dev := acltest.Device(t, acltest.Open(t), 0)
	s := &aclnn.Scope{Stream: acltest.Stream(t, dev)}
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	reg, err := NewRegistry(EnvOf(dev))
	require.NoError(t, err)
	f := func(shape ...int64) *aclnn.Tensor { return s.Tensor(aclnn.BFloat16, shape...) }
	q, kv := f(2, 8, 64, 128), f(2, 2, 64, 128)
	rows, groups := f(64, 128), Groups{Host: []int64{16, 16, 16, 16}}
	conv := CausalConvArgs{X: f(2, 64, 128), Weight: f(128, 4), Out: f(2, 64, 128)}
	all := map[string]func() error{
		"RMSNorm":        choosing(reg.RMSNorm(), &RMSNormArgs{X: rows, Weight: f(128), Epsilon: 1e-6, Out: rows}),
		"Linear":         choosing(reg.Linear(), &LinearArgs{X: rows, Weight: f(256, 128), Out: f(64, 256)}),
		"GroupedMatmul":  choosing(reg.GroupedMatmul(), &GroupedMatmulArgs{X: rows, Weight: f(4, 256, 128).Transpose(1, 2), Groups: groups, Out: f(64, 256)}),
		"Attention":      choosing(reg.Attention(), &AttentionArgs{Query: q, Key: kv, Value: kv, Layout: BNSD, Mask: mask.Causal{}, Scale: 1, Out: q}),
		"CausalConvGrad": choosing(reg.CausalConvGrad(), &CausalConvGradArgs{CausalConvArgs: conv, DOut: conv.X, DX: conv.X, DWeight: conv.Weight}),
	}
	require.NoError(t, s.Err())
	return all
}

func choosing[A any, K comparable](o *Op[A, K], a *A) func() error {
	p := new(plan)
	return func() error {
		if o.plan == nil {
			return o.choose(o.key(a)).err
		}
		k, err := o.plan(a, p)
		if err != nil {
			return err
		}
		return o.choose(k).err
	}
}

// TestChooseAllocates checks that looking up an existing choice allocates no memory.
func TestChooseAllocates(t *testing.T) {
	for name, choose := range choosers(t) {
		require.NoError(t, choose(), name)
		require.Zero(t, testing.AllocsPerRun(100, func() { _ = choose() }), name)
	}
}

// BenchmarkChoose measures the time of looking up an existing choice: computing the key, and one
// look-up.
func BenchmarkChoose(b *testing.B) {
	for name, choose := range choosers(b) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := choose(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

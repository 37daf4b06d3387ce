package ops_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/cshim"
	"github.com/goascend/cann/internal/testing/opstest"
	"github.com/goascend/cann/ops"
)

// TestHF32 checks that products of float32 are exact unless the environment allows HF32, which
// rounds the factors to 11 bits of fraction and not the sums.
func TestHF32(t *testing.T) {
	const fine, coarse = 1 + 1.0/(1<<20), 1 + 1.0/(1<<11) // below and at the precision of HF32
	for _, hf32 := range []bool{false, true} {
		dev := acltest.Device(t, acltest.Open(t), 0)
		env := ops.EnvOf(dev)
		require.False(t, env.HF32, "products are exact by default")
		env.HF32 = hf32
		reg, err := ops.NewRegistry(env)
		require.NoError(t, err)
		b := &opstest.Bench{Registry: reg, T: t, Stream: acltest.Stream(t, dev)}
		x, ones := b.Floats(aclnn.Float32, []float32{fine, coarse}, 2, 1), b.Floats(aclnn.Float32, []float32{1}, 1, 1)
		want := []float32{fine, coarse}
		if hf32 {
			want[0] = 1
		}
		out := b.Empty(aclnn.Float32, 2, 1)
		check := func(what string, want []float32) {
			t.Helper()
			if got := b.Read(out); cshim.Emulated || !hf32 {
				require.Equal(t, want, got, "%s, HF32 %v", what, hf32)
			}
		}
		opstest.Run(b, b.MatMul(), &ops.MatMulArgs{A: x, B: ones, Out: out})
		check("matmul", want)
		opstest.Run(b, b.Linear(), &ops.LinearArgs{X: x, Weight: ones, Out: out})
		check("linear", want)
		opstest.Run(b, b.Linear(), &ops.LinearArgs{X: x, Weight: ones, Bias: b.Floats(aclnn.Float32, []float32{0}, 1), Out: out})
		check("linear with bias", want)
		opstest.Run(b, b.MatMulGrad(), &ops.MatMulGradArgs{DOut: x, A: x, B: ones, DA: out})
		check("gradient of matmul", want)
		opstest.Run(b, b.LinearGrad(), &ops.LinearGradArgs{DOut: x, X: x, Weight: ones, DX: out})
		check("gradient of linear", want)
		require.NoError(t, reg.Close())
	}
}

//go:build emu

package ops_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/testing/opstest"
	"github.com/goascend/cann/ops"
)

// TestGroupedMatmulOfOlderCANN runs in a process with CANN 8.1, which has the fourth version of the
// grouped product but not the fifth. A gradient that would read a FRACTAL_NZ weight transposed is
// refused, because this CANN is not known to support it.
func TestGroupedMatmulOfOlderCANN(t *testing.T) {
	const api = "CANN_EMU_API"
	if os.Getenv(api) == "" {
		cmd := exec.Command(os.Args[0], "-test.v", "-test.run", "^TestGroupedMatmulOfOlderCANN$")
		cmd.Env = append(os.Environ(), api+"="+abi.V81RC1)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "--- PASS: TestGroupedMatmulOfOlderCANN")
		return
	}
	b := opstest.New(t)
	c := opstest.NewGroupedCase(aclnn.BFloat16, 16, 32, 4, 0, 5)
	slice := func(b *opstest.Bench, w *aclnn.Tensor) *aclnn.Tensor {
		_, out := tiles(b, w.DType(), w.Shape()...)
		a := &ops.SliceToNZArgs{Gathered: w.Reshape(1, -1), End: w.Len(), Out: out}
		require.NoError(b.T, b.SliceToNZ().Run(b.T.Context(), b.Stream, a))
		return out
	}
	for form, store := range map[string]func(*opstest.Bench, *aclnn.Tensor) *aclnn.Tensor{"ND": weightForms["ND"], "NZ": slice} {
		t.Run(form, func(t *testing.T) {
			list := ops.Groups{Host: c.Sizes}
			w := store(b, b.Floats(c.DType, c.W, 3, 16, 32))
			a := &ops.GroupedMatmulArgs{X: b.Floats(c.DType, c.X, 9, 16), Weight: w, Groups: list, Out: b.Empty(c.DType, 9, 32)}
			g := &ops.GroupedMatmulGradArgs{DOut: a.Out, X: a.X, Weight: w, Groups: list, DX: b.Empty(c.DType, 9, 16)}
			explained := b.GroupedMatmul().Explain(a)
			require.Equal(t, "GroupedMatmulV4", explained.Kernel)
			require.Contains(t, explained.String(), "not GroupedMatmulV5: this CANN has no aclnnGroupedMatmulV5")
			opstest.Run(b, b.GroupedMatmul(), a)
			b.Near("y", a.Out, c.Y, opstest.Tolerance(c.DType))
			explained = b.GroupedMatmulGrad().Explain(g)
			if form == "ND" {
				require.Equal(t, "GroupedMatmulV4", explained.Kernel)
				require.True(t, c.Check(b, store, list))
				return
			}
			require.Contains(t, explained.String(), "not GroupedMatmulV4: this CANN is not known to read a FRACTAL_NZ weight transposed")
			require.ErrorIs(t, b.GroupedMatmulGrad().Run(t.Context(), b.Stream, g), ops.ErrNoKernel)
		})
	}
}

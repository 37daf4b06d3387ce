//go:build emu

package ops_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/internal/abi"
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
	b := newBench(t)
	c := newGroupedCase(aclnn.BFloat16, 16, 32, 4, 0, 5)
	slice := func(b *bench, w *aclnn.Tensor) *aclnn.Tensor {
		_, out := b.tiles(w.DType(), w.Shape()...)
		a := &ops.SliceToNZArgs{Gathered: w.Reshape(1, -1), End: w.Len(), Out: out}
		require.NoError(b.t, b.SliceToNZ.Run(b.t.Context(), b.st, a))
		return out
	}
	for form, store := range map[string]func(*bench, *aclnn.Tensor) *aclnn.Tensor{"ND": weightForms["ND"], "NZ": slice} {
		t.Run(form, func(t *testing.T) {
			list := ops.Groups{Host: c.sizes}
			w := store(b, b.floats(c.dt, c.w, 3, 16, 32))
			a := &ops.GroupedMatmulArgs{X: b.floats(c.dt, c.x, 9, 16), Weight: w, Groups: list, Out: b.empty(c.dt, 9, 32)}
			g := &ops.GroupedMatmulGradArgs{DOut: a.Out, X: a.X, Weight: w, Groups: list, DX: b.empty(c.dt, 9, 16)}
			explained := b.GroupedMatmul.Explain(a)
			require.Equal(t, "GroupedMatmulV4", explained.Kernel)
			require.Contains(t, explained.String(), "not GroupedMatmulV5: this CANN has no aclnnGroupedMatmulV5")
			run(b, b.GroupedMatmul, a)
			b.near("y", a.Out, c.y, tolerance(c.dt))
			explained = b.GroupedMatmulGrad.Explain(g)
			if form == "ND" {
				require.Equal(t, "GroupedMatmulV4", explained.Kernel)
				require.True(t, c.check(b, store, list))
				return
			}
			require.Contains(t, explained.String(), "not GroupedMatmulV4: this CANN is not known to read a FRACTAL_NZ weight transposed")
			require.ErrorIs(t, b.GroupedMatmulGrad.Run(t.Context(), b.st, g), ops.ErrNoKernel)
		})
	}
}

package ops_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/internal/testing/opstest"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/key"
)

// TestLimitedKernel registers a kernel for one hidden size, which must run for that size only, in
// whatever order the sizes come.
func TestLimitedKernel(t *testing.T) {
	for _, order := range [][]int64{{4096, 128, 4096}, {128, 4096, 128}} {
		t.Run(fmt.Sprint(order), func(t *testing.T) {
			b := opstest.New(t)
			var ran []int64
			require.NoError(t, b.RMSNorm().Register(ops.Kernel[ops.RMSNormArgs, key.RMSNorm]{
				Name: "rms4096",
				Supports: func(_ *ops.Env, k key.RMSNorm) error {
					if k.Width != 4096 {
						return fmt.Errorf("it takes rows of 4096, not %d", k.Width)
					}
					return nil
				},
				Run: func(_ context.Context, st *acl.Stream, a *ops.RMSNormArgs) error {
					ran = append(ran, a.X.Dim(-1))
					return nil
				},
			}))
			for _, width := range order {
				x, w := b.Empty(aclnn.Float32, 2, width), b.Empty(aclnn.Float32, width)
				opstest.Run(b, b.RMSNorm(), &ops.RMSNormArgs{X: x, Weight: w, Epsilon: 1e-6, Out: b.Empty(aclnn.Float32, 2, width)})
			}
			require.NotContains(t, ran, int64(128), "the kernel ran on a size that it refuses")
			require.Contains(t, ran, int64(4096))
		})
	}
}

package ops_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/internal/testing/opstest"
	"github.com/goascend/cann/ops"
)

// TestGroupedMatmulGradReadsNZ checks that the gradient of the rows is one product that reads the
// buffer of the forward pass, without a copy or cast.
func TestGroupedMatmulGradReadsNZ(t *testing.T) {
	b := opstest.New(t)
	c := opstest.NewGroupedCase(aclnn.BFloat16, 32, 48, 2, 0, 3)
	w := nz(b, b.Floats(c.DType, c.W, 3, 32, 48))
	groups := ops.Groups{Device: opstest.Data(b, aclnn.Int64, c.Sizes, 3)}
	out, dx := b.Empty(c.DType, 5, 48), b.Empty(c.DType, 5, 32)
	x, dOut := b.Floats(c.DType, c.X, 5, 32), b.Floats(c.DType, c.DY, 5, 48)
	before := len(b.Stream.Recent())
	opstest.Run(b, b.GroupedMatmul(), &ops.GroupedMatmulArgs{X: x, Weight: w, Groups: groups, Out: out})
	opstest.Run(b, b.GroupedMatmulGrad(), &ops.GroupedMatmulGradArgs{DOut: dOut, X: x, Weight: w, Groups: groups, DX: dx})
	launched := b.Stream.Recent()
	require.Equal(t, []string{"aclnnGroupedMatmulWeightNz", "aclnnGroupedMatmulWeightNz"}, launched[:len(launched)-before])
	b.Near("y", out, c.Y, opstest.Tolerance(c.DType))
	b.Near("dx", dx, c.DX, opstest.Tolerance(c.DType))
}

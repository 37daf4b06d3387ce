package ops_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
)

// TestGroupedMatmulGradReadsNZ checks that the gradient of the rows is one product that reads the
// buffer of the forward pass, without a copy or cast.
func TestGroupedMatmulGradReadsNZ(t *testing.T) {
	b := newBench(t)
	c := newGroupedCase(aclnn.BFloat16, 32, 48, 2, 0, 3)
	w := b.nz(b.floats(c.dt, c.w, 3, 32, 48))
	groups := ops.Groups{Device: data(b, aclnn.Int64, c.sizes, 3)}
	out, dx := b.empty(c.dt, 5, 48), b.empty(c.dt, 5, 32)
	x, dOut := b.floats(c.dt, c.x, 5, 32), b.floats(c.dt, c.dy, 5, 48)
	before := len(b.st.Recent())
	run(b, b.GroupedMatmul, &ops.GroupedMatmulArgs{X: x, Weight: w, Groups: groups, Out: out})
	run(b, b.GroupedMatmulGrad, &ops.GroupedMatmulGradArgs{DOut: dOut, X: x, Weight: w, Groups: groups, DX: dx})
	launched := b.st.Recent()
	require.Equal(t, []string{"aclnnGroupedMatmulWeightNz", "aclnnGroupedMatmulWeightNz"}, launched[:len(launched)-before])
	b.near("y", out, c.y, tolerance(c.dt))
	b.near("dx", dx, c.dx, tolerance(c.dt))
}

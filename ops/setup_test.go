package ops_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/internal/testing/golden"
	"github.com/goascend/cann/internal/testing/opstest"
	"github.com/goascend/cann/ops"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(acltest.Suite{M: m}) }

// tensorOf copies a tensor of a case to the device.
func tensorOf(b *opstest.Bench, c *golden.Case, name string) *aclnn.Tensor {
	b.T.Helper()
	return b.Floats(c.DType, c.Float32(name), shapeOf(c, name)...)
}

func shapeOf(c *golden.Case, name string) []int64 {
	return opstest.Convert(c.Shape(name), func(n int) int64 { return int64(n) })
}

// dispatched is an operator, whatever its arguments.
type dispatched interface {
	Kernels() []string
	Pin(name string) error
}

// everyKernel runs a test once for each pair of kernels of an operator and its gradient, with these
// pinned. The test returns false for arguments that one of them does not support; some runs must
// succeed.
func everyKernel(t *testing.T, forward, backward func(*ops.Registry) dispatched, test func(b *opstest.Bench) bool) {
	t.Helper()
	acltest.Need(t)
	reg, err := ops.NewRegistry(ops.Env{})
	require.NoError(t, err)
	ran := 0
	for _, f := range forward(reg).Kernels() {
		for _, g := range backward(reg).Kernels() {
			t.Run(fmt.Sprintf("%s/%s", f, g), func(t *testing.T) {
				b := opstest.New(t)
				require.NoError(t, forward(b.Registry).Pin(f))
				require.NoError(t, backward(b.Registry).Pin(g))
				if test(b) {
					ran++
				}
			})
		}
	}
	require.NotZero(t, ran, "no kernel took the arguments")
}

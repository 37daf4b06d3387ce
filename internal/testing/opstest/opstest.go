package opstest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/internal/testing/golden"
	"github.com/goascend/cann/ops"
)

// Bench is a stream with the operators of its device.
type Bench struct {
	*ops.Registry
	T      *testing.T
	Stream *acl.Stream
}

// New opens device 0 for a test and checks that the test frees everything.
func New(t *testing.T) *Bench {
	t.Helper()
	return Several(t, 1)[0]
}

// Several opens n devices.
func Several(t *testing.T, n int) []*Bench {
	t.Helper()
	rt := acltest.Open(t)
	benches := make([]*Bench, n)
	for i := range benches {
		dev := acltest.Device(t, rt, i)
		st := acltest.Stream(t, dev)
		reg, err := ops.NewRegistry(ops.EnvOf(dev))
		require.NoError(t, err)
		t.Cleanup(func() {
			require.NoError(t, st.Synchronize(context.Background())) // the test's context has ended
			require.NoError(t, reg.Close())
		})
		benches[i] = &Bench{Registry: reg, T: t, Stream: st}
	}
	return benches
}

// Run runs an operator that must succeed.
func Run[A any, K comparable](b *Bench, o *ops.Op[A, K], a *A) {
	b.T.Helper()
	require.NoError(b.T, o.Run(b.T.Context(), b.Stream, a), "kernel chosen: %v", o.Explain(a))
}

// Takes reports whether an operator has a kernel for the arguments.
func Takes[A any, K comparable](o *ops.Op[A, K], a *A) bool { return o.Explain(a).Kernel != "" }

// Tolerance returns the RMS error ratio that a dtype allows for rounding of the result and, in
// 16-bit types, of intermediates.
func Tolerance(dt aclnn.DType) float64 {
	switch dt {
	case aclnn.Float16:
		return 1e-3
	case aclnn.BFloat16:
		return 6e-3
	}
	return 1e-5
}

// Near compares a result with the reference by the RMS error ratio.
func (b *Bench) Near(name string, got *aclnn.Tensor, want []float32, limit float64) {
	b.T.Helper()
	require.NoError(b.T, golden.CheckRMS(b.Read(got), want, limit), name)
}

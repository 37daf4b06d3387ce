package ops_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/aclnn/half"
	"github.com/goascend/cann/internal/testing/golden"
	"github.com/goascend/cann/ops"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(acltest.Suite{M: m}) }

// bench is a stream with the operators of its device.
type bench struct {
	*ops.Registry
	t  *testing.T
	st *acl.Stream
}

// newBench opens device 0 for a test and checks that the test frees everything.
func newBench(t *testing.T) *bench {
	t.Helper()
	return newBenches(t, 1)[0]
}

// newBenches opens n devices.
func newBenches(t *testing.T, n int) []*bench {
	t.Helper()
	rt := acltest.Open(t)
	benches := make([]*bench, n)
	for i := range benches {
		dev := acltest.Device(t, rt, i)
		st := acltest.Stream(t, dev)
		reg, err := ops.NewRegistry(ops.EnvOf(dev))
		require.NoError(t, err)
		t.Cleanup(func() {
			require.NoError(t, st.Synchronize(context.Background())) // the test's context has ended
			require.NoError(t, reg.Close())
		})
		benches[i] = &bench{Registry: reg, t: t, st: st}
	}
	return benches
}

// empty makes a tensor for results, filled with a pattern that no result contains.
func (b *bench) empty(dt aclnn.DType, shape ...int64) *aclnn.Tensor {
	b.t.Helper()
	t, err := aclnn.New(b.st, dt, shape...)
	require.NoError(b.t, err)
	b.t.Cleanup(func() { require.NoError(b.t, t.Close()) })
	require.NoError(b.t, b.st.Memset(t.Buffer(), 0xff, t.Buffer().Size()))
	return t
}

// floats makes a tensor of values that are rounded to its dtype.
func (b *bench) floats(dt aclnn.DType, values []float32, shape ...int64) *aclnn.Tensor {
	b.t.Helper()
	t := b.empty(dt, shape...)
	ctx := b.t.Context()
	switch dt {
	case aclnn.Float32:
		require.NoError(b.t, aclnn.CopyToDevice(ctx, b.st, t, values))
	case aclnn.Float16:
		require.NoError(b.t, aclnn.CopyToDevice(ctx, b.st, t, convert(values, half.Float16FromFloat32)))
	case aclnn.BFloat16:
		require.NoError(b.t, aclnn.CopyToDevice(ctx, b.st, t, convert(values, half.BFloat16FromFloat32)))
	default:
		b.t.Fatalf("no floats of %v", dt)
	}
	return t
}

func convert[S, D any](values []S, f func(S) D) []D {
	out := make([]D, len(values))
	for i, v := range values {
		out[i] = f(v)
	}
	return out
}

// data makes a tensor of any other element type.
func data[T acl.Element](b *bench, dt aclnn.DType, values []T, shape ...int64) *aclnn.Tensor {
	b.t.Helper()
	t := b.empty(dt, shape...)
	require.NoError(b.t, aclnn.CopyToDevice(b.t.Context(), b.st, t, values))
	return t
}

// read returns the values of a tensor, which may be a view, as float32.
func (b *bench) read(t *aclnn.Tensor) []float32 {
	b.t.Helper()
	wide := b.empty(aclnn.Float32, t.Shape()...)
	require.NoError(b.t, aclnn.InplaceCopy(b.st, aclnn.InplaceCopyParams{SelfRef: wide, Src: t}))
	values := make([]float32, t.Len())
	require.NoError(b.t, aclnn.CopyFromDevice(b.t.Context(), b.st, values, wide))
	return values
}

// golden copies a tensor of a case to the device.
func (b *bench) golden(c *golden.Case, name string) *aclnn.Tensor {
	b.t.Helper()
	return b.floats(c.DType, c.Float32(name), shapeOf(c, name)...)
}

func shapeOf(c *golden.Case, name string) []int64 {
	return convert(c.Shape(name), func(n int) int64 { return int64(n) })
}

// run runs an operator that must succeed.
func run[A any, K comparable](b *bench, o *ops.Op[A, K], a *A) {
	b.t.Helper()
	require.NoError(b.t, o.Run(b.t.Context(), b.st, a), "kernel chosen: %v", o.Explain(a))
}

// tolerance returns the RMS error ratio that a dtype allows for rounding of the result and, in
// 16-bit types, of intermediates.
func tolerance(dt aclnn.DType) float64 {
	switch dt {
	case aclnn.Float16:
		return 1e-3
	case aclnn.BFloat16:
		return 6e-3
	}
	return 1e-5
}

// near compares a result with the reference.
func (b *bench) near(name string, got *aclnn.Tensor, want []float32, limit float64) {
	b.t.Helper()
	require.NoError(b.t, golden.CheckRMS(b.read(got), want, limit), name)
}

// dispatched is an operator, whatever its arguments.
type dispatched interface {
	Kernels() []string
	Pin(name string) error
}

// everyKernel runs a test once for each pair of kernels of an operator and its gradient, with these
// pinned. The test returns false for arguments that one of them does not support; some runs must
// succeed.
func everyKernel(t *testing.T, forward, backward func(*ops.Registry) dispatched, test func(b *bench) bool) {
	t.Helper()
	acltest.Need(t)
	reg, err := ops.NewRegistry(ops.Env{})
	require.NoError(t, err)
	ran := 0
	for _, f := range forward(reg).Kernels() {
		for _, g := range backward(reg).Kernels() {
			t.Run(fmt.Sprintf("%s/%s", f, g), func(t *testing.T) {
				b := newBench(t)
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

// takes reports whether an operator has a kernel for the arguments.
func takes[A any, K comparable](o *ops.Op[A, K], a *A) bool { return o.Explain(a).Kernel != "" }

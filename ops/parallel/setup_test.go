package parallel_test

import (
	"context"
	"math/rand/v2"
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

// floatTypes are the dtypes of every operator.
var floatTypes = []aclnn.DType{aclnn.Float32, aclnn.Float16, aclnn.BFloat16}

// random is values of a dtype from a seed.
func random(dt aclnn.DType, seed uint64, n int64) []float32 {
	rng := rand.New(rand.NewPCG(seed, 7))
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(rng.NormFloat64())
		switch dt {
		case aclnn.Float16:
			v[i] = half.Float16FromFloat32(v[i]).Float32()
		case aclnn.BFloat16:
			v[i] = half.BFloat16FromFloat32(v[i]).Float32()
		}
	}
	return v
}

// size is the number of elements of a shape.
func size(shape []int64) int64 {
	n := int64(1)
	for _, d := range shape {
		n *= d
	}
	return n
}

// input makes a tensor of random values and returns both.
func (b *bench) input(dt aclnn.DType, seed uint64, shape ...int64) (*aclnn.Tensor, []float32) {
	b.t.Helper()
	v := random(dt, seed, size(shape))
	return b.floats(dt, v, shape...), v
}

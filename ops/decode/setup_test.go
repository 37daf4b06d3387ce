package decode_test

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
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/decode"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(acltest.Suite{M: m}) }

// bench is a stream with the operators of its device.
type bench struct {
	*decode.Operators
	t  *testing.T
	st *acl.Stream
}

// newBench opens device 0 for a test and checks that the test frees everything.
func newBench(t *testing.T) *bench {
	t.Helper()
	dev := acltest.Device(t, acltest.Open(t), 0)
	st := acltest.Stream(t, dev)
	reg, err := ops.NewRegistry(ops.EnvOf(dev))
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, st.Synchronize(context.Background())) // the test's context has ended
		require.NoError(t, reg.Close())
	})
	dec, err := decode.New(reg)
	require.NoError(t, err)
	return &bench{dec, t, st}
}

// empty makes a tensor filled with a pattern that no result contains.
func (b *bench) empty(dt aclnn.DType, shape ...int64) *aclnn.Tensor {
	b.t.Helper()
	t, err := aclnn.New(b.st, dt, shape...)
	require.NoError(b.t, err)
	b.t.Cleanup(func() { require.NoError(b.t, t.Close()) })
	require.NoError(b.t, b.st.Memset(t.Buffer(), 0xff, t.Buffer().Size()))
	return t
}

// floats makes a tensor of values that its dtype represents.
func (b *bench) floats(dt aclnn.DType, values []float32, shape ...int64) *aclnn.Tensor {
	b.t.Helper()
	switch dt {
	case aclnn.Float16:
		return put(b, dt, convert(values, half.Float16FromFloat32), shape...)
	case aclnn.BFloat16:
		return put(b, dt, convert(values, half.BFloat16FromFloat32), shape...)
	}
	return put(b, dt, values, shape...)
}

// put makes a tensor of any element type.
func put[T acl.Element](b *bench, dt aclnn.DType, values []T, shape ...int64) *aclnn.Tensor {
	b.t.Helper()
	t := b.empty(dt, shape...)
	require.NoError(b.t, aclnn.CopyToDevice(b.t.Context(), b.st, t, values))
	return t
}

func convert[S, D any](values []S, f func(S) D) []D {
	out := make([]D, len(values))
	for i, v := range values {
		out[i] = f(v)
	}
	return out
}

// read returns the values of a tensor as float32.
func (b *bench) read(t *aclnn.Tensor) []float32 {
	b.t.Helper()
	wide := b.empty(aclnn.Float32, t.Shape()...)
	require.NoError(b.t, aclnn.Copy(b.st, wide, t))
	values := make([]float32, t.Len())
	require.NoError(b.t, aclnn.CopyFromDevice(b.t.Context(), b.st, values, wide))
	return values
}

// eighths returns n random multiples of 1/8, which all floats represent.
func eighths(rng *rand.Rand, n int64) []float32 {
	values := make([]float32, n)
	for i := range values {
		values[i] = float32(rng.IntN(33)-16) / 8
	}
	return values
}

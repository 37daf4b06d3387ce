package opstest

import (
	"math/rand/v2"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/aclnn/half"
)

// FloatTypes are the dtypes of every operator.
var FloatTypes = []aclnn.DType{aclnn.Float32, aclnn.Float16, aclnn.BFloat16}

// Empty makes a tensor for results, filled with a pattern that no result contains.
func (b *Bench) Empty(dt aclnn.DType, shape ...int64) *aclnn.Tensor {
	b.T.Helper()
	t, err := aclnn.New(b.Stream, dt, shape...)
	require.NoError(b.T, err)
	b.T.Cleanup(func() { require.NoError(b.T, t.Close()) })
	require.NoError(b.T, b.Stream.Memset(t.Buffer(), 0xff, t.Buffer().Size()))
	return t
}

// Floats makes a tensor of values that are rounded to its dtype.
func (b *Bench) Floats(dt aclnn.DType, values []float32, shape ...int64) *aclnn.Tensor {
	b.T.Helper()
	t := b.Empty(dt, shape...)
	ctx := b.T.Context()
	switch dt {
	case aclnn.Float32:
		require.NoError(b.T, aclnn.CopyToDevice(ctx, b.Stream, t, values))
	case aclnn.Float16:
		require.NoError(b.T, aclnn.CopyToDevice(ctx, b.Stream, t, Convert(values, half.Float16FromFloat32)))
	case aclnn.BFloat16:
		require.NoError(b.T, aclnn.CopyToDevice(ctx, b.Stream, t, Convert(values, half.BFloat16FromFloat32)))
	default:
		b.T.Fatalf("no floats of %v", dt)
	}
	return t
}

// Data makes a tensor of any other element type.
func Data[T acl.Element](b *Bench, dt aclnn.DType, values []T, shape ...int64) *aclnn.Tensor {
	b.T.Helper()
	t := b.Empty(dt, shape...)
	require.NoError(b.T, aclnn.CopyToDevice(b.T.Context(), b.Stream, t, values))
	return t
}

// Input makes a tensor of random values and returns both.
func (b *Bench) Input(dt aclnn.DType, seed uint64, shape ...int64) (*aclnn.Tensor, []float32) {
	b.T.Helper()
	v := Random(dt, seed, Size(shape))
	return b.Floats(dt, v, shape...), v
}

// Copied makes a contiguous copy.
func (b *Bench) Copied(t *aclnn.Tensor) *aclnn.Tensor {
	b.T.Helper()
	c := b.Empty(t.DType(), t.Shape()...)
	require.NoError(b.T, aclnn.InplaceCopy(b.Stream, aclnn.InplaceCopyParams{Self: c, Src: t}))
	return c
}

// Read returns the values of a tensor, which may be a view, as float32.
func (b *Bench) Read(t *aclnn.Tensor) []float32 {
	b.T.Helper()
	wide := b.Empty(aclnn.Float32, t.Shape()...)
	require.NoError(b.T, aclnn.InplaceCopy(b.Stream, aclnn.InplaceCopyParams{Self: wide, Src: t}))
	values := make([]float32, t.Len())
	require.NoError(b.T, aclnn.CopyFromDevice(b.T.Context(), b.Stream, values, wide))
	return values
}

// Random returns n normal values from a seed, rounded to a dtype.
func Random(dt aclnn.DType, seed uint64, n int64) []float32 {
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

// Size returns the number of elements of a shape.
func Size(shape []int64) int64 {
	n := int64(1)
	for _, d := range shape {
		n *= d
	}
	return n
}

// Convert returns the results of a function for values.
func Convert[S, D any](values []S, f func(S) D) []D {
	out := make([]D, len(values))
	for i, v := range values {
		out[i] = f(v)
	}
	return out
}

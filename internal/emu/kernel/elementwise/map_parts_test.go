package elementwise_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// reversed is v with its dimensions in the opposite order.
func reversed(v kernel.View) kernel.View {
	v.Shape, v.Strides = slices.Clone(v.Shape), slices.Clone(v.Strides)
	slices.Reverse(v.Shape)
	slices.Reverse(v.Strides)
	return v
}

// TestMapManyDimensions: more dimensions than the C kernel has, of which some can be joined, none can,
// or nearly all have one element.
func TestMapManyDimensions(t *testing.T) {
	two := slices.Repeat([]int64{2}, 11)
	n := 1 << len(two)
	values := make([]float64, n)
	for i := range values {
		values[i] = float64(i)
	}
	for _, l := range kerneltest.Layouts {
		x, out := kerneltest.New(t, dtype.Float32, kerneltest.Contiguous, two, values), kerneltest.New(t, dtype.Float32, l, two, nil)
		half := elementwise.Const(elementwise.Real(.5))
		require.NoError(t, elementwise.Map(elementwise.Mul, dtype.Float32, out, []elementwise.Input{elementwise.Of(reversed(x)), half}))
		want := kerneltest.Values(reversed(x))
		for i := range want {
			want[i] *= .5
		}
		assert.Equal(t, want, kerneltest.Values(out), "%v", l)
	}

	// An input that lies across the output is read before anything is written.
	x := kerneltest.New(t, dtype.Float32, kerneltest.Contiguous, two, values)
	want := kerneltest.Values(reversed(x))
	require.NoError(t, elementwise.Map(elementwise.Identity, dtype.Float32, x, []elementwise.Input{elementwise.Of(reversed(x))}))
	assert.Equal(t, want, kerneltest.Values(x))

	wide := append(slices.Repeat([]int64{1}, 500), 300, 200)
	big, out := kerneltest.New(t, dtype.Int8, kerneltest.Contiguous, []int64{1}, []float64{3}), kerneltest.New(t, dtype.Int8, kerneltest.Contiguous, wide, nil)
	require.NoError(t, elementwise.Map(elementwise.Identity, dtype.Int8, out, []elementwise.Input{elementwise.Of(big)}))
	assert.Equal(t, slices.Repeat([]float64{3}, 60000), kerneltest.Values(out))
	empty := kerneltest.New(t, dtype.Int8, kerneltest.Contiguous, append(two, 0), nil)
	require.NoError(t, elementwise.Map(elementwise.Identity, dtype.Int8, empty, []elementwise.Input{elementwise.Of(big)}))
}

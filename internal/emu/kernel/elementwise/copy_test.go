package elementwise_test

import (
	"fmt"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

func TestCopyLayouts(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Uint8, dtype.BFloat16, dtype.Float32, dtype.Int64, dtype.Complex128} {
		for _, shape := range append(kerneltest.Shapes, []int64{130, 70}, []int64{3, 65, 2, 129}) {
			for _, from := range append(kerneltest.Layouts, kerneltest.Broadcast) {
				for _, to := range kerneltest.Layouts {
					src := kerneltest.New(t, d, from, shape, kerneltest.Sample(d, 1, max(kerneltest.Count(shape), 1), 0, 100))
					dst := kerneltest.New(t, d, to, shape, nil)
					require.NoError(t, elementwise.Copy(dst, src))
					require.Equal(t, kerneltest.Values(src), kerneltest.Values(dst), "%v %v from %v to %v", d, shape, from, to)
				}
			}
		}
	}
}

func TestCopyPermuted(t *testing.T) {
	shape := []int64{9, 70, 3, 11}
	n := kerneltest.Count(shape)
	for _, order := range [][]int{{0, 1, 2, 3}, {3, 2, 1, 0}, {0, 2, 1, 3}, {1, 0, 3, 2}, {2, 3, 0, 1}, {0, 1, 3, 2}} {
		src := kerneltest.New(t, dtype.Int32, kerneltest.Contiguous, shape, kerneltest.Iota(n)).Permuted(order)
		dst := kerneltest.New(t, dtype.Int32, kerneltest.Contiguous, src.Shape, nil)
		require.NoError(t, elementwise.Copy(dst, src))
		require.Equal(t, kerneltest.Values(src), kerneltest.Values(dst), "%v", order)
	}
}

// TestCopyOverlap checks that an overlapping copy gives the same result as a copy through a second
// buffer.
func TestCopyOverlap(t *testing.T) {
	for _, shift := range []int64{-3, -1, 1, 3} {
		for _, d := range []dtype.Type{dtype.Float32, dtype.Int8} {
			t.Run(fmt.Sprint(d, shift), func(t *testing.T) {
				whole := kerneltest.New(t, d, kerneltest.Contiguous, []int64{40}, kerneltest.Iota(40))
				size := int64(d.Size())
				part := kernel.View{Data: unsafe.Add(whole.Data, 4*size), DType: d, Shape: []int64{30}, Strides: []int64{1}}
				shifted := part
				shifted.Data = unsafe.Add(part.Data, shift*size)
				want := kerneltest.Values(part)
				require.NoError(t, elementwise.Copy(shifted, part))
				assert.Equal(t, want, kerneltest.Values(shifted))
			})
		}
	}
	square := kerneltest.New(t, dtype.Float32, kerneltest.Contiguous, []int64{40, 40}, kerneltest.Iota(1600))
	want := kerneltest.Values(square.Permuted([]int{1, 0}))
	require.NoError(t, elementwise.Copy(square, square.Permuted([]int{1, 0})))
	assert.Equal(t, want, kerneltest.Values(square))
}

func TestZeroAndFill(t *testing.T) {
	for _, d := range append(append([]dtype.Type{dtype.Bool}, kerneltest.Floats...), kerneltest.Integers...) {
		for _, l := range kerneltest.Layouts {
			v := kerneltest.New(t, d, l, []int64{3, 341}, []float64{1})
			require.NoError(t, elementwise.Zero(v))
			require.Equal(t, make([]float64, 1023), kerneltest.Values(v))
			require.NoError(t, elementwise.Fill(v, elementwise.Real(1)))
			require.Equal(t, kerneltest.Values(kerneltest.New(t, d, l, []int64{3, 341}, []float64{1})), kerneltest.Values(v))
		}
	}
}

func TestMapRefuses(t *testing.T) {
	x := kerneltest.New(t, dtype.Float32, kerneltest.Contiguous, []int64{2, 3}, []float64{1})
	y := kerneltest.New(t, dtype.Float32, kerneltest.Contiguous, []int64{4}, []float64{1})
	c := kerneltest.New(t, dtype.Complex64, kerneltest.Contiguous, []int64{2, 3}, []float64{1})
	assert.ErrorContains(t, elementwise.Map(elementwise.Add, dtype.Float32, x, []elementwise.Input{elementwise.Of(x), elementwise.Of(y)}), "[4] cannot be broadcast to [2 3]")
	assert.ErrorContains(t, elementwise.Map(elementwise.BitAnd, dtype.Float32, x, []elementwise.Input{elementwise.Of(x), elementwise.Of(x)}), "not defined for float32")
	assert.ErrorContains(t, elementwise.Map(elementwise.Add, dtype.Float32, c, []elementwise.Input{elementwise.Of(x), elementwise.Of(x)}), "complex64")
	assert.ErrorContains(t, elementwise.Map(elementwise.Op(-1), dtype.Float32, x, nil), "not defined")
	assert.ErrorContains(t, elementwise.Copy(kernel.View{DType: dtype.Int4, Shape: []int64{1}}, kernel.View{DType: dtype.Int4, Shape: []int64{1}}), "int4")
}

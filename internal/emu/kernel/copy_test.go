package kernel_test

import (
	"fmt"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

func iota64(n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = float64(i)
	}
	return x
}

func TestCopyLayouts(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Uint8, dtype.BFloat16, dtype.Float32, dtype.Int64, dtype.Complex128} {
		for _, shape := range append(shapes, []int64{130, 70}, []int64{3, 65, 2, 129}) {
			for _, from := range append(kerneltest.Layouts, kerneltest.Broadcast) {
				for _, to := range kerneltest.Layouts {
					src := kerneltest.New(t, d, from, shape, sample(d, 1, max(count(shape), 1), 0, 100))
					dst := kerneltest.New(t, d, to, shape, nil)
					require.NoError(t, kernel.Copy(dst, src))
					require.Equal(t, kerneltest.Values(src), kerneltest.Values(dst), "%v %v from %v to %v", d, shape, from, to)
				}
			}
		}
	}
}

// permuted returns v with its dimensions in another order.
func permuted(v kernel.View, order ...int) kernel.View {
	out := kernel.View{Data: v.Data, DType: v.DType}
	for _, i := range order {
		out.Shape, out.Strides = append(out.Shape, v.Shape[i]), append(out.Strides, v.Strides[i])
	}
	return out
}

func TestCopyPermuted(t *testing.T) {
	shape := []int64{9, 70, 3, 11}
	n := count(shape)
	for _, order := range [][]int{{0, 1, 2, 3}, {3, 2, 1, 0}, {0, 2, 1, 3}, {1, 0, 3, 2}, {2, 3, 0, 1}, {0, 1, 3, 2}} {
		src := permuted(kerneltest.New(t, dtype.Int32, kerneltest.Contiguous, shape, iota64(n)), order...)
		dst := kerneltest.New(t, dtype.Int32, kerneltest.Contiguous, src.Shape, nil)
		require.NoError(t, kernel.Copy(dst, src))
		require.Equal(t, kerneltest.Values(src), kerneltest.Values(dst), "%v", order)
	}
}

// TestCopyOverlap checks that an overlapping copy gives the same result as a copy through a second
// buffer.
func TestCopyOverlap(t *testing.T) {
	for _, shift := range []int64{-3, -1, 1, 3} {
		for _, d := range []dtype.Type{dtype.Float32, dtype.Int8} {
			t.Run(fmt.Sprint(d, shift), func(t *testing.T) {
				whole := kerneltest.New(t, d, kerneltest.Contiguous, []int64{40}, iota64(40))
				size := int64(d.Size())
				part := kernel.View{Data: unsafe.Add(whole.Data, 4*size), DType: d, Shape: []int64{30}, Strides: []int64{1}}
				moved := part
				moved.Data = unsafe.Add(part.Data, shift*size)
				want := kerneltest.Values(part)
				require.NoError(t, kernel.Copy(moved, part))
				assert.Equal(t, want, kerneltest.Values(moved))
			})
		}
	}
	square := kerneltest.New(t, dtype.Float32, kerneltest.Contiguous, []int64{40, 40}, iota64(1600))
	want := kerneltest.Values(permuted(square, 1, 0))
	require.NoError(t, kernel.Copy(square, permuted(square, 1, 0)))
	assert.Equal(t, want, kerneltest.Values(square))
}

func TestZeroAndFill(t *testing.T) {
	for _, d := range append(append([]dtype.Type{dtype.Bool}, floats...), integers...) {
		for _, l := range kerneltest.Layouts {
			v := kerneltest.New(t, d, l, []int64{3, 341}, []float64{1})
			require.NoError(t, kernel.Zero(v))
			require.Equal(t, make([]float64, 1023), kerneltest.Values(v))
			require.NoError(t, kernel.Fill(v, kernel.Real(1)))
			require.Equal(t, kerneltest.Values(kerneltest.New(t, d, l, []int64{3, 341}, []float64{1})), kerneltest.Values(v))
		}
	}
}

func TestMapRefuses(t *testing.T) {
	x := kerneltest.New(t, dtype.Float32, kerneltest.Contiguous, []int64{2, 3}, []float64{1})
	y := kerneltest.New(t, dtype.Float32, kerneltest.Contiguous, []int64{4}, []float64{1})
	c := kerneltest.New(t, dtype.Complex64, kerneltest.Contiguous, []int64{2, 3}, []float64{1})
	assert.ErrorContains(t, kernel.Map(kernel.Add, dtype.Float32, x, []kernel.Input{kernel.Of(x), kernel.Of(y)}), "[4] cannot be broadcast to [2 3]")
	assert.ErrorContains(t, kernel.Map(kernel.BitAnd, dtype.Float32, x, []kernel.Input{kernel.Of(x), kernel.Of(x)}), "not defined for float32")
	assert.ErrorContains(t, kernel.Map(kernel.Add, dtype.Float32, c, []kernel.Input{kernel.Of(x), kernel.Of(x)}), "complex64")
	assert.ErrorContains(t, kernel.Map(kernel.Op(-1), dtype.Float32, x, nil), "not defined")
	assert.ErrorContains(t, kernel.Copy(kernel.View{DType: dtype.Int4, Shape: []int64{1}}, kernel.View{DType: dtype.Int4, Shape: []int64{1}}), "int4")
}

package fractal_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/fractal"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// pack is the definition of FRACTAL_NZ: [C1, R1, 16, C0], zeros outside the matrix.
func pack(nd []float64, rows, cols, c0 int64) []float64 {
	r1, c1 := (rows+15)/16, (cols+c0-1)/c0
	out := make([]float64, 0, r1*c1*16*c0)
	for i := range c1 {
		for j := range r1 {
			for r := range int64(16) {
				for c := range c0 {
					row, col := j*16+r, i*c0+c
					if row < rows && col < cols {
						out = append(out, nd[row*cols+col])
					} else {
						out = append(out, 0)
					}
				}
			}
		}
	}
	return out
}

// numbered returns the values 1, 2, …, none of which equals the padding.
func numbered(n int64) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = float64(i%120 + 1)
	}
	return v
}

func TestIndex(t *testing.T) {
	// A matrix of 20×40 with 16 columns a tile.
	z := fractal.Layout{Rows: 20, Cols: 40, C0: 16}
	require.EqualValues(t, 1536, z.Len())
	for _, c := range []struct{ r, c, i int64 }{
		{0, 0, 0}, {15, 15, 255}, {0, 15, 15}, {16, 0, 256}, {0, 16, 512}, {17, 35, 1299}, {1, 0, 16}, {19, 39, 1335},
	} {
		require.Equal(t, c.i, z.Index(c.r, c.c))
	}
	require.EqualValues(t, 1329, fractal.Layout{Rows: 40, Cols: 20, C0: 16}.Index(35, 17))
}

func FuzzIndex(f *testing.F) {
	f.Add(uint8(20), uint8(40), uint8(4))
	f.Add(uint8(1), uint8(1), uint8(3))
	f.Add(uint8(0), uint8(9), uint8(6))
	f.Fuzz(func(t *testing.T, rows, cols, log uint8) {
		z := fractal.Layout{Rows: int64(rows), Cols: int64(cols), C0: 1 << (log % 7)}
		places := pack(numberedExactly(z.Rows*z.Cols), z.Rows, z.Cols, z.C0)
		require.EqualValues(t, len(places), z.Len())
		for i, v := range places {
			r, c, ok := z.At(int64(i))
			require.Equal(t, v != 0, ok)
			if ok {
				require.Equal(t, v, float64(r*z.Cols+c+1))
				require.EqualValues(t, i, z.Index(r, c))
			}
		}
	})
}

func numberedExactly(n int64) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = float64(i + 1)
	}
	return v
}

func TestPackAndBack(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Float32, dtype.BFloat16, dtype.Int8, dtype.Float64} {
		for _, c0 := range []int64{8, 16, 32} {
			for _, batch := range [][]int64{{}, {2, 3}} {
				for _, size := range [][2]int64{{1, 1}, {15, 17}, {16, 16}, {17, 31}, {33, 32}, {48, 15}, {31, 65}, {0, 4}, {4, 0}} {
					for _, l := range kerneltest.Layouts {
						name := fmt.Sprintf("%v/%d/%v%v/%v", d, c0, batch, size, l)
						rows, cols := size[0], size[1]
						shape := append(slices.Clone(batch), rows, cols)
						matrices := int64(1)
						for _, b := range batch {
							matrices *= b
						}
						nd := kerneltest.New(t, d, l, shape, numbered(matrices*rows*cols))
						z := fractal.Layout{Rows: rows, Cols: cols, C0: c0}
						nz := kerneltest.New(t, d, kerneltest.Contiguous, []int64{matrices * z.Len()}, nil)
						require.NoError(t, fractal.Pack(nz.Data, c0, nd))
						var want []float64
						values := kerneltest.Values(nd)
						for i := range matrices {
							want = append(want, pack(values[i*rows*cols:(i+1)*rows*cols], rows, cols, c0)...)
						}
						if nd.Len() > 0 {
							require.Equal(t, want, kerneltest.Values(nz), name)
						}
						back := kerneltest.New(t, d, l, shape, nil)
						require.NoError(t, fractal.Unpack(back, nz.Data, c0))
						require.Equal(t, values, kerneltest.Values(back), name)
					}
				}
			}
		}
	}
}

// TestToNZInt4 checks int4 elements, of which two share a byte and are moved together.
func TestPackInt4(t *testing.T) {
	bytes := kerneltest.New(t, dtype.Uint8, kerneltest.Contiguous, []int64{17 * 33}, numbered(17*33))
	v := kernel.View{Data: bytes.Data, DType: dtype.Int4, Shape: []int64{17, 66}, Strides: []int64{66, 1}}
	nz := kerneltest.New(t, dtype.Uint8, kerneltest.Contiguous, []int64{2 * 32 * 32}, nil)
	require.NoError(t, fractal.Pack(nz.Data, 64, v))
	require.Equal(t, pack(kerneltest.Values(bytes), 17, 33, 32), kerneltest.Values(nz))
	v.Shape = []int64{17, 65}
	require.ErrorContains(t, fractal.Pack(nz.Data, 64, v), "whole bytes")
}

func TestPackSlice(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, ranks := range []int64{1, 2, 4, 8} {
		for _, shape := range [][]int64{{2, 32, 32}, {1, 16, 48}, {3, 20, 24}, {5, 7}} {
			need := int64(1)
			for _, d := range shape {
				need *= d
			}
			for _, slack := range []int64{0, 5} { // the last rank may carry padding
				chunk := (need + ranks - 1) / ranks
				chunk += slack
				start, after := r.Int64N(20), r.Int64N(20)
				total := start + chunk + after
				buf := kerneltest.New(t, dtype.BFloat16, kerneltest.Contiguous, []int64{ranks, total}, numbered(ranks*total))
				var joined []float64
				for i := range ranks {
					joined = append(joined, kerneltest.Values(buf)[i*total+start:i*total+start+chunk]...)
				}
				rows, cols := shape[len(shape)-2], shape[len(shape)-1]
				var want []float64
				for i := int64(0); i < need; i += rows * cols {
					want = append(want, pack(joined[i:i+rows*cols], rows, cols, 16)...)
				}
				nz := kerneltest.New(t, dtype.BFloat16, kerneltest.Contiguous, []int64{int64(len(want))}, nil)
				require.NoError(t, fractal.PackSlice(nz.Data, 16, shape, buf, start, start+chunk))
				require.Equal(t, want, kerneltest.Values(nz), "%d ranks, %v, columns %d to %d of %d", ranks, shape, start, start+chunk, total)
			}
		}
	}
}

func TestPackSliceRefuses(t *testing.T) {
	buf := kerneltest.New(t, dtype.Float16, kerneltest.Contiguous, []int64{2, 100}, nil)
	out := kerneltest.New(t, dtype.Float16, kerneltest.Contiguous, []int64{256}, nil)
	require.ErrorContains(t, fractal.PackSlice(out.Data, 16, []int64{16, 16}, buf, 0, 100), "hold 200 elements")
	require.ErrorContains(t, fractal.PackSlice(out.Data, 16, []int64{10, 10}, buf, 60, 101), "range inside")
	require.ErrorContains(t, fractal.PackSlice(out.Data, 16, []int64{10, 10}, buf, 60, 50), "range inside")
	require.ErrorContains(t, fractal.PackSlice(out.Data, 16, []int64{10}, buf, 0, 50), "matrices")
}

// BenchmarkSliceToNZ compares SliceToNZ with ToNZ of contiguous memory.
func BenchmarkPackSlice(b *testing.B) {
	const ranks, e, k, n = 8, 8, 512, 768
	const chunk = e * k * n / ranks
	buf := kerneltest.New(b, dtype.BFloat16, kerneltest.Contiguous, []int64{ranks, chunk + 4096}, []float64{1, 2})
	out := kerneltest.New(b, dtype.BFloat16, kerneltest.Contiguous, []int64{e * k * n}, nil)
	shape := []int64{e, k, n}
	b.Run("fused", func(b *testing.B) {
		b.SetBytes(2 * 2 * e * k * n)
		for b.Loop() {
			require.NoError(b, fractal.PackSlice(out.Data, 16, shape, buf, 2048, 2048+chunk))
		}
	})
	b.Run("joined", func(b *testing.B) {
		b.SetBytes(2 * 2 * e * k * n)
		for b.Loop() {
			require.NoError(b, fractal.Pack(out.Data, 16, kernel.View{Data: buf.Data, DType: dtype.BFloat16, Shape: shape, Strides: []int64{k * n, n, 1}}))
		}
	})
}

// TestSliceToNZPastCaches checks storage that is too large for the caches, which is written by
// other instructions. The columns are not a whole number of tile pairs, the rows are not a whole
// number of tiles, and slices end inside rows.
func TestPackSlicePastCaches(t *testing.T) {
	const rows, cols, ranks, start = 2059, 4136, 3, 11
	length := int64(rows*cols+ranks-1) / ranks
	total := length + start + 7
	src := make([]uint16, ranks*total)
	for i := range src {
		src[i] = uint16(i*7919 + 1)
	}
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&src[0])
	z := fractal.Layout{Rows: rows, Cols: cols, C0: 16}
	dst := make([]uint16, z.Len()+16)
	pin.Pin(&dst[0])
	aligned := int(32-uintptr(unsafe.Pointer(&dst[0]))%32) % 32 / 2
	tiles := dst[aligned : aligned+int(z.Len())]
	for i := range tiles {
		tiles[i] = 0xffff
	}
	require.GreaterOrEqual(t, len(tiles)*2, fractal.PastCaches)
	v := kernel.View{Data: unsafe.Pointer(&src[0]), DType: dtype.Float16, Shape: []int64{ranks, total}, Strides: []int64{total, 1}}
	require.NoError(t, fractal.PackSlice(unsafe.Pointer(&tiles[0]), 16, []int64{rows, cols}, v, start, start+length))
	for i, got := range tiles {
		want := uint16(0)
		if r, c, ok := z.At(int64(i)); ok {
			at := r*cols + c
			want = src[at/length*total+start+at%length]
		}
		if got != want {
			t.Fatalf("place %d has %d, want %d", i, got, want)
		}
	}
}

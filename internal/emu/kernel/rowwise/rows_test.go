package rowwise_test

import (
	"math"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
)

// waves returns n numbers between -1 and 1.
func waves(n int64, seed float64) []float64 {
	values := make([]float64, n)
	for i := range values {
		values[i] = float64(float32(math.Sin(seed + 1.7*float64(i))))
	}
	return values
}

// Rows may be longer than the buffers of the kernels, have any strides and be normalised in place.
func TestRMSNormRows(t *testing.T) {
	kerneltest.EachVariant(t, func(t *testing.T) {
		for _, c := range []struct{ shape, gamma []int64 }{
			{[]int64{3, 1}, []int64{1}}, {[]int64{5, 33}, []int64{33}}, {[]int64{2, 3, 2500}, []int64{2500}}, {[]int64{4, 5, 7}, []int64{5, 7}}, {[]int64{300, 64}, []int64{64}},
		} {
			for _, l := range kerneltest.Layouts {
				testRMSNorm(t, l, c.shape, c.gamma)
			}
		}
	})
}

// The rows of a weight may overlap in memory, so that pieces of it begin at the same element and go on with others.
func TestRMSNormOverlappingWeight(t *testing.T) {
	kerneltest.EachVariant(t, func(t *testing.T) {
		x := kerneltest.New(t, dtype.Float32, kerneltest.Contiguous, []int64{2, 2, 1536}, waves(2*2*1536, 1))
		weight := kerneltest.New(t, dtype.Float32, kerneltest.Contiguous, []int64{2048}, waves(2048, 2))
		weight.Shape, weight.Strides = []int64{2, 1536}, []int64{512, 1}
		same := kerneltest.New(t, dtype.Float32, kerneltest.Contiguous, weight.Shape, kerneltest.Values(weight))
		like := func(v kernel.View) kernel.View {
			return kerneltest.New(t, dtype.Float32, kerneltest.Contiguous, v.Shape, nil)
		}
		y, want, rstd := like(x), like(x), like(x.Select(2, 0).Select(1, 0))
		require.NoError(t, rowwise.RMSNorm(y, rstd, x, weight, 1e-6))
		require.NoError(t, rowwise.RMSNorm(want, rstd, x, same, 1e-6))
		assert.Equal(t, kerneltest.Values(want), kerneltest.Values(y))
		dgamma, wantGamma := like(weight), like(weight)
		require.NoError(t, rowwise.RMSNormGrad(y, dgamma, x, x, rstd, weight))
		require.NoError(t, rowwise.RMSNormGrad(want, wantGamma, x, x, rstd, same))
		assert.Equal(t, kerneltest.Values(want), kerneltest.Values(y))
		assert.Equal(t, kerneltest.Values(wantGamma), kerneltest.Values(dgamma))
	})
}

func testRMSNorm(t *testing.T, l kerneltest.Layout, shape, inner []int64) {
	const eps = 1e-6
	n, width := kernel.View{Shape: shape}.Len(), kernel.View{Shape: inner}.Len()
	outer := shape[:len(shape)-len(inner)]
	view := func(shape []int64, values []float64) kernel.View {
		return kerneltest.New(t, dtype.Float32, l, shape, values)
	}
	x, dy, gamma := waves(n, 1), waves(n, 2), waves(width, 3)
	y, rstd, dx, dgamma := view(shape, x), view(outer, nil), view(shape, nil), view(inner, nil)
	require.NoError(t, rowwise.RMSNorm(y, rstd, y, view(inner, gamma), eps))
	require.NoError(t, rowwise.RMSNormGrad(dx, dgamma, view(shape, dy), view(shape, x), rstd, view(inner, gamma)))

	wantY, wantDX, wantDGamma, wantRstd := make([]float64, n), make([]float64, n), make([]float64, width), make([]float64, n/width)
	for r := range wantRstd {
		squares, dot := 0.0, 0.0
		for i := range width {
			k := int64(r)*width + i
			squares += x[k] * x[k]
			dot += dy[k] * gamma[i] * x[k]
		}
		s := 1 / math.Sqrt(squares/float64(width)+eps)
		wantRstd[r] = s
		for i := range width {
			k := int64(r)*width + i
			wantY[k] = x[k] * s * gamma[i]
			wantDX[k] = s * (dy[k]*gamma[i] - x[k]*s*s*dot/float64(width))
			wantDGamma[i] += dy[k] * x[k] * s
		}
	}
	for _, c := range []struct {
		want []float64
		got  kernel.View
	}{{wantY, y}, {wantRstd, rstd}, {wantDX, dx}, {wantDGamma, dgamma}} {
		assert.InDeltaSlice(t, c.want, kerneltest.Values(c.got), 2e-5, "%v %v", l, shape)
	}
}

// The order of additions is that of the shape, whatever the number of threads.
func TestRowsHaveTheSameBitsWithAnyThreads(t *testing.T) {
	const rows, width = 1500, 96
	run := func(threads int) []float64 {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(threads))
		view := func(values []float64, shape ...int64) kernel.View {
			return kerneltest.New(t, dtype.Float32, kerneltest.Contiguous, shape, values)
		}
		x, dy, gamma := view(waves(rows*width, 1), rows, width), view(waves(rows*width, 2), rows, width), view(waves(width, 3), width)
		rstd, dgamma := view(nil, rows), view(nil, width)
		require.NoError(t, rowwise.RMSNorm(x, rstd, x, gamma, 1e-6))
		require.NoError(t, rowwise.RMSNormGrad(dy, dgamma, dy, x, rstd, gamma))
		return append(append(kerneltest.Values(x), kerneltest.Values(dy)...), kerneltest.Values(dgamma)...)
	}
	one := run(1)
	for _, threads := range []int{2, 7} {
		assert.Equal(t, one, run(threads))
	}
}

// The last weights before a place where threads divide them are not computed as vectors.
func TestAdamWHasTheSameBitsWithAnyThreads(t *testing.T) {
	const n = 500_003
	x, g := waves(n, 1), waves(n, 2)
	run := func(threads int) (bits []float64) {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(threads))
		view := func(values []float64) kernel.View {
			return kerneltest.New(t, dtype.Float32, kerneltest.Contiguous, []int64{n}, values)
		}
		w, m, v, peak := view(x), view(nil), view(nil), view(nil)
		o := rowwise.AdamW{LR: .01, Beta1: .9, Beta2: .99, WeightDecay: .1, L2: .2, Eps: 1e-8}
		for step := range 2 {
			require.NoError(t, o.Updates(float64(1+step)).Update(w, m, v, peak, view(g)))
		}
		for _, of := range []kernel.View{w, m, v, peak} {
			bits = append(bits, kerneltest.Values(of)...)
		}
		return bits
	}
	kerneltest.EachVariant(t, func(t *testing.T) {
		assert.True(t, slices.Equal(run(1), run(7)))
	})
}

func TestRotaryInPlace(t *testing.T) {
	kerneltest.EachVariant(t, func(t *testing.T) {
		testRotaryInPlace(t, 7, 12)
		testRotaryInPlace(t, 2, 2060)
	})
	wide := kerneltest.New(t, dtype.Float32, kerneltest.Contiguous, []int64{1, 16386}, nil)
	assert.ErrorContains(t, rowwise.Rotary(wide, wide, wide, wide, rowwise.RotaryHalf), "16384 elements")
}

func testRotaryInPlace(t *testing.T, rows, width int) {
	half, quarter := width/2, width/4
	for mode, place := range map[rowwise.RotaryMode]func(pair int) (a, b, outA, outB int){
		rowwise.RotaryHalf:       func(i int) (a, b, outA, outB int) { return i, half + i, i, half + i },
		rowwise.RotaryInterleave: func(i int) (a, b, outA, outB int) { return 2 * i, 2*i + 1, 2 * i, 2*i + 1 },
		rowwise.RotaryQuarter: func(i int) (a, b, outA, outB int) {
			a = i/quarter*half + i%quarter
			return a, a + quarter, a, a + quarter
		},
		rowwise.RotaryInterleaveHalf: func(i int) (a, b, outA, outB int) { return 2 * i, 2*i + 1, i, half + i },
	} {
		for _, l := range kerneltest.Layouts {
			x, cos, sin := waves(int64(rows*width), 1), waves(int64(width), 2), waves(int64(width), 3)
			v := kerneltest.New(t, dtype.Float32, l, []int64{int64(rows), int64(width)}, x)
			angle := func(values []float64) kernel.View {
				return kerneltest.New(t, dtype.Float32, kerneltest.Contiguous, []int64{int64(width)}, values)
			}
			require.NoError(t, rowwise.Rotary(v, v, angle(cos), angle(sin), mode))
			want := make([]float64, rows*width)
			for r := 0; r < rows*width; r += width {
				for i := range width / 2 {
					a, b, outA, outB := place(i)
					want[r+outA] = x[r+a]*cos[outA] - x[r+b]*sin[outA]
					want[r+outB] = x[r+b]*cos[outB] + x[r+a]*sin[outB]
				}
			}
			assert.InDeltaSlice(t, want, kerneltest.Values(v), 1e-6, "mode %d, %v", mode, l)
		}
	}
}

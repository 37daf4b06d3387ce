package indexing_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/indexing"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// every calls f with the coordinates of every element, in row-major order.
func every(shape []int64, f func(at []int64)) {
	at := make([]int64, len(shape))
	for range kerneltest.Count(shape) {
		f(at)
		for i := len(at) - 1; i >= 0; i-- {
			at[i]++
			if at[i] < shape[i] {
				break
			}
			at[i] = 0
		}
	}
}

// place returns the row-major index of an element.
func place(shape, at []int64) (n int64) {
	for i, k := range at {
		n = n*shape[i] + k
	}
	return n
}

// replaced returns at with one coordinate replaced.
func replaced(at []int64, axis int, k int64) []int64 {
	at = slices.Clone(at)
	at[axis] = k
	return at
}

func TestGather(t *testing.T) {
	in := []int64{5, 6, 7}
	values := kerneltest.Iota(kerneltest.Count(in))
	for _, out := range [][]int64{{5, 6, 7}, {2, 3, 7}, {9, 1, 1}, {0, 6, 7}} {
		for axis := range 3 {
			shape := slices.Clone(out)
			if axis != 0 {
				shape[0] = min(shape[0], in[0])
			}
			index := make([]float64, kerneltest.Count(shape))
			for i := range index {
				index[i] = float64(int64(i*7%11)%(2*in[axis]) - in[axis])
			}
			want := make([]float64, 0, kerneltest.Count(shape))
			every(shape, func(at []int64) {
				k := int64(index[place(shape, at)])
				want = append(want, values[place(in, replaced(at, axis, (k+in[axis])%in[axis]))])
			})
			for _, d := range []dtype.Type{dtype.Int8, dtype.BFloat16, dtype.Float32, dtype.Int64, dtype.Complex128} {
				for _, l := range kerneltest.Layouts {
					x := kerneltest.New(t, d, l, in, values)
					at := kerneltest.New(t, dtype.Int32, l, shape, index)
					y := kerneltest.New(t, d, kerneltest.Gapped, shape, nil)
					require.NoError(t, indexing.Gather(y, x, axis, at))
					rounded := make([]float64, len(want))
					for i, v := range want {
						rounded[i] = kerneltest.Round(d, v)
					}
					require.Equal(t, rounded, kerneltest.Values(y), "%v %v %v axis %d", d, l, shape, axis)
				}
			}
		}
	}
}

func TestGatherRefuses(t *testing.T) {
	x := kerneltest.New(t, dtype.Float32, kerneltest.Contiguous, []int64{3, 2}, kerneltest.Iota(6))
	y := kerneltest.New(t, dtype.Float32, kerneltest.Contiguous, []int64{2, 2}, kerneltest.Iota(4))
	for _, bad := range []float64{3, -4} {
		at := kerneltest.New(t, dtype.Int64, kerneltest.Contiguous, []int64{2, 1}, []float64{0, bad})
		require.ErrorContains(t, indexing.Gather(y, x, 0, at), fmt.Sprintf("index %v at position 1 is out of range for a dimension of 3", bad))
		require.ErrorContains(t, indexing.Scatter(indexing.ScatterAdd, x, y, 0, at), "out of range")
	}
	require.Equal(t, kerneltest.Iota(4), kerneltest.Values(y))
	wide := kerneltest.New(t, dtype.Float32, kerneltest.Contiguous, []int64{2, 3}, nil)
	at := kerneltest.New(t, dtype.Int64, kerneltest.Contiguous, []int64{2, 3}, []float64{0})
	require.ErrorContains(t, indexing.Gather(wide, x, 0, at), "smaller")
	half := kerneltest.New(t, dtype.Float16, kerneltest.Contiguous, []int64{2, 2}, nil)
	require.ErrorContains(t, indexing.Gather(half, x, 0, at), "cannot gather")
}

func TestLookup(t *testing.T) {
	in := []int64{4, 5, 6}
	values := kerneltest.Iota(kerneltest.Count(in))
	for axis := range 3 {
		for _, index := range [][]int64{{}, {1}, {7}, {2, 3}, {0}, {2, 0, 1}} {
			shape := slices.Concat(in[:axis], index, in[axis+1:])
			at := kerneltest.Sample(dtype.Int64, 3, max(kerneltest.Count(index), 1), 0, 4)
			want := []float64{}
			every(shape, func(c []int64) {
				k := int64(at[place(index, c[axis:axis+len(index)])])
				want = append(want, values[place(in, slices.Concat(c[:axis], []int64{k}, c[axis+len(index):]))])
			})
			for _, l := range kerneltest.Layouts {
				x := kerneltest.New(t, dtype.Float16, l, in, values)
				y := kerneltest.New(t, dtype.Float16, l, shape, nil)
				require.NoError(t, indexing.Lookup(y, x, axis, kerneltest.New(t, dtype.Int32, l, index, at)))
				require.Equal(t, want, kerneltest.Values(y), "axis %d by %v, %v", axis, index, l)
			}
		}
	}
}

var scatterCases = map[indexing.ScatterOp]func(a, x float64) float64{
	indexing.ScatterSet: func(_, x float64) float64 { return x },
	indexing.ScatterAdd: func(a, x float64) float64 { return a + x },
	indexing.ScatterMul: func(a, x float64) float64 { return a * x },
	indexing.ScatterMax: math.Max,
	indexing.ScatterMin: math.Min,
}

// TestScatter compares Scatter with a loop over the elements in every variant, type and layout.
// The number of threads must not matter.
func TestScatter(t *testing.T) {
	into, src := []int64{9, 4, 33}, []int64{8, 3, 30}
	start := kerneltest.Sample(dtype.Int8, 5, kerneltest.Count(into), -2, 3)
	kerneltest.EachVariant(t, func(t *testing.T) {
		for op, f := range scatterCases {
			for axis := range 3 {
				x := kerneltest.Sample(dtype.Int8, 6+axis, kerneltest.Count(src), -2, 3)
				index := make([]float64, kerneltest.Count(src))
				for i := range index {
					index[i] = float64(int64(i*5+i/3) % into[axis])
				}
				want := slices.Clone(start)
				// Elements with the same target are combined in their order along axis.
				every(src, func(at []int64) {
					i := place(src, at)
					to := place(into, replaced(at, axis, int64(index[i])))
					want[to] = f(want[to], x[i])
				})
				for _, d := range []dtype.Type{dtype.Float32, dtype.Float64, dtype.BFloat16, dtype.Int8, dtype.Int64} {
					for _, l := range kerneltest.Layouts {
						kerneltest.Threads(t, 1+axis)
						y := kerneltest.New(t, d, l, into, start)
						at := kerneltest.New(t, dtype.Int64, kerneltest.Contiguous, src, index)
						require.NoError(t, indexing.Scatter(op, y, kerneltest.New(t, d, l, src, x), axis, at))
						rounded := make([]float64, len(want))
						for i, v := range want {
							rounded[i] = kerneltest.Round(d, v)
						}
						require.Equal(t, rounded, kerneltest.Values(y), "%v into %v, %v, axis %d", op, d, l, axis)
					}
				}
			}
		}
	})
}

// TestScatterSumsInFloat checks that sums of 16-bit elements are rounded only once, so that a
// thousand small terms are not lost.
func TestScatterSumsInFloat(t *testing.T) {
	y := kerneltest.New(t, dtype.BFloat16, kerneltest.Contiguous, []int64{1, 1}, []float64{256})
	x := kerneltest.New(t, dtype.BFloat16, kerneltest.Contiguous, []int64{1000, 1}, []float64{0.5})
	at := kerneltest.New(t, dtype.Int64, kerneltest.Contiguous, []int64{1000, 1}, []float64{0})
	require.NoError(t, indexing.Scatter(indexing.ScatterAdd, y, x, 0, at))
	require.Equal(t, []float64{756}, kerneltest.Values(y))
}

func TestPut(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		rank := rapid.IntRange(1, 4).Draw(r, "rank")
		into := rapid.SliceOfN(rapid.Int64Range(1, 5), rank, rank).Draw(r, "into")
		m := rapid.IntRange(1, rank).Draw(r, "indexed")
		shape := rapid.SliceOfN(rapid.Int64Range(0, 4), 1, 2).Draw(r, "index")
		op := rapid.SampledFrom([]indexing.ScatterOp{indexing.ScatterSet, indexing.ScatterAdd}).Draw(r, "op")
		d := rapid.SampledFrom([]dtype.Type{dtype.Float32, dtype.Float16, dtype.Int32}).Draw(r, "dtype")
		l := rapid.SampledFrom(kerneltest.Layouts).Draw(r, "layout")
		n := kerneltest.Count(shape)
		src := slices.Concat(shape, into[m:])
		x, want := kerneltest.Sample(dtype.Int32, 1, max(kerneltest.Count(src), 1), -9, 9), kerneltest.Sample(dtype.Int32, 2, kerneltest.Count(into), -9, 9)
		y := kerneltest.New(t, d, l, into, want)
		indices, at := make([]kernel.View, m), make([][]float64, m)
		for i := range m {
			at[i] = make([]float64, max(n, 1))
			for j := range at[i] {
				at[i][j] = float64(rapid.Int64Range(-into[i], into[i]-1).Draw(r, "place"))
			}
			indices[i] = kerneltest.New(t, dtype.Int32, l, shape, at[i])
		}
		rest := into[m:]
		for j := range n {
			to := make([]int64, m)
			for i := range m {
				to[i] = (int64(at[i][j]) + into[i]) % into[i]
			}
			every(rest, func(c []int64) {
				p := place(into, slices.Concat(to, c))
				want[p] = scatterCases[op](want[p], x[int64(j)*int64(kerneltest.Count(rest))+place(rest, c)])
			})
		}
		require.NoError(r, indexing.Put(op, y, kerneltest.New(t, d, l, src, x), indices))
		require.Equal(r, want, kerneltest.Values(y))
	})
}

func TestEmbeddingGrad(t *testing.T) {
	const rows, width = 7, 40
	index := []float64{3, 0, 3, 6, 3, 0, 5, 5, 2, 1, 3, 6}
	grad := kerneltest.Sample(dtype.BFloat16, 1, len(index)*width, -1, 1)
	for _, byFrequency := range []bool{false, true} {
		for _, padding := range []int64{-1, 3, 100} {
			want, counts := make([]float64, rows*width), make([]float64, rows)
			for i, k := range index {
				counts[int(k)]++
				for j := range width {
					want[int(k)*width+j] += grad[i*width+j]
				}
			}
			for i := range want {
				if k := i / width; int64(k) == padding {
					want[i] = 0
				} else if byFrequency {
					want[i] /= max(counts[k], 1)
				}
			}
			for _, d := range []dtype.Type{dtype.Float32, dtype.BFloat16} {
				for _, l := range kerneltest.Layouts {
					out := kerneltest.New(t, d, l, []int64{rows, width}, nil)
					g := kerneltest.New(t, d, l, []int64{3, 4, width}, grad)
					at := kerneltest.New(t, dtype.Int64, l, []int64{3, 4}, index)
					require.NoError(t, indexing.EmbeddingGrad(out, g, at, padding, byFrequency))
					kerneltest.Within(t, d, 8, want, kerneltest.Values(out), fmt.Sprintf("%v %v", d, l))
				}
			}
		}
	}
}

func TestOrder(t *testing.T) {
	shape := []int64{3, 50, 2}
	for _, d := range append(slices.Clone(kerneltest.Integers), kerneltest.Floats...) {
		x := kerneltest.Sample(d, 9, kerneltest.Count(shape), -20, 20)
		if d.IsFloat() {
			x[7], x[40], x[41] = math.NaN(), math.Inf(1), math.Inf(-1)
		}
		for axis := range 3 {
			for _, descending := range []bool{false, true} {
				for _, k := range []int64{0, 1, 5, 40, shape[axis]} {
					k = min(k, shape[axis])
					out := replaced(shape, axis, k)
					want := make([]float64, kerneltest.Count(out))
					every(replaced(shape, axis, 1), func(at []int64) {
						line := make([]int64, shape[axis])
						for i := range line {
							line[i] = int64(i)
						}
						slices.SortStableFunc(line, func(i, j int64) int {
							a, b := x[place(shape, replaced(at, axis, i))], x[place(shape, replaced(at, axis, j))]
							c := 0
							switch {
							case math.IsNaN(a) && math.IsNaN(b) || a == b:
							case math.IsNaN(a) || a > b:
								c = 1
							default:
								c = -1
							}
							if descending {
								return -c
							}
							return c
						})
						for i := range k {
							want[place(out, replaced(at, axis, i))] = float64(line[i])
						}
					})
					for _, l := range []kerneltest.Layout{kerneltest.Contiguous, kerneltest.Transposed} {
						at := kerneltest.New(t, dtype.Int32, l, out, nil)
						require.NoError(t, indexing.Order(at, kerneltest.New(t, d, l, shape, x), axis, descending))
						require.Equal(t, want, kerneltest.Values(at), "%v axis %d, first %d, descending %v", d, axis, k, descending)
					}
				}
			}
		}
	}
}

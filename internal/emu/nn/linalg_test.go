package nn

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// timesOf is a [m, k] times b [k, n].
func timesOf(a, b []float64, k int) []float64 {
	m, n := len(a)/k, len(b)/k
	out := make([]float64, m*n)
	for i := range m {
		for j := range n {
			for l := range k {
				out[i*n+j] += a[i*k+l] * b[l*n+j]
			}
		}
	}
	return out
}

// turned is the transpose of a matrix of rows of n.
func turned(a []float64, n int) []float64 {
	out := make([]float64, len(a))
	for i := range a {
		out[i%n*(len(a)/n)+i/n] = a[i]
	}
	return out
}

// orthonormal asserts that the columns of q, n of them, are.
func orthonormal(t *testing.T, what string, q []float64, n int, limit float64) {
	t.Helper()
	for i, v := range timesOf(turned(q, n), q, len(q)/n) {
		want := 0.0
		if i/n == i%n {
			want = 1
		}
		require.InDelta(t, want, v, limit, what)
	}
}

var matrixShapes = [][]int64{{1, 1}, {3, 3}, {5, 3}, {2, 6}, {1, 4}, {4, 1}}

func TestQR(t *testing.T) {
	for _, d := range qrTypes {
		for _, l := range kerneltest.Layouts {
			for _, shape := range matrixShapes {
				for mode := range 3 {
					what := fmt.Sprintf("%v %v %v mode %d", d, l, shape, mode)
					rows, cols := shape[0], shape[1]
					k := min(rows, cols)
					if mode == 1 {
						k = rows
					}
					a := filled(t, 1, d, l, append([]int64{2}, shape...))
					q, r := tensorIn(t, d, l, []int64{2, rows, k}), tensorIn(t, d, l, []int64{2, k, cols}, 9)
					run(t, "LinalgQr", args{"self": a, "mode": mode, "Q": q, "R": r})
					limit := 4 * resultLimit(d)
					for b := range 2 {
						as, rs := values(a)[b*int(rows*cols):][:rows*cols], values(r)[b*int(k*cols):][:k*cols]
						for i, v := range rs {
							if int64(i)/cols > int64(i)%cols {
								require.Zero(t, v, what)
							}
						}
						if mode == 2 {
							continue
						}
						qs := values(q)[b*int(rows*k):][:rows*k]
						orthonormal(t, what, qs, int(k), limit)
						closeTo(t, what, as, timesOf(qs, rs, int(k)), limit)
					}
					if mode == 0 {
						again := tensor(t, d, r.Shape)
						run(t, "Qr", args{"self": a, "some": true, "Q": q, "R": again})
						assert.Equal(t, values(r), values(again))
					}
				}
			}
		}
	}
	f := dtype.Float32
	a := tensor(t, f, []int64{2, 2}, 1, 2, 3, 4)
	q, r := tensor(t, f, []int64{2, 2}), tensor(t, f, []int64{2, 2})
	run(t, "LinalgQr", args{"self": a, "Q": q, "R": r})
	closeTo(t, "the signs of LAPACK", []float64{-3.1623, -4.4272, 0, -.6325}, values(r), 1e-4)
	refused(t, invalidParam, "LinalgQr", args{"self": a, "mode": 3, "Q": q, "R": r}, "mode 3")
	refused(t, invalidParam, "LinalgQr", args{"self": tensor(t, f, []int64{2, 3}, 1), "Q": q, "R": r}, "R float32[2,2]")
	refused(t, invalidParam, "Qr", args{"self": tensor(t, dtype.Int32, []int64{2, 2}, 1), "Q": q, "R": r}, "int32")
}

func TestSVD(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Float32, dtype.Float64} {
		for _, l := range kerneltest.Layouts {
			for _, shape := range matrixShapes {
				for _, full := range []bool{false, true} {
					what := fmt.Sprintf("%v %v %v full %v", d, l, shape, full)
					rows, cols := shape[0], shape[1]
					k := min(rows, cols)
					left, right := k, k
					if full {
						left, right = rows, cols
					}
					a := filled(t, 1, d, l, shape)
					if rows == 5 { // of rank two
						as := values(a)
						for i := range 5 {
							as[i*3+2] = as[i*3] - as[i*3+1]
						}
						a = tensorIn(t, d, l, shape, as...)
					}
					sigma, u, v := tensor(t, d, []int64{k}), tensorIn(t, d, l, []int64{rows, left}), tensorIn(t, d, l, []int64{cols, right})
					run(t, "Svd", args{"input": a, "fullMatrices": full, "computeUV": true, "sigma": sigma, "u": u, "v": v})
					s, us, vs := values(sigma), values(u), values(v)
					orthonormal(t, what, us, int(left), 1e-5)
					orthonormal(t, what, vs, int(right), 1e-5)
					scaled := make([]float64, rows*k)
					for i := range scaled {
						scaled[i] = us[int64(i)/k*left+int64(i)%k] * s[int64(i)%k]
						if i > 0 && int64(i) < k {
							require.LessOrEqual(t, s[i], s[i-1], what)
						}
					}
					first := make([]float64, cols*k)
					for i := range first {
						first[i] = vs[int64(i)/k*right+int64(i)%k]
					}
					closeTo(t, what, values(a), timesOf(scaled, turned(first, int(k)), int(k)), 1e-5)
					only := tensor(t, d, []int64{k})
					run(t, "Svd", args{"input": a, "sigma": only, "u": u, "v": v})
					assert.Equal(t, s, values(only))
				}
			}
		}
	}
	x := tensor(t, dtype.Float32, []int64{2, 2}, 1)
	refused(t, invalidParam, "Svd", args{"input": x, "computeUV": true, "sigma": tensor(t, dtype.Float32, []int64{3}), "u": x, "v": x}, "singular values")
}

func TestDeterminants(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Float32, dtype.Float64} {
		for _, l := range kerneltest.Layouts {
			a := tensorIn(t, d, l, []int64{4, 2, 2}, 1, 2, 3, 4, 0, 2, -3, 0, 2, 4, 1, 2, 5, 1, 1, 1)
			sign, log, only := tensor(t, d, []int64{4}), tensor(t, d, []int64{4}), tensor(t, d, []int64{4})
			run(t, "Slogdet", args{"self": a, "signOut": sign, "logOut": log})
			assert.Equal(t, []float64{-1, 1, 0, 1}, values(sign))
			closeTo(t, "logarithms", []float64{math.Log(2), math.Log(6)}, values(log)[:2], 1e-6)
			assert.True(t, math.IsInf(values(log)[2], -1))
			run(t, "Logdet", args{"self": a, "out": only})
			assert.True(t, math.IsNaN(values(only)[0]))
			closeTo(t, "logarithms", []float64{math.Log(4)}, values(only)[3:], 1e-6)
			refused(t, invalidParam, "Slogdet", args{"self": a, "signOut": sign, "logOut": a}, "logOut")
		}
	}
	none := tensor(t, dtype.Float32, []int64{2, 0, 0})
	log := tensor(t, dtype.Float32, []int64{2}, 9)
	run(t, "Logdet", args{"self": none, "out": log})
	assert.Equal(t, []float64{0, 0}, values(log), "the determinant of nothing is one")
	refused(t, invalidParam, "Logdet", args{"self": tensor(t, dtype.Float32, []int64{2, 3}, 1), "out": log}, "square")
}

func TestCholesky(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Float32, dtype.Float64} {
		for _, l := range kerneltest.Layouts {
			for _, upper := range []bool{false, true} {
				root := []float64{2, 0, 0, 1, 3, 0, -1, .5, 1.5}
				a, out := tensorIn(t, d, l, []int64{3, 3}, timesOf(root, turned(root, 3), 3)...), tensorIn(t, d, l, []int64{3, 3})
				want := root
				if upper {
					want = turned(root, 3)
				}
				run(t, "LinalgCholesky", args{"self": a, "upper": upper, "out": out})
				closeTo(t, fmt.Sprintf("%v %v upper %v", d, l, upper), want, values(out), 1e-6)
			}
		}
	}
	a := tensor(t, dtype.Float32, []int64{2, 2}, 1, 2, 2, 1)
	require.ErrorContains(t, execute(t, "LinalgCholesky", args{"self": a, "out": tensor(t, dtype.Float32, []int64{2, 2})}), "not positive definite")
}

func TestInverse(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Float32, dtype.Float64, dtype.Float16} {
		for _, l := range kerneltest.Layouts {
			for _, n := range []int64{0, 1, 2, 5} {
				a, out := filled(t, 3, d, l, []int64{2, n, n}), tensorIn(t, d, l, []int64{2, n, n})
				run(t, "Inverse", args{"self": a, "out": out})
				for b := range 2 {
					if n == 0 {
						continue
					}
					k := int(n * n)
					product := timesOf(values(a)[b*k:][:k], values(out)[b*k:][:k], int(n))
					for i, v := range product {
						want := 0.0
						if int64(i)/n == int64(i)%n {
							want = 1
						}
						require.InDelta(t, want, v, 40*resultLimit(d), "%v %v %d", d, l, n)
					}
				}
			}
		}
	}
	a := tensor(t, dtype.Float32, []int64{2, 2}, 0, 1, 2, 3) // needs a pivot
	out := tensor(t, dtype.Float32, []int64{2, 2})
	run(t, "Inverse", args{"self": a, "out": out})
	closeTo(t, "inverse", []float64{-1.5, .5, 1, 0}, values(out), 1e-6)
	require.ErrorContains(t, execute(t, "Inverse", args{"self": tensor(t, dtype.Float32, []int64{2, 2}, 1), "out": out}), "singular")
}

package linalg

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// orthonormal asserts that the n columns of q are orthonormal.
func orthonormal(t *testing.T, what string, q []float64, n int, limit float64) {
	t.Helper()
	for i, v := range optest.Times(optest.Transposed(q, n), q, len(q)/n) {
		want := 0.0
		if i/n == i%n {
			want = 1
		}
		require.InDelta(t, want, v, limit, what)
	}
}

var matrixShapes = [][]int64{{1, 1}, {3, 3}, {5, 3}, {2, 6}, {1, 4}, {4, 1}}

func TestQR(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Float32, dtype.Float64, dtype.Float16} {
		for _, l := range kerneltest.Layouts {
			for _, shape := range matrixShapes {
				for mode := range 3 {
					what := fmt.Sprintf("%v %v %v mode %d", d, l, shape, mode)
					rows, cols := shape[0], shape[1]
					k := min(rows, cols)
					if mode == 1 {
						k = rows
					}
					a := optest.Filled(t, 1, d, l, append([]int64{2}, shape...))
					q, r := optest.TensorIn(t, d, l, []int64{2, rows, k}), optest.TensorIn(t, d, l, []int64{2, k, cols}, 9)
					if mode == 2 {
						q = optest.Tensor(t, d, []int64{0})
					}
					optest.Run(t, "LinalgQr", optest.Args{"self": a, "mode": mode, "Q": q, "R": r})
					limit := 4 * optest.ResultLimit(d)
					for b := range 2 {
						as, rs := optest.Values(a)[b*int(rows*cols):][:rows*cols], optest.Values(r)[b*int(k*cols):][:k*cols]
						for i, v := range rs {
							if int64(i)/cols > int64(i)%cols {
								require.Zero(t, v, what)
							}
						}
						if mode == 2 {
							continue
						}
						qs := optest.Values(q)[b*int(rows*k):][:rows*k]
						orthonormal(t, what, qs, int(k), limit)
						optest.CloseTo(t, what, as, optest.Times(qs, rs, int(k)), limit)
					}
					if mode == 0 {
						again := optest.Tensor(t, d, r.Shape)
						optest.Run(t, "Qr", optest.Args{"self": a, "some": true, "Q": q, "R": again})
						assert.Equal(t, optest.Values(r), optest.Values(again))
					}
				}
			}
		}
	}
	f := dtype.Float32
	a := optest.Tensor(t, f, []int64{2, 2}, 1, 2, 3, 4)
	q, r := optest.Tensor(t, f, []int64{2, 2}), optest.Tensor(t, f, []int64{2, 2})
	optest.Run(t, "LinalgQr", optest.Args{"self": a, "Q": q, "R": r})
	optest.CloseTo(t, "the signs of LAPACK", []float64{-3.1623, -4.4272, 0, -.6325}, optest.Values(r), 1e-4)
	optest.Refused(t, op.InvalidParam, "LinalgQr", optest.Args{"self": a, "mode": 3, "Q": q, "R": r}, "mode 3")
	optest.Refused(t, op.InvalidParam, "LinalgQr", optest.Args{"self": optest.Tensor(t, f, []int64{2, 3}, 1), "Q": q, "R": r}, "R float32[2,2]")
	optest.Refused(t, op.InvalidParam, "Qr", optest.Args{"self": optest.Tensor(t, dtype.Int32, []int64{2, 2}, 1), "Q": q, "R": r}, "int32")
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
					a := optest.Filled(t, 1, d, l, shape)
					if rows == 5 { // a matrix of rank two
						as := optest.Values(a)
						for i := range 5 {
							as[i*3+2] = as[i*3] - as[i*3+1]
						}
						a = optest.TensorIn(t, d, l, shape, as...)
					}
					sigma, u, v := optest.Tensor(t, d, []int64{k}), optest.TensorIn(t, d, l, []int64{rows, left}), optest.TensorIn(t, d, l, []int64{cols, right})
					optest.Run(t, "Svd", optest.Args{"input": a, "fullMatrices": full, "computeUV": true, "sigma": sigma, "u": u, "v": v})
					s, us, vs := optest.Values(sigma), optest.Values(u), optest.Values(v)
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
					optest.CloseTo(t, what, optest.Values(a), optest.Times(scaled, optest.Transposed(first, int(k)), int(k)), 1e-5)
					only := optest.Tensor(t, d, []int64{k})
					optest.Run(t, "Svd", optest.Args{"input": a, "sigma": only, "u": u, "v": v})
					assert.Equal(t, s, optest.Values(only))
				}
			}
		}
	}
	x := optest.Tensor(t, dtype.Float32, []int64{2, 2}, 1)
	optest.Refused(t, op.InvalidParam, "Svd", optest.Args{"input": x, "computeUV": true, "sigma": optest.Tensor(t, dtype.Float32, []int64{3}), "u": x, "v": x}, "singular values")
}

func TestDeterminants(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Float32, dtype.Float64} {
		for _, l := range kerneltest.Layouts {
			a := optest.TensorIn(t, d, l, []int64{4, 2, 2}, 1, 2, 3, 4, 0, 2, -3, 0, 2, 4, 1, 2, 5, 1, 1, 1)
			sign, log, only := optest.Tensor(t, d, []int64{4}), optest.Tensor(t, d, []int64{4}), optest.Tensor(t, d, []int64{4})
			optest.Run(t, "Slogdet", optest.Args{"self": a, "signOut": sign, "logOut": log})
			assert.Equal(t, []float64{-1, 1, 0, 1}, optest.Values(sign))
			optest.CloseTo(t, "logarithms", []float64{math.Log(2), math.Log(6)}, optest.Values(log)[:2], 1e-6)
			assert.True(t, math.IsInf(optest.Values(log)[2], -1))
			optest.Run(t, "Logdet", optest.Args{"self": a, "out": only})
			assert.True(t, math.IsNaN(optest.Values(only)[0]))
			optest.CloseTo(t, "logarithms", []float64{math.Log(4)}, optest.Values(only)[3:], 1e-6)
			optest.Refused(t, op.InvalidParam, "Slogdet", optest.Args{"self": a, "signOut": sign, "logOut": a}, "logOut")
		}
	}
	none := optest.Tensor(t, dtype.Float32, []int64{2, 0, 0})
	log := optest.Tensor(t, dtype.Float32, []int64{2}, 9)
	optest.Run(t, "Logdet", optest.Args{"self": none, "out": log})
	assert.Equal(t, []float64{0, 0}, optest.Values(log), "the determinant of nothing is one")
	optest.Refused(t, op.InvalidParam, "Logdet", optest.Args{"self": optest.Tensor(t, dtype.Float32, []int64{2, 3}, 1), "out": log}, "square")
}

func TestCholesky(t *testing.T) {
	for _, d := range op.FloatTypes {
		for _, l := range kerneltest.Layouts {
			for _, upper := range []bool{false, true} {
				root := []float64{2, 0, 0, 1, 3, 0, -1, .5, 1.5}
				a, out := optest.TensorIn(t, d, l, []int64{3, 3}, optest.Times(root, optest.Transposed(root, 3), 3)...), optest.TensorIn(t, d, l, []int64{3, 3})
				want := root
				if upper {
					want = optest.Transposed(root, 3)
				}
				optest.Run(t, "LinalgCholesky", optest.Args{"self": a, "upper": upper, "out": out})
				optest.CloseTo(t, fmt.Sprintf("%v %v upper %v", d, l, upper), want, optest.Values(out), 4*optest.ResultLimit(d))
			}
		}
	}
	a := optest.Tensor(t, dtype.Float32, []int64{2, 2}, 1, 2, 2, 1)
	require.ErrorContains(t, optest.Execute(t, "LinalgCholesky", optest.Args{"self": a, "out": optest.Tensor(t, dtype.Float32, []int64{2, 2})}), "not positive definite")
}

func TestInverse(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Float32, dtype.Float64, dtype.Float16} {
		for _, l := range kerneltest.Layouts {
			for _, n := range []int64{0, 1, 2, 5} {
				a, out := optest.Filled(t, 3, d, l, []int64{2, n, n}), optest.TensorIn(t, d, l, []int64{2, n, n})
				optest.Run(t, "Inverse", optest.Args{"self": a, "out": out})
				for b := range 2 {
					if n == 0 {
						continue
					}
					k := int(n * n)
					product := optest.Times(optest.Values(a)[b*k:][:k], optest.Values(out)[b*k:][:k], int(n))
					for i, v := range product {
						want := 0.0
						if int64(i)/n == int64(i)%n {
							want = 1
						}
						require.InDelta(t, want, v, 40*optest.ResultLimit(d), "%v %v %d", d, l, n)
					}
				}
			}
		}
	}
	a := optest.Tensor(t, dtype.Float32, []int64{2, 2}, 0, 1, 2, 3) // the leading 0 requires pivoting
	out := optest.Tensor(t, dtype.Float32, []int64{2, 2})
	optest.Run(t, "Inverse", optest.Args{"self": a, "out": out})
	optest.CloseTo(t, "inverse", []float64{-1.5, .5, 1, 0}, optest.Values(out), 1e-6)
	require.ErrorContains(t, optest.Execute(t, "Inverse", optest.Args{"self": optest.Tensor(t, dtype.Float32, []int64{2, 2}, 1), "out": out}), "singular")
}

package linalg

import (
	"math"
	"math/cmplx"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// uneven returns a complex tensor of a shape with values that no symmetry relates.
func uneven(t *testing.T, d dtype.Type, shape ...int64) *op.Tensor {
	t.Helper()
	x := optest.Tensor(t, d, shape)
	values := make([]complex128, x.Len())
	for i := range values {
		f := float64(i)
		values[i] = complex(math.Sin(3*f+1), math.Cos(f*f+f))
	}
	require.NoError(t, x.SetNumbers(values))
	return x
}

// complexValues returns the elements of a tensor as rows of complex matrices.
func complexValues(t *testing.T, x *op.Tensor) []complex128 {
	t.Helper()
	v, err := x.Numbers(x.Shape)
	require.NoError(t, err)
	return v
}

// product multiplies matrices of the given numbers of rows, inner and columns. The second is conjugated
// and transposed first if adjoint.
func product(a, b []complex128, n, k, m int64, adjoint bool) []complex128 {
	out := make([]complex128, n*m)
	for i := range n {
		for j := range m {
			for l := range k {
				if adjoint {
					out[i*m+j] += a[i*k+l] * cmplx.Conj(b[j*k+l])
				} else {
					out[i*m+j] += a[i*k+l] * b[l*m+j]
				}
			}
		}
	}
	return out
}

func closeTo(t *testing.T, want, got []complex128, limit float64) {
	t.Helper()
	require.Len(t, got, len(want))
	for i := range want {
		require.InDelta(t, 0, cmplx.Abs(want[i]-got[i]), limit, "%d: %v, not %v", i, got[i], want[i])
	}
}

func identityOf(n int64) []complex128 {
	out := make([]complex128, n*n)
	for i := range n {
		out[i*n+i] = 1
	}
	return out
}

func TestComplexFactors(t *testing.T) {
	for _, d := range complexTypes {
		for _, shape := range matrixShapes {
			rows, cols := shape[0], shape[1]
			k := min(rows, cols)
			a := uneven(t, d, rows, cols)
			q, r := optest.Tensor(t, d, []int64{rows, rows}), optest.Tensor(t, d, []int64{rows, cols})
			optest.Run(t, "Qr", optest.Args{"self": a, "some": false, "Q": q, "R": r})
			closeTo(t, complexValues(t, a), product(complexValues(t, q), complexValues(t, r), rows, rows, cols, false), 1e-5)
			closeTo(t, identityOf(rows), product(complexValues(t, q), complexValues(t, q), rows, rows, rows, true), 1e-5)
			for i, v := range complexValues(t, r) {
				if int64(i)/cols > int64(i)%cols {
					require.Zero(t, v)
				}
			}

			u, sigma, v := optest.Tensor(t, d, []int64{rows, rows}), optest.Tensor(t, d, []int64{k}), optest.Tensor(t, d, []int64{cols, cols})
			optest.Run(t, "Svd", optest.Args{"input": a, "fullMatrices": true, "computeUV": true, "sigma": sigma, "u": u, "v": v})
			closeTo(t, identityOf(rows), product(complexValues(t, u), complexValues(t, u), rows, rows, rows, true), 1e-5)
			closeTo(t, identityOf(cols), product(complexValues(t, v), complexValues(t, v), cols, cols, cols, true), 1e-5)
			scaled := make([]complex128, rows*cols)
			for i, s := range complexValues(t, sigma) {
				require.Zero(t, imag(s))
				for row := range rows {
					scaled[row*cols+int64(i)] = complexValues(t, u)[row*rows+int64(i)] * s
				}
			}
			closeTo(t, complexValues(t, a), product(scaled, complexValues(t, v), rows, cols, cols, true), 1e-5)
		}
	}
}

func TestComplexDeterminants(t *testing.T) {
	for _, d := range complexTypes {
		a := optest.Tensor(t, d, []int64{2, 2, 2})
		require.NoError(t, a.SetNumbers([]complex128{1i, 2, 3, 4i, 1, 1i, 1i, -1}))
		sign, log, only := optest.Tensor(t, d, []int64{2}), optest.Tensor(t, d, []int64{2}), optest.Tensor(t, d, []int64{2})
		optest.Run(t, "Slogdet", optest.Args{"self": a, "signOut": sign, "logOut": log})
		closeTo(t, []complex128{-1, 0}, complexValues(t, sign), 1e-6)
		assert.InDelta(t, math.Log(10), real(complexValues(t, log)[0]), 1e-6)
		assert.True(t, math.IsInf(real(complexValues(t, log)[1]), -1))
		optest.Run(t, "Logdet", optest.Args{"self": a, "out": only})
		assert.InDelta(t, math.Pi, math.Abs(imag(complexValues(t, only)[0])), 1e-6)
		optest.Refused(t, op.InvalidParam, "Logdet", optest.Args{"self": a, "out": optest.Tensor(t, dtype.Float32, []int64{2})}, "")
	}
	// Results of another type are cast, and there may be many batch dimensions.
	wide := optest.Tensor(t, dtype.Float64, []int64{1})
	optest.Run(t, "Logdet", optest.Args{"self": optest.Tensor(t, dtype.Float32, []int64{1, 1, 1}, 3), "out": wide})
	assert.InDelta(t, math.Log(3), optest.Values(wide)[0], 1e-6)
	deep := optest.Tensor(t, dtype.Float64, []int64{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, 5)
	out := optest.Tensor(t, dtype.Float64, []int64{1, 1, 1, 1, 1, 1, 1, 1})
	optest.Run(t, "Logdet", optest.Args{"self": deep, "out": out})
	assert.InDelta(t, math.Log(5), optest.Values(out)[0], 1e-12)
}

func TestComplexTriangularSolve(t *testing.T) {
	for _, d := range complexTypes {
		for form := range 4 {
			upper, transpose := form&1 != 0, form&2 != 0
			a, b := uneven(t, d, 2, 3, 3), uneven(t, d, 3, 4)
			x := optest.Tensor(t, d, []int64{2, 3, 4})
			optest.Run(t, "TriangularSolve", optest.Args{"self": b, "A": a, "upper": upper, "transpose": transpose, "xOut": x, "mOut": nil})
			for batch := range int64(2) {
				m := make([]complex128, 9)
				for i := range int64(9) {
					row, col := i/3, i%3
					if row != col && upper != (col > row) {
						continue
					}
					v := complexValues(t, a)[batch*9+i]
					if transpose {
						m[col*3+row] = cmplx.Conj(v)
					} else {
						m[i] = v
					}
				}
				closeTo(t, complexValues(t, b), product(m, complexValues(t, x)[batch*12:][:12], 3, 3, 4, false), 1e-4)
			}
		}
	}
}

// A positive dim counts in self, before broadcasting adds dimensions.
func TestCrossOfFewerDimensions(t *testing.T) {
	self, other := optest.Tensor(t, dtype.Float32, []int64{1, 1, 3}, 1, 0, 0), optest.Tensor(t, dtype.Float32, []int64{1, 1, 1, 3}, 0, 1, 0)
	out := optest.Tensor(t, dtype.Float32, []int64{1, 1, 1, 3})
	optest.Run(t, "LinalgCross", optest.Args{"self": self, "other": other, "dim": 2, "out": out})
	assert.Equal(t, []float64{0, 0, 1}, optest.Values(out))
	none := optest.Tensor(t, dtype.Float32, []int64{1, 1, 0, 3})
	optest.Run(t, "LinalgCross", optest.Args{"self": optest.Tensor(t, dtype.Float32, []int64{1, 0, 3}), "other": none, "dim": 2, "out": none})
}

func TestComplexTraceAndCross(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Complex64, dtype.Complex128} {
		for _, shape := range [][]int64{{3, 5}, {4, 2}, {0, 3}} {
			m, out, want := uneven(t, d, shape...), optest.Tensor(t, d, []int64{}), complex128(0)
			for i, v := range complexValues(t, m) {
				if int64(i)/shape[1] == int64(i)%shape[1] {
					want += v
				}
			}
			optest.Run(t, "Trace", optest.Args{"self": m, "out": out})
			closeTo(t, []complex128{want}, complexValues(t, out), 1e-6)
		}
		a, b, out := uneven(t, d, 2, 3), optest.Tensor(t, d, []int64{1, 3}), optest.Tensor(t, d, []int64{2, 3})
		require.NoError(t, b.SetNumbers([]complex128{1, 2i, complex(3, -1)}))
		x, y := complexValues(t, a), complexValues(t, b)
		var want []complex128
		for r := 0; r < 6; r += 3 {
			want = append(want, x[r+1]*y[2]-x[r+2]*y[1], x[r+2]*y[0]-x[r]*y[2], x[r]*y[1]-x[r+1]*y[0])
		}
		optest.Run(t, "LinalgCross", optest.Args{"self": a, "other": b, "dim": -1, "out": out})
		closeTo(t, want, complexValues(t, out), 1e-6)
	}
}

package fft_test

import (
	"context"
	"fmt"
	"math"
	"math/cmplx"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn/fft"
	"github.com/goascend/cann/internal/abi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(acltest.Suite{M: m}) }

func stream(t testing.TB) *acl.Stream {
	return acltest.Stream(t, acltest.Device(t, acltest.Open(t), 0))
}

func noise(n int) []complex64 {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	x := make([]complex64, n)
	for i := range x {
		x[i] = complex(float32(r.NormFloat64()), float32(r.NormFloat64()))
	}
	return x
}

// dft is the definition: n sums of n products in float64, at a few places only when there are many.
func dft(x []complex64, sign float64, each func(k int, sum complex128)) {
	n := len(x)
	step := max(1, n/64)
	for k := 0; k < n; k += step {
		var sum complex128
		for j, v := range x {
			sum += complex128(v) * cmplx.Rect(1, sign*2*math.Pi*float64(j*k%n)/float64(n))
		}
		each(k, sum)
	}
}

// near compares with a sum of n numbers of size one.
func near(t *testing.T, want complex128, got complex64, n int, format string, args ...any) {
	t.Helper()
	if d := cmplx.Abs(want - complex128(got)); d > 1e-6*math.Sqrt(float64(n))*4 {
		assert.Failf(t, "another value", "%s: %v, want %v", fmt.Sprintf(format, args...), got, want)
	}
}

// lengths are all up to 64, primes, powers and products.
func lengths(most int, fits func(n int) bool) (all []int) {
	for n := range most + 1 {
		if n > 0 && fits(n) && (n <= 64 || n%37 == 0 || n >= most-2 || n&(n-1) == 0 || prime(n) && n%7 == 1) {
			all = append(all, n)
		}
	}
	return all
}

func prime(n int) bool {
	for p := 2; p*p <= n; p++ {
		if n%p == 0 {
			return false
		}
	}
	return n > 1
}

func complexRows(t *testing.T, st *acl.Stream, n, batch int) {
	x := noise(n * batch)
	y := make([]complex64, len(x))
	p, err := fft.Plan1D(st, fft.ComplexToComplex, n, batch, fft.Rows)
	require.NoError(t, err)
	defer p.Close()
	for sign, direction := range map[float64]fft.Direction{-1: fft.Forward, 1: fft.Backward} {
		require.NoError(t, p.ComplexToComplex(t.Context(), y, x, direction))
		for b := range batch {
			dft(x[b*n:][:n], sign, func(k int, sum complex128) { near(t, sum, y[b*n+k], n, "n %d, batch %d, k %d", n, b, k) })
		}
	}
}

func realRows(t *testing.T, st *acl.Stream, n, batch int, back bool) {
	m := n/2 + 1
	x, y := make([]float32, n*batch), make([]complex64, m*batch)
	wide := make([]complex64, n*batch)
	for i, v := range noise(n * batch) {
		x[i], wide[i] = real(v), complex(real(v), 0)
	}
	p, err := fft.Plan1D(st, fft.RealToComplex, n, batch, fft.Rows)
	require.NoError(t, err)
	defer p.Close()
	require.NoError(t, p.RealToComplex(t.Context(), y, x))
	for b := range batch {
		dft(wide[b*n:][:n], -1, func(k int, sum complex128) {
			if k < m {
				near(t, sum, y[b*m+k], n, "real n %d, batch %d, k %d", n, b, k)
			}
		})
	}
	if !back {
		return
	}
	q, err := fft.Plan1D(st, fft.ComplexToReal, n, batch, fft.Rows)
	require.NoError(t, err)
	defer q.Close()
	z := make([]float32, n*batch)
	require.NoError(t, q.ComplexToReal(t.Context(), z, y))
	for i, v := range x {
		assert.InDelta(t, float64(v), float64(z[i])/float64(n), 1e-5, "back, n %d, %d", n, i)
	}
}

func TestRows(t *testing.T) {
	st := stream(t)
	for _, n := range lengths(2048, func(n int) bool { return n <= 256 || n&(n-1) == 0 }) {
		complexRows(t, st, n, 1)
	}
	for _, batch := range []int{2, 3, 17} {
		for _, n := range []int{1, 7, 64, 97, 251, 512} {
			complexRows(t, st, n, batch)
		}
	}
	for _, n := range lengths(1024, func(int) bool { return true }) {
		realRows(t, st, n, 1, true)
	}
	realRows(t, st, 97, 5, true)
	realRows(t, st, 1000, 3, true)
	// The library works in its input for such lengths; the caller's stays as it was.
	x := noise(32768)
	before := append([]complex64(nil), x...)
	p, err := fft.Plan1D(st, fft.ComplexToComplex, len(x), 1, fft.Rows)
	require.NoError(t, err)
	defer p.Close()
	y := make([]complex64, len(x))
	require.NoError(t, p.ComplexToComplex(t.Context(), y, x, fft.Forward))
	assert.Equal(t, before, x)
	dft(x, -1, func(k int, sum complex128) { near(t, sum, y[k], len(x), "k %d", k) })
	require.NoError(t, p.ComplexToComplex(t.Context(), x, x, fft.Forward), "in place")
	assert.Equal(t, y, x)
}

func TestColumns(t *testing.T) {
	st := stream(t)
	for _, n := range []int{256, 512, 2048} {
		for _, columns := range []int{2, 5} {
			x := noise(n * columns)
			y := make([]complex64, len(x))
			p, err := fft.Plan1D(st, fft.ComplexToComplex, n, columns, fft.Columns)
			require.NoError(t, err)
			defer p.Close()
			require.NoError(t, p.ComplexToComplex(t.Context(), y, x, fft.Forward))
			for c := range columns {
				column := make([]complex64, n)
				for i := range column {
					column[i] = x[i*columns+c]
				}
				dft(column, -1, func(k int, sum complex128) { near(t, sum, y[k*columns+c], n, "column %d of %d, k %d", c, columns, k) })
			}
		}
	}
	const rows, columns, batch = 32, 64, 2
	x := noise(rows * columns * batch)
	y := make([]complex64, len(x))
	p, err := fft.Plan2D(st, rows, columns, batch)
	require.NoError(t, err)
	defer p.Close()
	require.NoError(t, p.ComplexToComplex(t.Context(), y, x, fft.Backward))
	for _, at := range [][3]int{{0, 0, 0}, {0, 5, 63}, {1, 31, 1}, {1, 17, 40}} {
		var sum complex128
		for r := range rows {
			for c := range columns {
				angle := 2 * math.Pi * (float64(r*at[1])/rows + float64(c*at[2])/columns)
				sum += complex128(x[(at[0]*rows+r)*columns+c]) * cmplx.Rect(1, angle)
			}
		}
		near(t, sum, y[(at[0]*rows+at[1])*columns+at[2]], rows*columns, "2D %v", at)
	}
}

func TestAscend950(t *testing.T) { acltest.Rerun(t, ascend950, "CANN_EMU_SOC=Ascend950") }

func ascend950(t *testing.T) {
	st := stream(t)
	for _, n := range []int{257 - 1 + 4, 2048, 1000, 47 * 43, 3 * 5 * 7 * 11} {
		complexRows(t, st, n, 2)
	}
	for _, n := range []int{1, 2, 97, 2039, 2048, 4093} {
		realRows(t, st, n, 2, false)
	}
	realRows(t, st, 1155, 2, true)
	for _, refused := range []func() (*fft.Plan, error){
		func() (*fft.Plan, error) { return fft.Plan1D(st, fft.ComplexToComplex, 256, 1, fft.Rows) },
		func() (*fft.Plan, error) { return fft.Plan1D(st, fft.ComplexToComplex, 1009, 1, fft.Rows) },
		func() (*fft.Plan, error) { return fft.Plan1D(st, fft.ComplexToComplex, 512, 4, fft.Columns) },
		func() (*fft.Plan, error) { return fft.Plan1D(st, fft.ComplexToReal, 1024, 1, fft.Rows) },
		func() (*fft.Plan, error) { return fft.Plan2D(st, 32, 32, 1) },
	} {
		_, err := refused()
		require.ErrorIs(t, err, acl.ErrNotSupported)
	}
}

// TestEverySize transforms 1 to 2048 numbers, alone, in batches and along columns, on each chip. A plan is refused only
// as not supported by the chip, and the chips together have every size.
func TestEverySize(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes")
	}
	for _, soc := range []string{"Ascend910B1", "Ascend950"} {
		t.Run(soc, func(t *testing.T) { acltest.Rerun(t, everySize, "CANN_EMU_SOC="+soc) })
	}
}

// row is one of several transforms: place i of n is at first + i step.
type row struct{ n, first, step int }

// spectrum compares a transform with float64: at each place up to 256 numbers, else at 64 of them, up to most.
func (r row) spectrum(t *testing.T, sign float64, most int, x func(i int) complex128, y []complex64, what string) {
	t.Helper()
	roots := make([]complex128, r.n)
	for i := range roots {
		roots[i] = cmplx.Rect(1, sign*2*math.Pi*float64(i)/float64(r.n))
	}
	step := 1
	if r.n > 256 {
		step = r.n/64 | 1 // an odd step meets odd and even places
	}
	for k := 0; k < most; k += step {
		var sum complex128
		for i := range r.n {
			sum += x(i) * roots[i*k%r.n]
		}
		near(t, sum, y[r.first+k*r.step], r.n, "%s, n %d, k %d", what, r.n, k)
	}
}

func everySize(t *testing.T) {
	st := stream(t)
	computed := map[string]int{}
	plan := func(kind fft.Kind, n, batch int, layout fft.Layout) *fft.Plan {
		p, err := fft.Plan1D(st, kind, n, batch, layout)
		if err != nil {
			require.ErrorIs(t, err, acl.ErrNotSupported)
			return nil
		}
		t.Cleanup(func() { assert.NoError(t, p.Close()) })
		computed[fmt.Sprintf("%v batch %d layout %d", kind, batch, layout)]++
		return p
	}
	for n := 1; n <= 2048; n++ {
		for _, batch := range []int{1, 3} {
			x := noise(n * batch)
			for _, layout := range []fft.Layout{fft.Rows, fft.Columns} {
				p := plan(fft.ComplexToComplex, n, batch, layout)
				if p == nil {
					continue
				}
				for sign, direction := range map[float64]fft.Direction{-1: fft.Forward, 1: fft.Backward} {
					y := make([]complex64, len(x))
					require.NoError(t, p.ComplexToComplex(t.Context(), y, x, direction))
					for b := range batch {
						r := row{n, b * n, 1}
						if layout == fft.Columns {
							r = row{n, b, batch}
						}
						r.spectrum(t, sign, n, func(i int) complex128 { return complex128(x[r.first+i*r.step]) }, y, fmt.Sprintf("C2C batch %d layout %d", batch, layout))
					}
				}
			}
			half := n/2 + 1
			real32 := make([]float32, len(x))
			for i, v := range x {
				real32[i] = real(v)
			}
			spectra := make([]complex64, half*batch)
			p := plan(fft.RealToComplex, n, batch, fft.Rows)
			if p == nil {
				continue
			}
			require.NoError(t, p.RealToComplex(t.Context(), spectra, real32))
			for b := range batch {
				row{n, b * half, 1}.spectrum(t, -1, half, func(i int) complex128 { return complex(float64(real32[b*n+i]), 0) }, spectra, fmt.Sprintf("R2C batch %d", batch))
			}
			if q := plan(fft.ComplexToReal, n, batch, fft.Rows); q != nil {
				back := make([]float32, len(x))
				require.NoError(t, q.ComplexToReal(t.Context(), back, spectra))
				for i, v := range real32 {
					require.InDelta(t, float64(v), float64(back[i])/float64(n), 1e-5, "C2R of %d, batch %d, %d", n, batch, i)
				}
			}
		}
	}
	smooth := map[bool]int{} // sizes without a prime factor above 47, by whether they are above 1024
	for n := 257; n <= 2048; n++ {
		largest := 0
		for p := 2; p <= n; p++ {
			if n%p == 0 && prime(p) {
				largest = p
			}
		}
		if largest <= 47 {
			smooth[n > 1024]++
		}
	}
	want := map[string]int{}
	for _, batch := range []int{1, 3} {
		counts := []int{256 + 3, 4, 1024, 1024} // Atlas A2: up to 256 and powers of two
		if os.Getenv("CANN_EMU_SOC") == "Ascend950" {
			counts = []int{smooth[false] + smooth[true], 0, 2048, smooth[true]}
		}
		for i, name := range []string{"C2C batch %d layout 0", "C2C batch %d layout 1", "R2C batch %d layout 0", "C2R batch %d layout 0"} {
			if counts[i] > 0 {
				want[fmt.Sprintf(name, batch)] = counts[i]
			}
		}
	}
	require.Equal(t, want, computed)
}

func TestErrors(t *testing.T) {
	st := stream(t)
	plan := func(kind fft.Kind, n, batch int, layout fft.Layout) error {
		p, err := fft.Plan1D(st, kind, n, batch, layout)
		if err == nil {
			require.NoError(t, p.Close())
		}
		return err
	}
	for want, errs := range map[error][]error{
		acl.ErrInvalidArgument: {
			plan(fft.ComplexToComplex, 0, 1, fft.Rows), plan(fft.ComplexToComplex, 8, -1, fft.Rows), plan(0, 8, 1, fft.Rows),
			plan(fft.ComplexToComplex, 8, 1, 2),
		},
		acl.ErrNotSupported: {
			plan(fft.ComplexToComplex, 257, 1, fft.Rows), plan(fft.ComplexToComplex, 128, 4, fft.Columns),
			plan(fft.RealToComplex, 1025, 1, fft.Rows), plan(fft.ComplexToReal, 1025, 1, fft.Rows), plan(fft.RealToComplex, 256, 2, fft.Columns),
		},
	} {
		for i, err := range errs {
			assert.ErrorIs(t, err, want, "%v %d", want, i)
			assert.ErrorContains(t, err, "fft.Plan1D(", "%v %d", want, i)
		}
	}
	_, err := fft.Plan1D(nil, fft.ComplexToComplex, 8, 1, fft.Rows)
	require.ErrorIs(t, err, acl.ErrInvalidArgument)
	_, err = fft.Plan2D(st, 32, 48, 1)
	require.ErrorIs(t, err, acl.ErrNotSupported)

	p, err := fft.Plan1D(st, fft.RealToComplex, 8, 2, fft.Rows)
	require.NoError(t, err)
	ctx := t.Context()
	x, y := make([]float32, 16), make([]complex64, 10)
	require.ErrorIs(t, p.RealToComplex(ctx, y[:9], x), acl.ErrInvalidArgument)
	require.ErrorIs(t, p.RealToComplex(ctx, y, x[:8]), acl.ErrInvalidArgument)
	require.ErrorIs(t, p.ComplexToReal(ctx, x, y), acl.ErrInvalidArgument, "a plan of another kind")
	ended, end := context.WithCancel(ctx)
	end()
	require.ErrorIs(t, p.RealToComplex(ended, y, x), context.Canceled)
	require.NoError(t, p.Close())
	require.NoError(t, p.Close())
	require.ErrorIs(t, p.RealToComplex(ctx, y, x), acl.ErrClosed)
	require.NoError(t, (*fft.Plan)(nil).Close())
	require.ErrorIs(t, (*fft.Plan)(nil).RealToComplex(ctx, y, x), acl.ErrInvalidArgument)

	// A stream that was closed meanwhile.
	own, err := st.Device().NewStream()
	require.NoError(t, err)
	p, err = fft.Plan1D(own, fft.RealToComplex, 8, 2, fft.Rows)
	require.NoError(t, err)
	require.NoError(t, own.Close())
	require.ErrorIs(t, p.RealToComplex(ctx, y, x), acl.ErrClosed)
	require.NoError(t, p.Close())
}

// The library's own code reaches the caller.
func TestCode(t *testing.T) { acltest.Faults(t, "aclfftExecR2C:1=6", code) }

func code(t *testing.T) {
	st := stream(t)
	p, err := fft.Plan1D(st, fft.RealToComplex, 8, 1, fft.Rows)
	require.NoError(t, err)
	defer p.Close()
	var e *fft.Error
	require.ErrorAs(t, p.RealToComplex(t.Context(), make([]complex64, 5), make([]float32, 8)), &e)
	assert.EqualValues(t, abi.ACLFFT_EXEC_FAILED, e.Code)
	require.NoError(t, p.RealToComplex(t.Context(), make([]complex64, 5), make([]float32, 8)))
}

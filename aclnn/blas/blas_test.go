package blas_test

import (
	"fmt"
	"math"
	"math/cmplx"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/aclnn/blas"
	"github.com/goascend/cann/aclnn/half"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(acltest.Suite{M: m}) }

// bench holds a stream with a handle, and draws numbers.
type bench struct {
	*testing.T
	st *acl.Stream
	h  *blas.Handle
	r  *rand.Rand
}

func open(t *testing.T) *bench {
	st := acltest.Stream(t, acltest.Device(t, acltest.Open(t), 0))
	h, err := blas.New(st)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.Close()) })
	return &bench{t, st, h, rand.New(rand.NewPCG(7, 11))}
}

// wide holds the values of an operand in complex128, and the element type to which they are rounded.
type wide struct {
	dt aclnn.DType
	x  []complex128
}

func (b *bench) noise(dt aclnn.DType, n int) wide {
	w := wide{dt, make([]complex128, n)}
	for i := range w.x {
		im := 0.0
		if dt == aclnn.Complex64 {
			im = b.r.NormFloat64()
		}
		w.x[i] = rounded(dt, complex(b.r.NormFloat64(), im))
	}
	return w
}

func rounded(dt aclnn.DType, z complex128) complex128 {
	switch dt {
	case aclnn.Complex64:
		return complex128(complex64(z))
	case aclnn.Float16:
		return complex(float64(half.Float16FromFloat32(float32(real(z))).Float32()), 0)
	case aclnn.BFloat16:
		return complex(float64(half.BFloat16FromFloat32(float32(real(z))).Float32()), 0)
	case aclnn.Float8E4M3: // whole numbers, which it represents
		return complex(math.Round(max(-8, min(8, real(z)*2))), 0)
	}
	return complex(float64(float32(real(z))), 0)
}

func (b *bench) buffer(w wide) *acl.Buffer {
	b.Helper()
	buf, err := b.st.Malloc(max(1, len(w.x)) * w.dt.Size())
	require.NoError(b, err)
	b.Cleanup(func() { _ = buf.Close() })
	switch w.dt {
	case aclnn.Complex64:
		upload(b, buf, w, func(z complex128) complex64 { return complex64(z) })
	case aclnn.Float16:
		upload(b, buf, w, func(z complex128) half.Float16 { return half.Float16FromFloat32(float32(real(z))) })
	case aclnn.BFloat16:
		upload(b, buf, w, func(z complex128) half.BFloat16 { return half.BFloat16FromFloat32(float32(real(z))) })
	case aclnn.Int32:
		upload(b, buf, w, func(z complex128) int32 { return int32(real(z)) })
	case aclnn.Float8E4M3:
		upload(b, buf, w, func(z complex128) uint8 { return e4m3(real(z)) })
	default:
		upload(b, buf, w, func(z complex128) float32 { return float32(real(z)) })
	}
	return buf
}

// e4m3 encodes a whole number from -8 to 8.
func e4m3(x float64) uint8 {
	if x == 0 {
		return 0
	}
	m, e := math.Frexp(math.Abs(x)) // x = m 2^e, m from a half to one
	bits := uint8(e-1+7)<<3 | uint8((m*2-1)*8)
	if x < 0 {
		bits |= 0x80
	}
	return bits
}

func upload[T acl.Element](b *bench, buf *acl.Buffer, w wide, f func(complex128) T) {
	b.Helper()
	if len(w.x) == 0 {
		return
	}
	v := make([]T, len(w.x))
	for i, z := range w.x {
		v[i] = f(z)
	}
	require.NoError(b, acl.CopyToDevice(b.Context(), b.st, buf, v))
}

func (b *bench) read(buf *acl.Buffer, dt aclnn.DType, n int) []complex128 {
	b.Helper()
	out := make([]complex128, n)
	if n == 0 {
		return out
	}
	switch dt {
	case aclnn.Complex64:
		download(b, buf, out, func(x complex64) complex128 { return complex128(x) })
	case aclnn.Float16:
		download(b, buf, out, func(x half.Float16) complex128 { return complex(float64(x.Float32()), 0) })
	case aclnn.BFloat16:
		download(b, buf, out, func(x half.BFloat16) complex128 { return complex(float64(x.Float32()), 0) })
	case aclnn.Int32:
		download(b, buf, out, func(x int32) complex128 { return complex(float64(x), 0) })
	default:
		download(b, buf, out, func(x float32) complex128 { return complex(float64(x), 0) })
	}
	return out
}

func download[T acl.Element](b *bench, buf *acl.Buffer, out []complex128, f func(T) complex128) {
	b.Helper()
	v := make([]T, len(out))
	require.NoError(b, acl.CopyFromDevice(b.Context(), b.st, v, buf))
	for i, x := range v {
		out[i] = f(x)
	}
}

// vec is a vector on the device with its initial numbers, in order.
type vec struct {
	blas.Vector
	x   []complex128
	raw int
	b   *bench
}

func (b *bench) vec(dt aclnn.DType, n, inc int) vec {
	b.Helper()
	step := max(inc, -inc)
	raw := 0
	if n > 0 {
		raw = (n-1)*step + 1
	}
	w := b.noise(dt, raw)
	v := vec{blas.Vector{DType: dt, N: n, Inc: inc}, make([]complex128, n), raw, b}
	for i := range n {
		at := i * step
		if inc < 0 {
			at = (n - 1 - i) * step
		}
		v.x[i] = w.x[at]
	}
	v.Data = b.buffer(w)
	return v
}

// values are the numbers on the device, in order.
func (v vec) values() []complex128 {
	v.b.Helper()
	raw := v.b.read(v.Data, v.DType, v.raw)
	out := make([]complex128, v.N)
	step := max(v.Inc, -v.Inc)
	for i := range out {
		at := i * step
		if v.Inc < 0 {
			at = (v.N - 1 - i) * step
		}
		out[i] = raw[at]
	}
	return out
}

// mat is a matrix on the device with its initial numbers.
type mat struct {
	blas.Matrix
	x [][]complex128 // by row
	b *bench
}

func (b *bench) mat(dt aclnn.DType, rows, cols, gap int) mat {
	b.Helper()
	ld := max(1, rows) + gap
	w := b.noise(dt, ld*cols)
	m := mat{blas.Matrix{Data: b.buffer(w), DType: dt, Rows: rows, Cols: cols, LD: ld}, nil, b}
	m.x = grid(rows, cols)
	for r := range rows {
		for c := range cols {
			m.x[r][c] = w.x[c*ld+r]
		}
	}
	return m
}

func grid(rows, cols int) [][]complex128 {
	x := make([][]complex128, rows)
	for r := range x {
		x[r] = make([]complex128, cols)
	}
	return x
}

func (m mat) values() [][]complex128 {
	m.b.Helper()
	raw := m.b.read(m.Data, m.DType, m.LD*m.Cols)
	x := grid(m.Rows, m.Cols)
	for r := range m.Rows {
		for c := range m.Cols {
			x[r][c] = raw[c*m.LD+r]
		}
	}
	return x
}

func applied(x [][]complex128, t blas.Transpose) [][]complex128 {
	if t == blas.NoTrans || len(x) == 0 {
		return x
	}
	y := grid(len(x[0]), len(x))
	for r := range x {
		for c := range x[r] {
			if y[c][r] = x[r][c]; t == blas.ConjTrans {
				y[c][r] = cmplx.Conj(x[r][c])
			}
		}
	}
	return y
}

func mul(a, b [][]complex128) [][]complex128 {
	cols := 0
	if len(b) > 0 {
		cols = len(b[0])
	}
	y := grid(len(a), cols)
	for r := range a {
		for k := range b {
			for c := range cols {
				y[r][c] += a[r][k] * b[k][c]
			}
		}
	}
	return y
}

func column(x []complex128) [][]complex128 {
	y := make([][]complex128, len(x))
	for i, e := range x {
		y[i] = []complex128{e}
	}
	return y
}

// near compares numbers that are sums of n products, rounded once.
func (b *bench) near(want, got [][]complex128, dt aclnn.DType, n int, what string) {
	b.Helper()
	b.close(want, got, map[aclnn.DType]float64{aclnn.Float16: 1e-3, aclnn.BFloat16: 8e-3}[dt], n, what)
}

func (b *bench) close(want, got [][]complex128, relative float64, n int, what string) {
	b.Helper()
	require.Len(b, got, len(want))
	for r := range want {
		for c := range want[r] {
			w, g := want[r][c], got[r][c]
			if d := cmplx.Abs(w - g); !(d <= 1e-6*math.Sqrt(float64(n)+1)*4+max(relative, 2e-7)*cmplx.Abs(w)) {
				require.Failf(b, "another value", "%s [%d,%d]: %v, want %v", what, r, c, g, w)
			}
		}
	}
}

func mixed(alpha complex128, x [][]complex128, beta complex128, y [][]complex128) [][]complex128 {
	z := grid(len(x), len(y[0]))
	for r := range z {
		for c := range z[r] {
			z[r][c] = alpha*x[r][c] + beta*y[r][c]
		}
	}
	return z
}

func symmetric(x [][]complex128, p blas.Triangle) [][]complex128 {
	y := grid(len(x), len(x))
	for r := range x {
		for c := range x {
			if (p == blas.Upper) == (r <= c) {
				y[r][c] = x[r][c]
			} else {
				y[r][c] = x[c][r]
			}
		}
	}
	return y
}

func triangular(x [][]complex128, p blas.Triangle, d blas.Diagonal) [][]complex128 {
	y := grid(len(x), len(x))
	for r := range x {
		for c := range x {
			switch {
			case r == c && d == blas.Unit:
				y[r][c] = 1
			case r == c || (p == blas.Upper) == (r < c):
				y[r][c] = x[r][c]
			}
		}
	}
	return y
}

// dominant makes a matrix whose triangles are far from singular, here and on the device.
func (m *mat) dominant() {
	raw := wide{m.DType, m.b.read(m.Data, m.DType, m.LD*m.Cols)}
	for i := range raw.x {
		raw.x[i] /= 8
	}
	for i := range min(m.Rows, m.Cols) {
		raw.x[i*m.LD+i] = complex(2+float64(i%3), 0)
	}
	upload(m.b, m.Data, raw, func(z complex128) float32 { return float32(real(z)) })
	m.x = m.values()
}

var (
	triangles  = []blas.Triangle{blas.Upper, blas.Lower}
	transposes = []blas.Transpose{blas.NoTrans, blas.Trans, blas.ConjTrans}
	diagonals  = []blas.Diagonal{blas.NonUnit, blas.Unit}
	sides      = []blas.Side{blas.Left, blas.Right}
)

// TestAtlasA2 compares the functions that the library of a 910B has with float64.
func TestAtlasA2(t *testing.T) {
	b := open(t)
	b.reductions(aclnn.Float32, false)
	b.complexVectors()
	for _, n := range []int{1, 2, 7, 33} {
		for _, inc := range []int{1, 3, -2} {
			b.rank1(n, n+3, inc)
			b.symmetricVectors(n, inc, false)
			b.triangles(n, inc, aclnn.Float32)
		}
	}
	for _, n := range []int{1, 5, 40} {
		b.symm(n, n+2)
		for _, tr := range transposes {
			b.gemv(aclnn.Complex64, n, n+4, tr, 2, -1, complex(0.5, -1), complex(2, 0.25))
			b.gemv(aclnn.Complex64, n+3, n, tr, 1, 1, 1, 0)
		}
	}
	b.rotm()
	// The rest is not built for this chip.
	m := b.mat(aclnn.Float32, 3, 3, 0)
	require.ErrorIs(t, b.h.Gemm(1, m.Matrix, blas.NoTrans, m.Matrix, blas.NoTrans, 0, b.mat(aclnn.Float32, 3, 3, 0).Matrix), acl.ErrNotSupported)
	require.ErrorIs(t, b.h.Scal(2, b.vec(aclnn.Float32, 3, 2).Vector), acl.ErrNotSupported)
}

func TestAscend950(t *testing.T) { acltest.Rerun(t, ascend950, "CANN_EMU_SOC=Ascend950") }

func ascend950(t *testing.T) {
	b := open(t)
	for _, dt := range []aclnn.DType{aclnn.Float32, aclnn.Float16, aclnn.BFloat16} {
		b.reductions(dt, true)
		b.vectors(dt)
	}
	for _, n := range []int{1, 2, 7, 33} {
		for _, inc := range []int{1, 3, -2} {
			b.rank1(n, n+3, inc)
			b.symmetricVectors(n, inc, true)
			b.triangles(n, inc, aclnn.Float32)
			b.bands(n, inc)
		}
		for _, tr := range transposes {
			b.gemv(aclnn.Float32, n, n+4, tr, 2, -1, 0.5, 2)
			b.gemv(aclnn.Float32, n+5, n, tr, 1, 1, 1, 0)
		}
	}
	for _, n := range []int{1, 5, 40} {
		b.symm(n, n+2)
		b.trmm(n, n+2)
		b.trsm(n, n+2)
		b.dgmm(n, n+2)
	}
	for _, tr := range transposes {
		for _, other := range transposes {
			b.gemm(aclnn.Float32, aclnn.Float32, aclnn.Float32, 17, 33, 9, tr, other, 0.5, 2)
			b.gemm(aclnn.Float32, aclnn.Float32, aclnn.Float32, 1, 5, 64, tr, other, 1, 0)
			b.gemm(aclnn.Float16, aclnn.Float16, aclnn.Float16, 7, 6, 31, tr, other, 1, 0.5)
			b.gemm(aclnn.BFloat16, aclnn.BFloat16, aclnn.BFloat16, 8, 3, 16, tr, other, 2, 0)
			b.gemm(aclnn.Float8E4M3, aclnn.Float8E4M3, aclnn.Float16, 5, 4, 11, tr, other, 1, 0)
			b.batched(aclnn.Float32, 5, 7, 9, tr, other)
			b.batched(aclnn.Complex64, 4, 6, 3, tr, other)
			b.batched(aclnn.Float16, 8, 2, 5, tr, other)
		}
		for _, dt := range []aclnn.DType{aclnn.Float32, aclnn.Float16, aclnn.BFloat16} {
			b.strided(dt, dt, 6, 5, tr)
			b.strided(dt, aclnn.Float32, 3, 8, tr)
		}
	}
	b.gemm(aclnn.Float32, aclnn.Float32, aclnn.Float32, 4, 4, 0, blas.NoTrans, blas.NoTrans, 1, 3)
	b.rotm()
	b.factors()
}

func (b *bench) reductions(dt aclnn.DType, strides bool) {
	b.Helper()
	incs := []int{1}
	if strides {
		incs = []int{1, 2, -3}
	}
	for _, n := range []int{0, 1, 5, 257} {
		for _, inc := range incs {
			what := fmt.Sprintf("%v n %d inc %d", dt, n, inc)
			x, y, r := b.vec(dt, n, inc), b.vec(dt, n, inc), b.vec(dt, 1, 1)
			require.NoError(b, b.h.Dot(x.Vector, y.Vector, r.Vector))
			var dot, sum, square complex128
			best, at := -1.0, 0
			for i := range n {
				dot += x.x[i] * y.x[i]
				sum += complex(cmplx.Abs(x.x[i]), 0)
				square += x.x[i] * x.x[i]
				if a := cmplx.Abs(x.x[i]); a > best {
					best, at = a, i+1
				}
			}
			b.near(column([]complex128{dot}), column(r.values()), dt, n, "dot "+what)
			norm := b.vec(aclnn.Float32, 1, 1)
			if dt != aclnn.BFloat16 && (inc > 0 || dt == aclnn.Float16) {
				require.NoError(b, b.h.Nrm2(x.Vector, norm.Vector))
				b.near(column([]complex128{cmplx.Sqrt(square)}), column(norm.values()), aclnn.Float32, n, "nrm2 "+what)
			}
			if dt == aclnn.Float32 && inc > 0 {
				require.NoError(b, b.h.Asum(x.Vector, norm.Vector))
				b.near(column([]complex128{sum}), column(norm.values()), dt, n, "asum "+what)
				index := b.vec(aclnn.Int32, 1, 1)
				require.NoError(b, b.h.Iamax(x.Vector, index.Vector))
				assert.Equal(b, complex(float64(at), 0), index.values()[0], "iamax "+what)
			}
		}
	}
}

func (b *bench) vectors(dt aclnn.DType) {
	b.Helper()
	for _, n := range []int{1, 6, 130} {
		for _, inc := range []int{1, 2, -2} {
			what := fmt.Sprintf("%v n %d inc %d", dt, n, inc)
			x, y := b.vec(dt, n, inc), b.vec(dt, n, -inc)
			require.NoError(b, b.h.Axpy(1.5, x.Vector, y.Vector))
			b.near(mixed(1.5, column(x.x), 1, column(y.x)), column(y.values()), dt, 2, "axpy "+what)
			p, q := b.vec(dt, n, inc), b.vec(dt, n, inc)
			require.NoError(b, b.h.Rot(p.Vector, q.Vector, 0.5, -0.25))
			b.near(mixed(0.5, column(p.x), -0.25, column(q.x)), column(p.values()), dt, 2, "rot "+what)
			b.near(mixed(0.5, column(q.x), 0.25, column(p.x)), column(q.values()), dt, 2, "rot "+what)
			if inc > 0 {
				require.NoError(b, b.h.Scal(-3, p.Vector))
			}
			if dt == aclnn.Float32 {
				require.NoError(b, b.h.Copy(x.Vector, y.Vector))
				assert.Equal(b, x.x, y.values(), "copy "+what)
			}
		}
		x := b.vec(dt, n, 1)
		require.NoError(b, b.h.Scal(-3, x.Vector))
		b.near(mixed(-3, column(x.x), 0, column(x.x)), column(x.values()), dt, 1, "scal")
	}
	if dt == aclnn.Float32 {
		x, y, index := b.vec(dt, 9, 1), b.vec(dt, 9, 1), b.vec(aclnn.Int32, 1, 1)
		require.NoError(b, b.h.Iamin(x.Vector, index.Vector))
		at := 0
		for i := range x.x {
			if cmplx.Abs(x.x[i]) < cmplx.Abs(x.x[at]) {
				at = i
			}
		}
		assert.Equal(b, complex(float64(at+1), 0), index.values()[0])
		require.NoError(b, b.h.Swap(x.Vector, y.Vector))
		assert.Equal(b, x.x, y.values())
		assert.Equal(b, y.x, x.values())
	}
}

func (b *bench) complexVectors() {
	b.Helper()
	const dt = aclnn.Complex64
	for _, n := range []int{1, 6, 130} {
		x, y, r := b.vec(dt, n, 1), b.vec(dt, n, 1), b.vec(dt, 1, 1)
		var plain, conjugate, square complex128
		for i := range n {
			plain += x.x[i] * y.x[i]
			conjugate += cmplx.Conj(x.x[i]) * y.x[i]
			square += x.x[i] * cmplx.Conj(x.x[i])
		}
		require.NoError(b, b.h.Dot(x.Vector, y.Vector, r.Vector))
		b.near(column([]complex128{plain}), column(r.values()), dt, n, "dotu")
		require.NoError(b, b.h.Dotc(x.Vector, y.Vector, r.Vector))
		b.near(column([]complex128{conjugate}), column(r.values()), dt, n, "dotc")
		norm := b.vec(aclnn.Float32, 1, 1)
		require.NoError(b, b.h.Nrm2(x.Vector, norm.Vector))
		b.near(column([]complex128{cmplx.Sqrt(square)}), column(norm.values()), aclnn.Float32, n, "scnrm2")
		require.NoError(b, b.h.Axpy(complex(0.5, -2), x.Vector, y.Vector))
		b.near(mixed(complex(0.5, -2), column(x.x), 1, column(y.x)), column(y.values()), dt, 2, "caxpy")
		p, q := b.vec(dt, n, 2), b.vec(dt, n, 3)
		require.NoError(b, b.h.Rot(p.Vector, q.Vector, 0.5, -0.25))
		b.near(mixed(0.5, column(p.x), -0.25, column(q.x)), column(p.values()), dt, 2, "csrot")
		s := b.vec(dt, n, 2)
		require.NoError(b, b.h.Scal(complex(0.5, 1), s.Vector))
		b.near(mixed(complex(0.5, 1), column(s.x), 0, column(s.x)), column(s.values()), dt, 1, "cscal")
		v, w := b.vec(dt, n, 2), b.vec(dt, n, 1)
		require.NoError(b, b.h.Copy(v.Vector, w.Vector))
		assert.Equal(b, v.x, w.values())
		v, w = b.vec(dt, n, 2), b.vec(dt, n, 1)
		require.NoError(b, b.h.Swap(v.Vector, w.Vector))
		assert.Equal(b, v.x, w.values())
		assert.Equal(b, w.x, v.values())
	}
	b.triangles(9, 1, dt)
}

func (b *bench) gemv(dt aclnn.DType, m, n int, t blas.Transpose, incx, incy int, alpha, beta complex64) {
	b.Helper()
	a := b.mat(dt, m, n, 2)
	rows, cols := m, n
	if t != blas.NoTrans {
		rows, cols = n, m
	}
	x, y := b.vec(dt, cols, incx), b.vec(dt, rows, incy)
	require.NoError(b, b.h.Gemv(alpha, a.Matrix, t, x.Vector, beta, y.Vector))
	b.near(mixed(complex128(alpha), mul(applied(a.x, t), column(x.x)), complex128(beta), column(y.x)), column(y.values()), dt, cols, fmt.Sprintf("gemv %v %dx%d %d", dt, m, n, t))
}

func (b *bench) rank1(m, n, inc int) {
	b.Helper()
	a, x, y := b.mat(aclnn.Float32, m, n, 1), b.vec(aclnn.Float32, m, inc), b.vec(aclnn.Float32, n, -inc)
	require.NoError(b, b.h.Ger(0.5, x.Vector, y.Vector, a.Matrix))
	b.near(mixed(0.5, mul(column(x.x), applied(column(y.x), blas.Trans)), 1, a.x), a.values(), aclnn.Float32, 2, "ger")
}

func pack(x [][]complex128, p blas.Triangle) (out []complex128) {
	for c := range x {
		for r := range x {
			if r == c || (p == blas.Upper) == (r < c) {
				out = append(out, x[r][c])
			}
		}
	}
	return out
}

func (b *bench) packed(x [][]complex128, p blas.Triangle) vec {
	w := wide{aclnn.Float32, pack(x, p)}
	return vec{blas.Vector{Data: b.buffer(w), N: len(w.x), Inc: 1}, w.x, len(w.x), b}
}

func (b *bench) symmetricVectors(n, inc int, rest bool) {
	b.Helper()
	const dt = aclnn.Float32
	for _, p := range triangles {
		a, x, y := b.mat(dt, n, n, 2), b.vec(dt, n, inc), b.vec(dt, n, -inc)
		full := symmetric(a.x, p)
		want := mixed(0.5, mul(full, column(x.x)), 2, column(y.x))
		z := b.vec(dt, n, 1)
		wantZ := mixed(0.5, mul(full, column(x.x)), 2, column(z.x))
		require.NoError(b, b.h.Symv(0.5, a.Matrix, p, x.Vector, 2, y.Vector))
		b.near(want, column(y.values()), dt, n, "symv")
		ap := b.packed(a.x, p)
		require.NoError(b, b.h.Spmv(0.5, ap.Vector, p, x.Vector, 2, z.Vector))
		b.near(wantZ, column(z.values()), dt, n, "spmv")

		u, v := b.vec(dt, n, inc), b.vec(dt, n, inc)
		outer := mul(column(u.x), applied(column(v.x), blas.Trans))
		both := mixed(1, outer, 1, applied(outer, blas.Trans))
		half := func(old, sum [][]complex128) [][]complex128 { // only the triangle changes
			out := grid(n, n)
			for r := range n {
				for c := range n {
					if out[r][c] = old[r][c]; r == c || (p == blas.Upper) == (r < c) {
						out[r][c] += 0.5 * sum[r][c]
					}
				}
			}
			return out
		}
		require.NoError(b, b.h.Syr2(0.5, u.Vector, v.Vector, a.Matrix, p))
		b.near(half(a.x, both), a.values(), dt, 3, "syr2")
		s := b.mat(dt, n, n, 0)
		require.NoError(b, b.h.Syr(0.5, u.Vector, s.Matrix, p))
		b.near(half(s.x, mul(column(u.x), applied(column(u.x), blas.Trans))), s.values(), dt, 2, "syr")
		if rest {
			old := b.mat(dt, n, n, 0)
			ap := b.packed(old.x, p)
			require.NoError(b, b.h.Spr2(0.5, u.Vector, v.Vector, ap.Vector, p))
			b.near(column(pack(half(old.x, both), p)), column(ap.values()), dt, 3, "spr2")
			ap = b.packed(old.x, p)
			require.NoError(b, b.h.Spr(0.5, u.Vector, ap.Vector, p))
			b.near(column(pack(half(old.x, mul(column(u.x), applied(column(u.x), blas.Trans))), p)), column(ap.values()), dt, 2, "spr")
		}
	}
}

func (b *bench) triangles(n, inc int, dt aclnn.DType) {
	b.Helper()
	rest := b.h.Tpmv(blas.Vector{}, blas.Upper, blas.NoTrans, blas.Unit, blas.Vector{}) == nil
	for _, p := range triangles {
		for _, t := range transposes {
			for _, d := range diagonals {
				a, x := b.mat(dt, n, n, 1), b.vec(dt, n, inc)
				if dt == aclnn.Float32 {
					a.dominant()
				}
				tri := applied(triangular(a.x, p, d), t)
				require.NoError(b, b.h.Trmv(a.Matrix, p, t, d, x.Vector))
				b.near(mul(tri, column(x.x)), column(x.values()), dt, n, "trmv")
				if dt != aclnn.Float32 {
					continue
				}
				y := b.vec(dt, n, inc)
				require.NoError(b, b.h.Trsv(a.Matrix, p, t, d, y.Vector))
				b.near(column(y.x), mul(tri, column(y.values())), dt, 4*n, "trsv")
				if rest {
					ap, v, w := b.packed(a.x, p), b.vec(dt, n, inc), b.vec(dt, n, inc)
					require.NoError(b, b.h.Tpmv(ap.Vector, p, t, d, v.Vector))
					b.near(mul(tri, column(v.x)), column(v.values()), dt, n, "tpmv")
					require.NoError(b, b.h.Tpsv(ap.Vector, p, t, d, w.Vector))
					b.near(column(w.x), mul(tri, column(w.values())), dt, 4*n, "tpsv")
				}
			}
		}
	}
}

// unbanded is the matrix of a band.
func unbanded(band [][]complex128, rows, cols, kl, ku int) [][]complex128 {
	x := grid(rows, cols)
	for r := range rows {
		for c := range cols {
			if r-c <= kl && c-r <= ku {
				x[r][c] = band[ku+r-c][c]
			}
		}
	}
	return x
}

func (b *bench) bands(n, inc int) {
	b.Helper()
	const dt = aclnn.Float32
	for _, k := range []int{0, 1, 3} {
		for _, t := range transposes {
			rows := n + 2
			band := b.mat(dt, 2*k+2, n, 1) // k below, k+1 above
			nx, ny := n, rows
			if t != blas.NoTrans {
				nx, ny = rows, n
			}
			x, y := b.vec(dt, nx, inc), b.vec(dt, ny, 1)
			require.NoError(b, b.h.Gbmv(0.5, band.Matrix, rows, k, k+1, t, x.Vector, 2, y.Vector))
			b.near(mixed(0.5, mul(applied(unbanded(band.x, rows, n, k, k+1), t), column(x.x)), 2, column(y.x)), column(y.values()), dt, n, "gbmv")
		}
		for _, p := range triangles {
			band := b.mat(dt, k+1, n, 2)
			kl, ku, main := k, 0, 0
			if p == blas.Upper {
				kl, ku, main = 0, k, k
			}
			raw := wide{dt, b.read(band.Data, dt, band.LD*n)}
			for c := range n {
				raw.x[c*band.LD+main] = 3
			}
			upload(b, band.Data, raw, func(z complex128) float32 { return float32(real(z)) })
			band.x = band.values()
			full := unbanded(band.x, n, n, kl, ku)
			x, y := b.vec(dt, n, inc), b.vec(dt, n, 1)
			require.NoError(b, b.h.Sbmv(0.5, band.Matrix, p, x.Vector, 2, y.Vector))
			b.near(mixed(0.5, mul(symmetric(full, p), column(x.x)), 2, column(y.x)), column(y.values()), dt, n, "sbmv")
			for _, t := range transposes {
				for _, d := range diagonals {
					tri := applied(triangular(full, p, d), t)
					v, w := b.vec(dt, n, inc), b.vec(dt, n, inc)
					require.NoError(b, b.h.Tbmv(band.Matrix, p, t, d, v.Vector))
					b.near(mul(tri, column(v.x)), column(v.values()), dt, n, "tbmv")
					require.NoError(b, b.h.Tbsv(band.Matrix, p, t, blas.NonUnit, w.Vector))
					b.near(column(w.x), mul(applied(full, t), column(w.values())), dt, 100*n, "tbsv")
				}
			}
		}
	}
}

func (b *bench) gemm(ta, tb, tc aclnn.DType, m, n, k int, p, q blas.Transpose, alpha, beta float32) {
	b.Helper()
	a, c := b.shaped(ta, m, k, p), b.mat(tc, m, n, 3)
	other := b.shaped(tb, k, n, q)
	require.NoError(b, b.h.Gemm(alpha, a.Matrix, p, other.Matrix, q, beta, c.Matrix))
	product := grid(m, n)
	if k > 0 {
		product = mul(applied(a.x, p), applied(other.x, q))
	}
	b.near(mixed(complex(float64(alpha), 0), product, complex(float64(beta), 0), c.x), c.values(), tc, k, fmt.Sprintf("gemm %v %d %d", ta, p, q))
}

// shaped is a matrix whose form t is rows x cols.
func (b *bench) shaped(dt aclnn.DType, rows, cols int, t blas.Transpose) mat {
	if t != blas.NoTrans {
		rows, cols = cols, rows
	}
	return b.mat(dt, rows, cols, 1)
}

func (b *bench) batched(dt aclnn.DType, m, n, k int, p, q blas.Transpose) {
	b.Helper()
	alpha, beta := complex64(0.5), complex64(2)
	if dt == aclnn.Complex64 {
		alpha, beta = complex(0.5, 1), complex(1, -1)
	}
	var as, bs, cs []mat
	for range 3 {
		as, bs, cs = append(as, b.shaped(dt, m, k, p)), append(bs, b.shaped(dt, k, n, q)), append(cs, b.mat(dt, m, n, 1))
	}
	require.NoError(b, b.h.GemmBatched(alpha, b.batch(as), p, b.batch(bs), q, beta, b.batch(cs)))
	for i := range as {
		b.near(mixed(complex128(alpha), mul(applied(as[i].x, p), applied(bs[i].x, q)), complex128(beta), cs[i].x), cs[i].values(), dt, k, fmt.Sprintf("batched %v", dt))
	}
}

func (b *bench) batch(m []mat) *blas.Batch {
	b.Helper()
	var all []blas.Matrix
	for _, m := range m {
		all = append(all, m.Matrix)
	}
	batch, err := blas.NewBatch(b.Context(), b.st, all...)
	require.NoError(b, err)
	b.Cleanup(func() { _ = batch.Close() })
	return batch
}

func (b *bench) strided(dt, out aclnn.DType, m, n int, t blas.Transpose) {
	b.Helper()
	const count = 3
	a := b.mat(dt, m, n*count, 1) // one after the other
	nx, ny := n, m
	if t != blas.NoTrans {
		nx, ny = m, n
	}
	x, y := b.vec(dt, nx*count, 1), b.vec(out, ny*count, 1)
	first := a.Matrix
	first.Cols = n
	vx, vy := x.Vector, y.Vector
	vx.N, vy.N = nx, ny
	require.NoError(b, b.h.GemvStrided(0.5, first, t, vx, 2, vy, blas.Strided{A: a.LD * n, X: nx, Y: ny, Count: count}))
	got := y.values()
	for i := range count {
		part := grid(m, n)
		for r := range m {
			copy(part[r], a.x[r][i*n:])
		}
		b.near(mixed(0.5, mul(applied(part, t), column(x.x[i*nx:][:nx])), 2, column(y.x[i*ny:][:ny])), column(got[i*ny:][:ny]), out, nx, "strided")
	}
}

func (b *bench) symm(m, n int) {
	b.Helper()
	for _, s := range sides {
		for _, p := range triangles {
			order := m
			if s == blas.Right {
				order = n
			}
			a, x, c := b.mat(aclnn.Float32, order, order, 1), b.mat(aclnn.Float32, m, n, 2), b.mat(aclnn.Float32, m, n, 0)
			require.NoError(b, b.h.Symm(s, 0.5, a.Matrix, p, x.Matrix, 2, c.Matrix))
			y := symmetric(a.x, p)
			if s == blas.Left {
				y = mul(y, x.x)
			} else {
				y = mul(x.x, y)
			}
			b.near(mixed(0.5, y, 2, c.x), c.values(), aclnn.Float32, order, "symm")
		}
	}
}

func (b *bench) trmm(m, n int) {
	b.Helper()
	b.sided(m, n, func(s blas.Side, a, x mat, p blas.Triangle, t blas.Transpose, d blas.Diagonal) {
		c := b.mat(aclnn.Float32, m, n, 1)
		require.NoError(b, b.h.Trmm(s, 0.5, a.Matrix, p, t, d, x.Matrix, c.Matrix))
		y := applied(triangular(a.x, p, d), t)
		if s == blas.Left {
			y = mul(y, x.x)
		} else {
			y = mul(x.x, y)
		}
		b.near(mixed(0.5, y, 0, c.x), c.values(), aclnn.Float32, a.Rows, "trmm")
	})
}

func (b *bench) trsm(m, n int) {
	b.Helper()
	b.sided(m, n, func(s blas.Side, a, x mat, p blas.Triangle, t blas.Transpose, d blas.Diagonal) {
		require.NoError(b, b.h.Trsm(s, 0.5, a.Matrix, p, t, d, x.Matrix))
		y := applied(triangular(a.x, p, d), t)
		if s == blas.Left {
			y = mul(y, x.values())
		} else {
			y = mul(x.values(), y)
		}
		b.near(mixed(0.5, x.x, 0, x.x), y, aclnn.Float32, 100*a.Rows, "trsm")
	})
}

func (b *bench) sided(m, n int, f func(s blas.Side, a, x mat, p blas.Triangle, t blas.Transpose, d blas.Diagonal)) {
	b.Helper()
	for _, s := range sides {
		for _, p := range triangles {
			for _, t := range transposes {
				for _, d := range diagonals {
					order := m
					if s == blas.Right {
						order = n
					}
					a := b.mat(aclnn.Float32, order, order, 1)
					a.dominant()
					f(s, a, b.mat(aclnn.Float32, m, n, 2), p, t, d)
				}
			}
		}
	}
}

func (b *bench) dgmm(m, n int) {
	b.Helper()
	for _, s := range sides {
		length := m
		if s == blas.Right {
			length = n
		}
		a, x, c := b.mat(aclnn.Float32, m, n, 1), b.vec(aclnn.Float32, length, -2), b.mat(aclnn.Float32, m, n, 0)
		require.NoError(b, b.h.Dgmm(s, a.Matrix, x.Vector, c.Matrix))
		want := grid(m, n)
		for r := range m {
			for k := range n {
				if s == blas.Left {
					want[r][k] = a.x[r][k] * x.x[r]
				} else {
					want[r][k] = a.x[r][k] * x.x[k]
				}
			}
		}
		b.near(want, c.values(), aclnn.Float32, 1, "dgmm")
	}
}

func (b *bench) rotm() {
	b.Helper()
	for flag, h := range map[float32][4]float32{-1: {0.5, -0.25, 2, 1.5}, 0: {1, -0.25, 2, 1}, 1: {0.5, -1, 1, 1.5}, -2: {1, 0, 0, 1}} {
		x, y := b.vec(aclnn.Float32, 5, 2), b.vec(aclnn.Float32, 5, -1)
		require.NoError(b, b.h.Rotm(x.Vector, y.Vector, [5]float32{flag, 0.5, -0.25, 2, 1.5}))
		w := func(i int) complex128 { return complex(float64(h[i]), 0) }
		b.near(mixed(w(0), column(x.x), w(2), column(y.x)), column(x.values()), aclnn.Float32, 2, "rotm")
		b.near(mixed(w(1), column(x.x), w(3), column(y.x)), column(y.values()), aclnn.Float32, 2, "rotm")
	}
}

func eye(n int) [][]complex128 {
	x := grid(n, n)
	for i := range n {
		x[i][i] = 1
	}
	return x
}

func (b *bench) factors() {
	b.Helper()
	const dt, n, count = aclnn.Float32, 9, 3
	var as, inverses, right, small, smallInverse []mat
	for range count {
		as, inverses, right = append(as, b.mat(dt, n, n, 1)), append(inverses, b.mat(dt, n, n, 0)), append(right, b.mat(dt, n, 4, 2))
		small, smallInverse = append(small, b.mat(dt, 5, 5, 0)), append(smallInverse, b.mat(dt, 5, 5, 1))
	}
	pivots, info := b.vec(aclnn.Int32, n*count, 1), b.vec(aclnn.Int32, count, 1)
	batch := b.batch(as)
	require.NoError(b, b.h.GetrfBatched(batch, pivots.Vector, info.Vector))
	assert.Equal(b, make([]complex128, count), info.values())
	p := pivots.values()
	for i, a := range as {
		f := a.values()
		lu := mul(triangular(f, blas.Lower, blas.Unit), triangular(f, blas.Upper, blas.NonUnit))
		pa := grid(n, n)
		for r := range n {
			copy(pa[r], a.x[r])
		}
		for k := range n {
			row := int(real(p[i*n+k])) - 1
			pa[k], pa[row] = pa[row], pa[k]
		}
		b.near(pa, lu, dt, 10*n, "getrf")
	}
	require.NoError(b, b.h.GetriBatched(batch, pivots.Vector, b.batch(inverses), info.Vector))
	for i, a := range as {
		b.close(eye(n), mul(a.x, inverses[i].values()), 1e-4, 1e4, "getri")
	}
	for _, t := range []blas.Transpose{blas.Trans, blas.NoTrans} {
		require.NoError(b, b.h.GetrsBatched(t, batch, pivots.Vector, b.batch(right)))
		for i, a := range as {
			b.close(right[i].x, mul(applied(a.x, t), right[i].values()), 1e-4, 1e4, "getrs")
			right[i].x = right[i].values()
		}
	}
	require.NoError(b, b.h.MatinvBatched(b.batch(small), b.batch(smallInverse), info.Vector))
	for i, a := range small {
		b.close(eye(5), mul(a.x, smallInverse[i].values()), 1e-4, 1e4, "matinv")
	}
	// A singular matrix is reported by its column.
	zero := mat{blas.Matrix{Data: b.buffer(wide{dt, []complex128{1, 2, 2, 4}}), Rows: 2, Cols: 2, LD: 2}, nil, b}
	one := b.vec(aclnn.Int32, 1, 1)
	require.NoError(b, b.h.GetrfBatched(b.batch([]mat{zero}), b.vec(aclnn.Int32, 2, 1).Vector, one.Vector))
	assert.Equal(b, []complex128{2}, one.values())

	for _, size := range [][2]int{{7, 4}, {4, 7}, {5, 5}} {
		m, k := size[0], size[1]
		a, tau := b.mat(dt, m, k, 1), b.mat(dt, min(m, k), 1, 0)
		require.NoError(b, b.h.GeqrfBatched(b.batch([]mat{a}), b.batch([]mat{tau})))
		f, r := a.values(), grid(m, k)
		for i := range m {
			for j := i; j < k; j++ {
				r[i][j] = f[i][j]
			}
		}
		for j := min(m, k) - 1; j >= 0; j-- { // Q r, reflector by reflector
			v := grid(m, 1)
			v[j][0] = 1
			for i := j + 1; i < m; i++ {
				v[i][0] = f[i][j]
			}
			r = mixed(1, r, -tau.values()[j][0], mul(v, mul(applied(v, blas.Trans), r)))
		}
		b.close(a.x, r, 1e-5, 100, "geqrf")
		for _, t := range []blas.Transpose{blas.NoTrans, blas.Trans} {
			e, c := b.mat(dt, m, k, 1), b.mat(dt, max(m, k), 2, 1)
			require.NoError(b, b.h.GelsBatched(t, b.batch([]mat{e}), b.batch([]mat{c}), one.Vector))
			assert.Equal(b, []complex128{0}, one.values())
			op := applied(e.x, t)
			x := c.values()[:len(op[0])]
			rest := mixed(1, mul(op, x), -1, c.x[:len(op)])
			// The rest is orthogonal to what the matrix reaches; without a rest x is the shortest.
			b.close(grid(len(op[0]), 2), mul(applied(op, blas.Trans), rest), 0, 1e4, fmt.Sprintf("gels %v", size))
			if len(op) < len(op[0]) {
				b.close(grid(len(op), 2), rest, 0, 1e4, "gels short")
			}
		}
	}
}

func TestErrors(t *testing.T) {
	b := open(t)
	x, y, r := b.vec(aclnn.Float32, 5, 1), b.vec(aclnn.Float32, 4, 1), b.vec(aclnn.Float32, 1, 1)
	a := b.mat(aclnn.Float32, 5, 4, 0)
	long := x.Vector
	long.N = 6
	far := x.Vector
	far.Inc = math.MaxInt
	for i, err := range []error{
		b.h.Dot(x.Vector, y.Vector, r.Vector), b.h.Asum(x.Vector, x.Vector), b.h.Asum(long, r.Vector), b.h.Asum(far, r.Vector),
		b.h.Asum(blas.Vector{N: -1}, r.Vector), b.h.Asum(blas.Vector{N: 3}, r.Vector), b.h.Asum(x.Vector, blas.Vector{N: 1}),
		b.h.Ger(1, y.Vector, x.Vector, a.Matrix), b.h.Syr(1, x.Vector, a.Matrix, blas.Upper), b.h.Trsv(a.Matrix, 0, blas.NoTrans, blas.Unit, x.Vector),
		b.h.Scal(complex(1, 1), x.Vector), b.h.Rotm(x.Vector, x.Vector, [5]float32{5}), b.h.GetrfBatched(nil, x.Vector, x.Vector),
		b.h.Gemv(1, a.Matrix, 7, y.Vector, 0, x.Vector), b.h.Symv(1, blas.Matrix{Data: a.Data, Rows: 4, Cols: 4, LD: 3}, blas.Upper, y.Vector, 0, y.Vector),
	} {
		assert.ErrorIs(t, err, acl.ErrInvalidArgument, "%d", i)
		var e *blas.Error
		if assert.ErrorAs(t, err, &e, "%d", i) {
			assert.Zero(t, e.Code, "%d: the library was called", i)
		}
	}
	assert.ErrorIs(t, b.h.Asum(blas.Vector{Data: x.Data, N: 2, DType: aclnn.Int32}, r.Vector), acl.ErrNotSupported)
	_, err := blas.NewBatch(t.Context(), b.st)
	require.ErrorIs(t, err, acl.ErrInvalidArgument)
	_, err = blas.NewBatch(t.Context(), b.st, a.Matrix, b.mat(aclnn.Float32, 5, 5, 0).Matrix)
	require.ErrorIs(t, err, acl.ErrInvalidArgument)
	_, err = blas.New(nil)
	require.ErrorIs(t, err, acl.ErrInvalidArgument)
	require.ErrorIs(t, (*blas.Handle)(nil).Asum(x.Vector, r.Vector), acl.ErrInvalidArgument)
	require.NoError(t, (*blas.Handle)(nil).Close())

	v, err := b.h.Version()
	require.NoError(t, err)
	assert.Equal(t, 10000, v)
	work, err := b.st.Malloc(1 << 20)
	require.NoError(t, err)
	require.NoError(t, b.h.SetWorkspace(work))
	require.NoError(t, b.h.Asum(x.Vector, r.Vector))
	closed := b.vec(aclnn.Float32, 3, 1)
	require.NoError(t, closed.Data.Close())
	require.ErrorIs(t, b.h.Asum(closed.Vector, r.Vector), acl.ErrClosed)
	require.NoError(t, b.h.Close())
	require.NoError(t, b.h.Close())
	require.NoError(t, work.Close())
	require.ErrorIs(t, b.h.Asum(x.Vector, r.Vector), acl.ErrClosed)
}

// A graph replays what a handle queued.
func TestGraph(t *testing.T) {
	b := open(t)
	x := b.vec(aclnn.Float32, 5, 1)
	g, err := b.st.Capture(t.Context(), acl.CaptureGlobal, func() error { return b.h.Scal(2, x.Vector) })
	require.NoError(t, err)
	defer g.Close()
	assert.Equal(t, x.x, x.values(), "a capture runs nothing")
	for range 3 {
		require.NoError(t, g.Replay(b.st))
	}
	b.near(mixed(8, column(x.x), 0, column(x.x)), column(x.values()), aclnn.Float32, 1, "graph")
}

func TestSanitizers(t *testing.T) {
	acltest.Rerun(t, func(t *testing.T) {
		b := open(t)
		b.symm(5, 7)
		b.symmetricVectors(9, -2, false)
		b.triangles(9, 2, aclnn.Float32)
		// The triangle that is not read may hold anything.
		a, err := b.st.Malloc(4 * 4)
		require.NoError(t, err)
		defer a.Close()
		for i, v := range []float32{1, 3} {
			one, err := a.View(i*12, 4)
			require.NoError(t, err)
			require.NoError(t, acl.CopyToDevice(t.Context(), b.st, one, []float32{v}))
		}
		corner, err := a.View(8, 4)
		require.NoError(t, err)
		require.NoError(t, acl.CopyToDevice(t.Context(), b.st, corner, []float32{2}))
		x := b.vec(aclnn.Float32, 2, 1)
		require.NoError(t, b.h.Trmv(blas.Matrix{Data: a, Rows: 2, Cols: 2}, blas.Upper, blas.NoTrans, blas.NonUnit, x.Vector))
		b.near([][]complex128{{x.x[0] + 2*x.x[1]}, {3 * x.x[1]}}, column(x.values()), aclnn.Float32, 2, "trmv")
	}, "CANN_EMU_SANITIZE=memory,race")
}

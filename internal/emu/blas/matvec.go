package blas

import (
	"math"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/rt"
)

const (
	invalidValue = int32(abi.ACLBLAS_STATUS_INVALID_VALUE)
	invalidEnum  = int32(abi.ACLBLAS_STATUS_INVALID_ENUM)
)

// addTo queues y = alpha f() x + beta y, where f makes the matrix of what it loads.
func (c *call) addTo(alpha, beta scalar, x, y view, reads []view, f func(d *device) dense) error {
	c.reads(append(reads, x)...)
	if beta.there || beta.host != 0 {
		c.reads(y)
	}
	c.writes(y)
	return c.run(func(d *device) {
		a, b := d.number(alpha), d.number(beta)
		old := zeros(y.rows, y.cols)
		if b != 0 {
			old = d.load(y)
		}
		d.store(y, mixed(a, product(f(d), d.load(x)), b, old))
	})
}

// lengths returns those of x and y for op(A) of m rows and n columns.
func lengths(trans, m, n int32) (x, y int) {
	if trans == abi.ACLBLAS_OP_N {
		return int(n), int(m)
	}
	return int(m), int(n)
}

func (l *Library) aclblasSgemv(t *rt.Thread, handle *Handle, trans, m, n int32, alpha, a uintptr, lda int32, x uintptr, incx int32, beta, y uintptr, incy int32) error {
	f := l.begin(t, "aclblasSgemv", handle, on950)
	f.operation(invalidValue, trans)
	f.sizes(m, n)
	f.leading("lda", lda, m)
	f.steps(incx, incy)
	p, q := f.scalar("alpha", alpha, f32, false), f.scalar("beta", beta, f32, false)
	f.quick(m == 0 || n == 0)
	f.present(a, x, y)
	return f.gemv(trans, m, n, p, matrix("A", a, int(m), int(n), int(lda), f32), x, incx, q, y, incy, f32)
}

func (c *call) gemv(trans, m, n int32, alpha scalar, a view, x uintptr, incx int32, beta scalar, y uintptr, incy int32, out dtype.Type) error {
	nx, ny := lengths(trans, m, n)
	return c.addTo(alpha, beta, vector("x", x, nx, int(incx), a.dt), vector("y", y, ny, int(incy), out), []view{a}, func(d *device) dense { return applied(d.load(a), trans) })
}

func (l *Library) aclblasCgemv(t *rt.Thread, handle *Handle, trans int32, m, n int64, alpha complexValue, a uintptr, lda int64, x uintptr, incx int64, beta complexValue, y uintptr, incy int64) error {
	f := l.begin(t, "aclblasCgemv", handle, on910B)
	f.operation(invalidValue, trans)
	f.sizes(int32(m), int32(n))
	f.leading("lda", int32(lda), int32(m))
	f.steps(int32(incx), int32(incy))
	f.quick(m == 0 || n == 0)
	f.present(a, x, y)
	return f.gemv(trans, int32(m), int32(n), scalar{host: alpha.wide()}, matrix("A", a, int(m), int(n), int(lda), c64), x, int32(incx), scalar{host: beta.wide()}, y, int32(incy), c64)
}

// aclblasCgemvBatched takes matrices that follow each other, and so do the vectors.
func (l *Library) aclblasCgemvBatched(t *rt.Thread, handle *Handle, trans int32, m, n int64, alpha complexValue, a uintptr, lda int64, x uintptr, incx int64, beta complexValue, y uintptr, incy, batchCount int64) error {
	f := l.begin(t, "aclblasCgemvBatched", handle, on910B)
	f.operation(invalidValue, trans)
	f.sizes(int32(m), int32(n), int32(batchCount))
	f.leading("lda", int32(lda), int32(m))
	f.steps(int32(incx), int32(incy))
	f.quick(m == 0 || n == 0 || batchCount == 0)
	f.present(a, x, y)
	nx, ny := lengths(trans, int32(m), int32(n))
	return f.batch(int(batchCount), func(i int) problem {
		return problem{
			matrix("A", a+uintptr(8*i*int(lda*n)), int(m), int(n), int(lda), c64), trans,
			vector("x", x+uintptr(8*i*nx*int(max(incx, -incx))), nx, int(incx), c64), abi.ACLBLAS_OP_N,
			vector("y", y+uintptr(8*i*ny*int(max(incy, -incy))), ny, int(incy), c64), alpha.wide(), beta.wide(),
		}
	})
}

func (l *Library) aclblasSger(t *rt.Thread, handle *Handle, m, n int32, alpha, x uintptr, incx int32, y uintptr, incy int32, a uintptr, lda int32) error {
	f := l.begin(t, "aclblasSger", handle, onBoth)
	f.sizes(m, n)
	f.quick(m == 0 || n == 0)
	s := f.scalar("alpha", alpha, f32, false)
	f.present(x, y, a)
	f.leading("lda", lda, m)
	f.steps(incx, incy)
	f.quick(s.host == 0)
	return f.rank1(s, vector("x", x, int(m), int(incx), f32), vector("y", y, int(n), int(incy), f32), matrix("A", a, int(m), int(n), int(lda), f32), abi.ACLBLAS_OP_T, false)
}

// aclblasCgerc has rows of lda numbers, and strides of 1.
func (l *Library) aclblasCgerc(t *rt.Thread, handle *Handle, m, n int64, alpha complexValue, x uintptr, incx int64, y uintptr, incy int64, a uintptr, lda int64) error {
	f := l.begin(t, "aclblasCgerc", handle, on910B)
	f.sizes(int32(m), int32(n))
	f.quick(m == 0 || n == 0)
	f.present(x, y, a)
	f.supports(incx == 1 && incy == 1 && lda == n, "strides %d and %d, lda %d; the kernel takes 1, 1 and n", incx, incy, lda)
	return f.rank1(scalar{host: alpha.wide()}, vector("x", x, int(m), 1, c64), vector("y", y, int(n), 1, c64), byRows("A", a, int(m), int(n), int(lda), c64), abi.ACLBLAS_OP_C, false)
}

// outer returns x op(y), and with both x op(y) + y op(x).
func outer(x, y dense, op int32, both bool) dense {
	sum := product(x, applied(y, op))
	if both {
		for i, e := range product(y, applied(x, op)).v {
			sum.v[i] += e
		}
	}
	return sum
}

// rank1 queues A += alpha x op(y), and with both also alpha y op(x).
func (c *call) rank1(alpha scalar, x, y, a view, op int32, both bool) error {
	c.reads(x, y)
	c.updates(a)
	return c.run(func(d *device) {
		u, v, s := d.load(x), d.load(y), d.number(alpha)
		d.store(a, mixed(s, outer(u, v, op, both), 1, d.load(a)))
	})
}

func (l *Library) aclblasSsyr(t *rt.Thread, handle *Handle, uplo, n int32, alpha, x uintptr, incx int32, a uintptr, lda int32) error {
	f := l.begin(t, "aclblasSsyr", handle, onBoth)
	f.sizes(n)
	f.quick(n == 0)
	p := f.triangle(invalidValue, uplo)
	f.leading("lda", lda, n)
	f.steps(incx)
	s := f.scalar("alpha", alpha, f32, true)
	f.present(x, a)
	v := vector("x", x, int(n), int(incx), f32)
	return f.rank1(s, v, v, matrix("A", a, int(n), int(n), int(lda), f32).half(p), abi.ACLBLAS_OP_T, false)
}

func (l *Library) aclblasSsyr2(t *rt.Thread, handle *Handle, uplo, n int32, alpha, x uintptr, incx int32, y uintptr, incy int32, a uintptr, lda int32) error {
	f := l.begin(t, "aclblasSsyr2", handle, onBoth)
	f.sizes(n)
	f.quick(n == 0)
	p := f.triangle(invalidValue, uplo)
	f.leading("lda", lda, n)
	f.steps(incx, incy)
	s := f.scalar("alpha", alpha, f32, false)
	f.present(x, y, a)
	return f.rank1(s, vector("x", x, int(n), int(incx), f32), vector("y", y, int(n), int(incy), f32), matrix("A", a, int(n), int(n), int(lda), f32).half(p), abi.ACLBLAS_OP_T, true)
}

// packedRank1 is rank1 for a matrix of which one triangle is stored.
func (c *call) packedRank1(alpha scalar, p part, x, y view, ap uintptr, both bool) error {
	n := x.rows
	a := vector("AP", ap, n*(n+1)/2, 1, f32)
	c.reads(x, y)
	c.updates(a)
	return c.run(func(d *device) {
		u, v, s := d.load(x), d.load(y), d.number(alpha)
		d.store(a, mixed(s, repacked(outer(u, v, abi.ACLBLAS_OP_T, both), p), 1, d.load(a)))
	})
}

func (l *Library) aclblasSspr(t *rt.Thread, handle *Handle, uplo, n int32, alpha, x uintptr, incx int32, ap uintptr) error {
	f := l.begin(t, "aclblasSspr", handle, on950)
	f.sizes(n)
	f.quick(n == 0)
	s := f.scalar("alpha", alpha, f32, true)
	p := f.triangle(invalidValue, uplo)
	f.steps(incx)
	f.present(x, ap)
	v := vector("x", x, int(n), int(incx), f32)
	return f.packedRank1(s, p, v, v, ap, false)
}

func (l *Library) aclblasSspr2(t *rt.Thread, handle *Handle, uplo, n int32, alpha, x uintptr, incx int32, y uintptr, incy int32, ap uintptr) error {
	f := l.begin(t, "aclblasSspr2", handle, on950)
	f.sizes(n)
	f.quick(n == 0)
	s := f.scalar("alpha", alpha, f32, false)
	p := f.triangle(invalidValue, uplo)
	f.steps(incx, incy)
	f.present(x, y, ap)
	return f.packedRank1(s, p, vector("x", x, int(n), int(incx), f32), vector("y", y, int(n), int(incy), f32), ap, true)
}

func (l *Library) aclblasSsymv(t *rt.Thread, handle *Handle, uplo, n int32, alpha, a uintptr, lda int32, x uintptr, incx int32, beta, y uintptr, incy int32) error {
	f := l.begin(t, "aclblasSsymv", handle, onBoth)
	f.sizes(n)
	f.quick(n == 0)
	p := f.triangle(invalidValue, uplo)
	f.leading("lda", lda, n)
	f.steps(incx, incy)
	alphaS, betaS := f.scalar("alpha", alpha, f32, true), f.scalar("beta", beta, f32, true)
	f.present(a, x, y)
	m := matrix("A", a, int(n), int(n), int(lda), f32).half(p)
	return f.addTo(alphaS, betaS, vector("x", x, int(n), int(incx), f32), vector("y", y, int(n), int(incy), f32), []view{m}, func(d *device) dense { return symmetric(d.load(m), p) })
}

func (l *Library) aclblasSspmv(t *rt.Thread, handle *Handle, uplo, n int32, alpha, ap, x uintptr, incx int32, beta, y uintptr, incy int32) error {
	f := l.begin(t, "aclblasSspmv", handle, onBoth)
	f.sizes(n)
	f.quick(n == 0)
	p := f.triangle(invalidValue, uplo)
	f.steps(incx, incy)
	alphaS, betaS := f.scalar("alpha", alpha, f32, false), f.scalar("beta", beta, f32, false)
	f.present(ap, x, y)
	m := vector("AP", ap, int(n)*(int(n)+1)/2, 1, f32)
	return f.addTo(alphaS, betaS, vector("x", x, int(n), int(incx), f32), vector("y", y, int(n), int(incy), f32), []view{m}, func(d *device) dense { return symmetric(packed(d.load(m), int(n), p), p) })
}

// band is the memory of a matrix with kl diagonals below the main one and ku above it: its diagonals are the rows.
func band(a uintptr, cols, kl, ku, lda int32) view {
	return matrix("A", a, int(kl+ku+1), int(cols), int(lda), f32)
}

func (l *Library) aclblasSgbmv(t *rt.Thread, handle *Handle, trans, m, n, kl, ku int32, alpha, a uintptr, lda int32, x uintptr, incx int32, beta, y uintptr, incy int32) error {
	f := l.begin(t, "aclblasSgbmv", handle, on950)
	f.sizes(m, n)
	f.quick(m == 0 || n == 0)
	f.operation(invalidValue, trans)
	f.sizes(kl, ku)
	f.leading("lda", lda, kl+ku+1)
	f.steps(incx, incy)
	alphaS, betaS := f.scalar("alpha", alpha, f32, true), f.scalar("beta", beta, f32, true)
	f.present(a, x, y)
	nx, ny := lengths(trans, m, n)
	v := band(a, n, kl, ku, lda)
	return f.addTo(alphaS, betaS, vector("x", x, nx, int(incx), f32), vector("y", y, ny, int(incy), f32), []view{v}, func(d *device) dense {
		return applied(banded(d.load(v), int(m), int(n), int(kl), int(ku)), trans)
	})
}

// sides returns the diagonals below and above the main one that a triangle of a band of k has.
func sides(p part, k int32) (kl, ku int32) {
	if p == upper {
		return 0, k
	}
	return k, 0
}

func (l *Library) aclblasSsbmv(t *rt.Thread, handle *Handle, uplo, n, k int32, alpha, a uintptr, lda int32, x uintptr, incx int32, beta, y uintptr, incy int32) error {
	f := l.begin(t, "aclblasSsbmv", handle, on950)
	f.sizes(n)
	f.quick(n == 0)
	p := f.triangle(invalidValue, uplo)
	f.sizes(k)
	f.leading("lda", lda, k+1)
	f.steps(incx, incy)
	alphaS, betaS := f.scalar("alpha", alpha, f32, false), f.scalar("beta", beta, f32, false)
	f.present(a, x, y)
	kl, ku := sides(p, k)
	v := band(a, n, kl, ku, lda)
	return f.addTo(alphaS, betaS, vector("x", x, int(n), int(incx), f32), vector("y", y, int(n), int(incy), f32), []view{v}, func(d *device) dense {
		return symmetric(banded(d.load(v), int(n), int(n), int(kl), int(ku)), p)
	})
}

// triangleOn queues x = op(A) x, or with solve the x with op(A) x = the former one. Of the result, out is written.
func (c *call) triangleOn(a view, full func(dense) dense, p part, trans, diag int32, x, out view, solve bool) error {
	c.reads(a, x)
	c.writes(out)
	return c.run(func(d *device) {
		m := applied(triangular(full(d.load(a)), p, diag), trans)
		v := d.load(x)
		if solve {
			d.store(out, solved(m, (p == lower) == (trans == abi.ACLBLAS_OP_N), v))
		} else {
			d.store(out, product(m, v))
		}
	})
}

func same(a dense) dense { return a }

func (c *call) dense(uplo, trans, diag, n int32, a uintptr, lda int32, x uintptr, incx int32, dt dtype.Type, solve bool) error {
	c.sizes(n)
	c.quick(n == 0)
	p := c.triangle(invalidValue, uplo)
	c.operation(invalidValue, trans)
	c.diagonal(diag)
	c.leading("lda", lda, n)
	c.steps(incx)
	c.present(a, x)
	v := vector("x", x, int(n), int(incx), dt)
	return c.triangleOn(matrix("A", a, int(n), int(n), int(lda), dt).half(p), same, p, trans, diag, v, v, solve)
}

func (l *Library) aclblasStrmv(t *rt.Thread, handle *Handle, uplo, trans, diag, n int32, a uintptr, lda int32, x uintptr, incx int32) error {
	return l.begin(t, "aclblasStrmv", handle, onBoth).dense(uplo, trans, diag, n, a, lda, x, incx, f32, false)
}

func (l *Library) aclblasStrsv(t *rt.Thread, handle *Handle, uplo, trans, diag, n int32, a uintptr, lda int32, x uintptr, incx int32) error {
	return l.begin(t, "aclblasStrsv", handle, onBoth).dense(uplo, trans, diag, n, a, lda, x, incx, f32, true)
}

func (l *Library) aclblasCtrmv(t *rt.Thread, handle *Handle, uplo, trans, diag int32, n int64, a uintptr, lda int64, x uintptr, incx int64) error {
	f := l.begin(t, "aclblasCtrmv", handle, on910B)
	f.need(n >= 1 && n <= 8192 && incx > 0 && lda > 0, "n %d, lda %d, incx %d", n, lda, incx)
	return f.dense(uplo, trans, diag, int32(n), a, int32(lda), x, int32(incx), c64, false)
}

func (c *call) packedTriangle(uplo, trans, diag int32, n int, ap, x uintptr, incx int, out func(x view) view, solve bool) error {
	c.sizes(int32(n))
	c.quick(n == 0)
	p := c.triangle(invalidValue, uplo)
	c.operation(invalidValue, trans)
	c.diagonal(diag)
	c.need(incx != 0 && incx != math.MinInt32, "a stride is %d", incx)
	c.present(ap, x)
	v := vector("x", x, n, incx, f32)
	return c.triangleOn(vector("AP", ap, n*(n+1)/2, 1, f32), func(a dense) dense { return packed(a, n, p) }, p, trans, diag, v, out(v), solve)
}

func inPlace(x view) view { return x }

func elsewhere(y uintptr) func(view) view {
	return func(x view) view {
		x.name, x.addr = "y", uint64(y)
		return x
	}
}

func (l *Library) aclblasStpmv(t *rt.Thread, handle *Handle, uplo, trans, diag, n int32, ap, x uintptr, incx int32) error {
	return l.begin(t, "aclblasStpmv", handle, on950).packedTriangle(uplo, trans, diag, int(n), ap, x, int(incx), inPlace, false)
}

func (l *Library) aclblasStpsv(t *rt.Thread, handle *Handle, uplo, trans, diag, n int32, ap, x uintptr, incx int32) error {
	return l.begin(t, "aclblasStpsv", handle, on950).packedTriangle(uplo, trans, diag, int(n), ap, x, int(incx), inPlace, true)
}

func (l *Library) aclblasStpmv_legacy(t *rt.Thread, handle *Handle, uplo, trans, diag int32, n int64, aPacked, x, y uintptr, incx int64) error {
	f := l.begin(t, "aclblasStpmv_legacy", handle, on910B)
	f.present(y)
	return f.packedTriangle(uplo, trans, diag, int(n), aPacked, x, int(incx), elsewhere(y), false)
}

func (c *call) bandTriangle(uplo, trans, diag, n, k int32, a uintptr, lda int32, x uintptr, incx int32, out func(x view) view, solve bool) error {
	c.sizes(n)
	c.quick(n == 0)
	p := c.triangle(invalidValue, uplo)
	c.operation(invalidValue, trans)
	c.diagonal(diag)
	c.sizes(k)
	c.leading("lda", lda, k+1)
	c.steps(incx)
	c.present(a, x)
	kl, ku := sides(p, k)
	v := vector("x", x, int(n), int(incx), f32)
	return c.triangleOn(band(a, n, kl, ku, lda), func(a dense) dense { return banded(a, int(n), int(n), int(kl), int(ku)) }, p, trans, diag, v, out(v), solve)
}

func (l *Library) aclblasStbmv(t *rt.Thread, handle *Handle, uplo, trans, diag, n, k int32, a uintptr, lda int32, x uintptr, incx int32) error {
	return l.begin(t, "aclblasStbmv", handle, on950).bandTriangle(uplo, trans, diag, n, k, a, lda, x, incx, inPlace, false)
}

func (l *Library) aclblasStbsv(t *rt.Thread, handle *Handle, uplo, trans, diag, n, k int32, a uintptr, lda int32, x uintptr, incx int32) error {
	return l.begin(t, "aclblasStbsv", handle, on950).bandTriangle(uplo, trans, diag, n, k, a, lda, x, incx, inPlace, true)
}

func (l *Library) aclblasStbmv_legacy(t *rt.Thread, handle *Handle, uplo, trans, diag int32, a uintptr, lda int64, x, y uintptr, n, k, incx int64) error {
	f := l.begin(t, "aclblasStbmv_legacy", handle, on910B)
	f.present(y)
	return f.bandTriangle(uplo, trans, diag, int32(n), int32(k), a, int32(lda), x, int32(incx), elsewhere(y), false)
}

// The next two change the form in which a triangle is stored.

func (l *Library) aclblasStpttr(t *rt.Thread, handle *Handle, uplo, n int32, ap, a uintptr, lda int32) error {
	f := l.begin(t, "aclblasStpttr", handle, on950)
	f.sizes(n)
	p := f.triangle(invalidValue, uplo)
	f.quick(n == 0)
	f.leading("lda", lda, n)
	f.present(ap, a)
	from, to := vector("AP", ap, int(n)*(int(n)+1)/2, 1, f32), matrix("A", a, int(n), int(n), int(lda), f32).half(p)
	f.reads(from)
	f.writes(to)
	return f.run(func(d *device) { d.store(to, packed(d.load(from), int(n), p)) })
}

func (l *Library) aclblasStrttp(t *rt.Thread, handle *Handle, uplo, n int32, a uintptr, lda int32, ap uintptr) error {
	f := l.begin(t, "aclblasStrttp", handle, on950)
	f.sizes(n)
	p := f.triangle(invalidValue, uplo)
	f.quick(n == 0)
	f.present(a, ap)
	f.leading("lda", lda, n)
	from, to := matrix("A", a, int(n), int(n), int(lda), f32).half(p), vector("AP", ap, int(n)*(int(n)+1)/2, 1, f32)
	f.reads(from)
	f.writes(to)
	return f.run(func(d *device) { d.store(to, repacked(d.load(from), p)) })
}

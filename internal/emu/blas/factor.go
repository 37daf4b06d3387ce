package blas

import (
	"math"
	"math/cmplx"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/rt"
)

// factored replaces a by the factors of P a = L U, and returns the rows that were exchanged, counted from 1, and the first
// column, counted from 1, whose pivot is 0; else 0.
func factored(a dense, pivoting bool) (pivots []int32, singular int32) {
	n := a.rows
	pivots = make([]int32, n)
	for k := range n {
		best := k
		if pivoting {
			for r := k + 1; r < n; r++ {
				if cmplx.Abs(*a.at(r, k)) > cmplx.Abs(*a.at(best, k)) {
					best = r
				}
			}
		}
		pivots[k] = int32(best + 1)
		if real(*a.at(best, k)) == 0 {
			if singular == 0 {
				singular = int32(k + 1)
			}
			continue
		}
		for c := range n {
			x, y := a.at(k, c), a.at(best, c)
			*x, *y = *y, *x
		}
		for r := k + 1; r < n; r++ {
			*a.at(r, k) = complex(real(*a.at(r, k))/real(*a.at(k, k)), 0)
			for c := k + 1; c < n; c++ {
				*a.at(r, c) -= times(*a.at(r, k), *a.at(k, c))
			}
		}
	}
	return pivots, singular
}

// exchange applies the exchanges of rows to b, or takes them back.
func exchange(b dense, pivots []int32, back bool) {
	for i := range pivots {
		k := i
		if back {
			k = len(pivots) - 1 - i
		}
		p := int(pivots[k]) - 1
		if p < 0 || p >= b.rows {
			continue // the library reads beyond the matrix
		}
		for c := range b.cols {
			x, y := b.at(k, c), b.at(p, c)
			*x, *y = *y, *x
		}
	}
}

// withFactors returns the x with op(a) x = b for a in factors.
func withFactors(a dense, pivots []int32, op int32, b dense) dense {
	low := triangular(dense{a.rows, a.cols, append([]complex128(nil), a.v...)}, lower, abi.ACLBLAS_UNIT)
	up := triangular(dense{a.rows, a.cols, append([]complex128(nil), a.v...)}, upper, abi.ACLBLAS_NON_UNIT)
	x := dense{b.rows, b.cols, append([]complex128(nil), b.v...)}
	if op == abi.ACLBLAS_OP_N {
		exchange(x, pivots, false)
		return solved(up, false, solved(low, true, x))
	}
	x = solved(applied(low, abi.ACLBLAS_OP_T), false, solved(applied(up, abi.ACLBLAS_OP_T), true, x))
	exchange(x, pivots, true)
	return x
}

func identity(n int) dense {
	x := zeros(n, n)
	for i := range n {
		*x.at(i, i) = 1
	}
	return x
}

// column returns integers as a matrix of one column.
func column(v ...int32) dense {
	x := zeros(len(v), 1)
	for i, e := range v {
		x.v[i] = complex(float64(e), 0)
	}
	return x
}

// pivotsAt returns the exchanges of matrix i; none if the array is null.
func (d *device) pivotsAt(array uintptr, i, n int) []int32 {
	if array == 0 {
		return nil
	}
	p := make([]int32, n)
	for j, e := range d.load(vector("pivots", array+uintptr(4*i*n), n, 1, dtype.Int32)).v {
		p[j] = int32(real(e))
	}
	return p
}

func (l *Library) aclblasSgetrfBatched(t *rt.Thread, handle *Handle, n int32, aarray uintptr, lda int32, pivotArray, infoArray uintptr, batchSize int32) error {
	f := l.begin(t, "aclblasSgetrfBatched", handle, on950)
	f.sizes(n, batchSize)
	f.leading("lda", lda, n)
	f.quick(n == 0 || batchSize == 0)
	f.present(aarray)
	f.need(pivotArray == 0 || infoArray != 0, "infoArray is null")
	f.reads(vector("Aarray", aarray, int(batchSize), 1, dtype.Uint64))
	return f.run(func(d *device) {
		for i, a := range d.pointers("Aarray", aarray, int(batchSize)) {
			v := matrix("A", a, int(n), int(n), int(lda), f32)
			x := d.load(v)
			pivots, singular := factored(x, pivotArray != 0)
			d.store(v, x)
			if pivotArray != 0 {
				d.store(vector("PivotArray", pivotArray+uintptr(4*i*int(n)), int(n), 1, dtype.Int32), column(pivots...))
			}
			if infoArray != 0 {
				d.store(vector("infoArray", infoArray+uintptr(4*i), 1, 1, dtype.Int32), column(singular))
			}
		}
	})
}

func (l *Library) aclblasSgetriBatched(t *rt.Thread, handle *Handle, n int32, aarray uintptr, lda int32, pivotArray, carray uintptr, ldc int32, infoArray uintptr, batchSize int32) error {
	f := l.begin(t, "aclblasSgetriBatched", handle, on950)
	f.sizes(n, batchSize)
	f.leading("lda", lda, n)
	f.leading("ldc", ldc, n)
	f.quick(n == 0 || batchSize == 0)
	f.present(aarray, carray, infoArray)
	f.reads(vector("Aarray", aarray, int(batchSize), 1, dtype.Uint64), vector("Carray", carray, int(batchSize), 1, dtype.Uint64))
	return f.run(func(d *device) {
		inverses := d.pointers("Carray", carray, int(batchSize))
		for i, a := range d.pointers("Aarray", aarray, int(batchSize)) {
			x := d.load(matrix("A", a, int(n), int(n), int(lda), f32))
			d.invert(x, d.pivotsAt(pivotArray, i, int(n)), matrix("C", inverses[i], int(n), int(n), int(ldc), f32), infoArray+uintptr(4*i))
		}
	})
}

// invert writes the inverse of a matrix in factors, and which element of the diagonal is 0 instead if one is.
func (d *device) invert(x dense, pivots []int32, out view, info uintptr) {
	singular := int32(0)
	for k := range x.rows {
		if *x.at(k, k) == 0 && singular == 0 {
			singular = int32(k + 1)
		}
	}
	if singular == 0 {
		d.store(out, withFactors(x, pivots, abi.ACLBLAS_OP_N, identity(x.rows)))
	}
	d.store(vector("info", info, 1, 1, dtype.Int32), column(singular))
}

func (l *Library) aclblasSmatinvBatched(t *rt.Thread, handle *Handle, n int32, a uintptr, lda int32, ainv uintptr, ldaInv int32, info uintptr, batchSize int32) error {
	f := l.begin(t, "aclblasSmatinvBatched", handle, on950)
	f.need(n >= 0 && n <= 32, "n is %d; it is at most 32", n)
	f.sizes(batchSize)
	f.leading("lda", lda, n)
	f.leading("lda_inv", ldaInv, n)
	f.quick(n == 0 || batchSize == 0)
	f.present(a, ainv, info)
	if f.err == nil && !f.done && handle.own == 0 { // the program's workspace
		need := uint64(batchSize)*8 + uint64(n)*uint64(n)*uint64(batchSize)*4 + uint64(n)*uint64(batchSize)*4
		f.code(handle.given >= need, abi.ACLBLAS_STATUS_EXECUTION_FAILED, "the workspace has %d bytes, and the function needs %d", handle.given, need)
	}
	f.reads(vector("A", a, int(batchSize), 1, dtype.Uint64), vector("Ainv", ainv, int(batchSize), 1, dtype.Uint64))
	return f.run(func(d *device) {
		inverses := d.pointers("Ainv", ainv, int(batchSize))
		for i, at := range d.pointers("A", a, int(batchSize)) {
			x := d.load(matrix("A", at, int(n), int(n), int(lda), f32))
			pivots, _ := factored(x, true)
			d.invert(x, pivots, matrix("Ainv", inverses[i], int(n), int(n), int(ldaInv), f32), info+uintptr(4*i))
		}
	})
}

// aclblasSgetrsBatched reports by info which argument it refuses; the code is that of invalid values, too.
func (l *Library) aclblasSgetrsBatched(t *rt.Thread, handle *Handle, trans, n, nrhs int32, aarray uintptr, lda int32, devIpiv, barray uintptr, ldb int32, info uintptr, batchCount int32) error {
	f := l.begin(t, "aclblasSgetrsBatched", handle, on950)
	f.present(info)
	wrong := int32(0)
	for at, fits := range []bool{trans == abi.ACLBLAS_OP_N || trans == abi.ACLBLAS_OP_T || trans == abi.ACLBLAS_OP_C, n >= 0, nrhs >= 0 && nrhs <= 256, true, lda >= max(1, n), true, true, ldb >= max(1, n), batchCount >= 0} {
		if !fits && wrong == 0 {
			wrong = -int32(at + 1)
		}
	}
	if f.err == nil {
		rt.Out[int32](info).Set(wrong)
	}
	f.need(wrong == 0, "argument %d is wrong", -wrong)
	f.quick(n == 0 || nrhs == 0 || batchCount == 0)
	f.present(aarray, barray)
	f.reads(vector("Aarray", aarray, int(batchCount), 1, dtype.Uint64), vector("Barray", barray, int(batchCount), 1, dtype.Uint64))
	return f.run(func(d *device) {
		right := d.pointers("Barray", barray, int(batchCount))
		for i, a := range d.pointers("Aarray", aarray, int(batchCount)) {
			x, v := d.load(matrix("A", a, int(n), int(n), int(lda), f32)), matrix("B", right[i], int(n), int(nrhs), int(ldb), f32)
			d.store(v, withFactors(x, d.pivotsAt(devIpiv, i, int(n)), trans, d.load(v)))
		}
	})
}

// reflected replaces a by R above the diagonal and the reflectors below it, and returns their factors, as LAPACK's geqrf.
func reflected(a dense) (tau []float64) {
	tau = make([]float64, min(a.rows, a.cols))
	for k := range tau {
		alpha, rest := real(*a.at(k, k)), 0.0
		for r := k + 1; r < a.rows; r++ {
			rest += real(*a.at(r, k)) * real(*a.at(r, k))
		}
		if rest == 0 {
			continue
		}
		beta := -math.Copysign(math.Sqrt(alpha*alpha+rest), alpha)
		tau[k] = (beta - alpha) / beta
		for r := k + 1; r < a.rows; r++ {
			*a.at(r, k) = complex(real(*a.at(r, k))/(alpha-beta), 0)
		}
		*a.at(k, k) = complex(beta, 0)
		for c := k + 1; c < a.cols; c++ {
			reflect(a, k, tau[k], a, c)
		}
	}
	return tau
}

// reflect applies reflector k of a to a column of b.
func reflect(a dense, k int, tau float64, b dense, c int) {
	sum := real(*b.at(k, c))
	for r := k + 1; r < a.rows; r++ {
		sum += real(*a.at(r, k)) * real(*b.at(r, c))
	}
	*b.at(k, c) -= complex(tau*sum, 0)
	for r := k + 1; r < a.rows; r++ {
		*b.at(r, c) -= complex(tau*sum*real(*a.at(r, k)), 0)
	}
}

func (l *Library) aclblasSgeqrfBatched(t *rt.Thread, handle *Handle, m, n int32, aarray uintptr, lda int32, tauArray, info uintptr, batchSize int32) error {
	f := l.begin(t, "aclblasSgeqrfBatched", handle, on950)
	f.present(info)
	wrong := int32(0)
	for at, fits := range []bool{m >= 0, n >= 0, true, lda >= max(1, m), true, batchSize >= 0} {
		if !fits && wrong == 0 {
			wrong = -int32(at + 1)
		}
	}
	if f.err == nil {
		rt.Out[int32](info).Set(wrong)
	}
	f.need(wrong == 0, "argument %d is wrong", -wrong)
	f.quick(m == 0 || n == 0 || batchSize == 0)
	f.present(aarray, tauArray)
	f.reads(vector("Aarray", aarray, int(batchSize), 1, dtype.Uint64), vector("TauArray", tauArray, int(batchSize), 1, dtype.Uint64))
	return f.run(func(d *device) {
		taus := d.pointers("TauArray", tauArray, int(batchSize))
		for i, a := range d.pointers("Aarray", aarray, int(batchSize)) {
			v := matrix("A", a, int(m), int(n), int(lda), f32)
			x := d.load(v)
			tau := reflected(x)
			out := zeros(len(tau), 1)
			for j, e := range tau {
				out.v[j] = complex(e, 0)
			}
			d.store(v, x)
			d.store(vector("Tau", taus[i], len(tau), 1, f32), out)
		}
	})
}

// aclblasSgelsBatched leaves the factors of A, or of its transpose if that is the taller one, in A.
func (l *Library) aclblasSgelsBatched(t *rt.Thread, handle *Handle, trans, m, n, nrhs int32, aarray uintptr, lda int32, carray uintptr, ldc int32, devInfo uintptr, batchSize int32) error {
	f := l.begin(t, "aclblasSgelsBatched", handle, on950)
	f.code(trans == abi.ACLBLAS_OP_N || trans == abi.ACLBLAS_OP_T, invalidEnum, "trans is %d; it is N or T", trans)
	f.sizes(m, n, nrhs, batchSize)
	f.leading("lda", lda, m)
	f.leading("ldc", ldc, max(m, n))
	f.need(batchSize == 0 || aarray != 0 && carray != 0, "Aarray or Carray is null")
	f.present(devInfo)
	f.quick(m == 0 || n == 0 || nrhs == 0 || batchSize == 0)
	f.reads(vector("Aarray", aarray, int(batchSize), 1, dtype.Uint64), vector("Carray", carray, int(batchSize), 1, dtype.Uint64))
	return f.run(func(d *device) {
		right := d.pointers("Carray", carray, int(batchSize))
		for i, at := range d.pointers("Aarray", aarray, int(batchSize)) {
			v, cv := matrix("A", at, int(m), int(n), int(lda), f32), matrix("C", right[i], int(max(m, n)), int(nrhs), int(ldc), f32)
			singular := d.leastSquares(v, trans, cv)
			d.store(vector("devInfo", devInfo+uintptr(4*i), 1, 1, dtype.Int32), column(singular))
		}
	})
}

// leastSquares replaces the first rows of c by the x that makes op(a) x - c shortest, or the shortest x with op(a) x = c.
// It returns the first column, counted from 1, that depends on those before it; else 0.
func (d *device) leastSquares(av view, trans int32, cv view) int32 {
	x, b := d.load(av), d.load(cv)
	whole := applied(x, trans) // the matrix of the equations
	tall := whole.rows >= whole.cols
	q := whole
	if !tall {
		q = applied(whole, abi.ACLBLAS_OP_T)
	}
	tau := reflected(q)
	n := q.cols
	r := zeros(n, n)
	for c := range n {
		for k := range c + 1 {
			*r.at(k, c) = *q.at(k, c)
		}
		if *r.at(c, c) == 0 {
			return int32(c + 1)
		}
	}
	apply := func(y dense, back bool) {
		for i := range tau {
			k := i
			if back {
				k = len(tau) - 1 - i
			}
			for c := range y.cols {
				reflect(q, k, tau[k], y, c)
			}
		}
	}
	top := func(y dense, rows int) dense {
		z := zeros(rows, y.cols)
		for c := range y.cols {
			copy(z.v[c*rows:][:rows], y.v[c*y.rows:])
		}
		return z
	}
	put := func(y dense) {
		for c := range y.cols {
			copy(b.v[c*b.rows:], y.v[c*y.rows:][:y.rows])
		}
	}
	if tall { // R x = Q' c
		y := top(b, q.rows)
		apply(y, false)
		put(y)
		put(solved(r, false, top(y, n)))
	} else { // x = Q R'^-1 c
		y := zeros(q.rows, b.cols)
		z := solved(applied(r, abi.ACLBLAS_OP_T), true, top(b, n))
		for c := range z.cols {
			copy(y.v[c*y.rows:], z.v[c*z.rows:][:z.rows])
		}
		apply(y, true)
		put(y)
	}
	if tall == (trans == abi.ACLBLAS_OP_N) {
		d.store(av, q)
	} else {
		d.store(av, applied(q, abi.ACLBLAS_OP_T))
	}
	d.store(cv, b)
	return 0
}

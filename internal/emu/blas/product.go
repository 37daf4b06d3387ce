package blas

import (
	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/rt"
)

// problem is one product: c = alpha op(a) op(b) + beta c.
type problem struct {
	a           view
	opA         int32
	b           view
	opB         int32
	c           view
	alpha, beta complex128
}

func (p problem) solve(d *device) {
	old := zeros(p.c.rows, p.c.cols)
	if p.beta != 0 {
		old = d.load(p.c)
	}
	sum := zeros(p.c.rows, p.c.cols)
	if p.alpha != 0 && !p.a.empty() {
		sum = product(applied(d.load(p.a), p.opA), applied(d.load(p.b), p.opB))
	}
	d.store(p.c, mixed(p.alpha, sum, p.beta, old))
}

func (p problem) touches(c *call) {
	if p.alpha != 0 {
		c.reads(p.a, p.b)
	}
	if p.beta != 0 {
		c.reads(p.c)
	}
	c.writes(p.c)
}

// batch queues several products whose places are known at the call.
func (c *call) batch(n int, f func(i int) problem) error {
	if c.err != nil || c.done {
		return c.err
	}
	all := make([]problem, n)
	for i := range all {
		all[i] = f(i)
		all[i].touches(c)
	}
	return c.run(func(d *device) {
		for _, p := range all {
			p.solve(d)
		}
	})
}

// shape is the sizes of a product.
type shape struct {
	opA, opB, m, n, k, lda, ldb, ldc int32
}

// check refuses negative sizes, unknown operations and leading dimensions that are smaller than the rows of a matrix.
func (s shape) check(c *call, code int32) {
	c.sizes(s.m, s.n, s.k)
	c.operation(code, s.opA, s.opB)
	rowsA, rowsB := s.m, s.k
	if s.opA != abi.ACLBLAS_OP_N {
		rowsA = s.k
	}
	if s.opB != abi.ACLBLAS_OP_N {
		rowsB = s.n
	}
	c.leading("lda", s.lda, rowsA)
	c.leading("ldb", s.ldb, rowsB)
	c.leading("ldc", s.ldc, s.m)
}

// problem returns the product of matrices at three addresses.
func (s shape) problem(a, b, c uintptr, atype, btype, ctype dtype.Type, alpha, beta complex128) problem {
	order := func(op, rows, cols int32) (int, int) {
		if op == abi.ACLBLAS_OP_N {
			return int(rows), int(cols)
		}
		return int(cols), int(rows)
	}
	ra, ca := order(s.opA, s.m, s.k)
	rb, cb := order(s.opB, s.k, s.n)
	return problem{
		matrix("A", a, ra, ca, int(s.lda), atype), s.opA, matrix("B", b, rb, cb, int(s.ldb), btype), s.opB,
		matrix("C", c, int(s.m), int(s.n), int(s.ldc), ctype), alpha, beta,
	}
}

// one queues a single product.
func (c *call) one(s shape, a, b, to uintptr, atype, btype, ctype dtype.Type, alpha, beta scalar) error {
	c.quick(s.m == 0 || s.n == 0)
	if s.k > 0 {
		c.present(a, b)
	}
	c.need(beta.host == 0 || to != 0, "C is null")
	c.quick(to == 0)
	return c.batch(1, func(int) problem { return s.problem(a, b, to, atype, btype, ctype, alpha.host, beta.host) })
}

func (l *Library) aclblasSgemmEx(t *rt.Thread, handle *Handle, transA, transB, m, n, k int32, alpha, a uintptr, lda int32, b uintptr, ldb int32, beta, c uintptr, ldc, algo int32) error {
	f := l.begin(t, "aclblasSgemmEx", handle, on950)
	s := shape{transA, transB, m, n, k, lda, ldb, ldc}
	s.check(f, invalidValue)
	p, q := f.scalar("alpha", alpha, f32, false), f.scalar("beta", beta, f32, false)
	f.supports(algo == abi.ACLBLAS_GEMM_DEFAULT, "algo is %d; it is ACLBLAS_GEMM_DEFAULT", algo)
	return f.one(s, a, b, c, f32, f32, f32, p, q)
}

func eight(dt dtype.Type) bool { return dt == dtype.Float8E4M3 || dt == dtype.Float8E5M2 }

// types refuses combinations for which there is no kernel, and returns the type of alpha and beta.
func (c *call) types(atype, btype, ctype dtype.Type, compute int32, halfSums bool) dtype.Type {
	sixteen := atype == btype && btype == ctype && (atype == dtype.Float16 || atype == dtype.BFloat16)
	fits := compute == abi.ACLBLAS_COMPUTE_32F && (sixteen || eight(atype) && eight(btype) && ctype == dtype.Float16)
	half := halfSums && compute == abi.ACLBLAS_COMPUTE_16F && sixteen && atype == dtype.Float16
	c.supports(fits || half, "A is %v, B %v, C %v and computeType %d; there are kernels for float16 and bfloat16 alike, and for 8-bit factors of a float16 product", atype, btype, ctype, compute)
	if half {
		return dtype.Float16
	}
	return f32
}

func (l *Library) aclblasGemmEx(t *rt.Thread, handle *Handle, transA, transB, m, n, k int32, alpha, a uintptr, atype dtype.Type, lda int32, b uintptr, btype dtype.Type, ldb int32, beta, c uintptr, ctype dtype.Type, ldc, computeType, algo int32) error {
	f := l.begin(t, "aclblasGemmEx", handle, on950)
	s := shape{transA, transB, m, n, k, lda, ldb, ldc}
	s.check(f, invalidValue)
	f.supports(algo == abi.ACLBLAS_GEMM_DEFAULT, "algo is %d; it is ACLBLAS_GEMM_DEFAULT", algo)
	dt := f.types(atype, btype, ctype, computeType, true)
	return f.one(s, a, b, c, atype, btype, ctype, f.scalar("alpha", alpha, dt, false), f.scalar("beta", beta, dt, false))
}

// batched queues products whose matrices lie at addresses that the device holds.
func (c *call) batched(s shape, alpha, beta scalar, aarray uintptr, atype dtype.Type, barray uintptr, btype dtype.Type, carray uintptr, ctype dtype.Type, n int32) error {
	c.sizes(n)
	c.quick(s.m == 0 || s.n == 0 || n == 0)
	c.present(aarray, barray, carray)
	for _, v := range []view{vector("Aarray", aarray, int(n), 1, dtype.Uint64), vector("Barray", barray, int(n), 1, dtype.Uint64), vector("Carray", carray, int(n), 1, dtype.Uint64)} {
		c.reads(v)
	}
	return c.run(func(d *device) {
		a, b, to := d.pointers("Aarray", aarray, int(n)), d.pointers("Barray", barray, int(n)), d.pointers("Carray", carray, int(n))
		for i := range a {
			s.problem(a[i], b[i], to[i], atype, btype, ctype, alpha.host, beta.host).solve(d)
		}
	})
}

func (l *Library) aclblasSgemmBatched(t *rt.Thread, handle *Handle, transa, transb, m, n, k int32, alpha, aarray uintptr, lda int32, barray uintptr, ldb int32, beta, carray uintptr, ldc, batchCount int32) error {
	f := l.begin(t, "aclblasSgemmBatched", handle, on950)
	p, q := f.scalar("alpha", alpha, f32, false), f.scalar("beta", beta, f32, false)
	s := shape{transa, transb, m, n, k, lda, ldb, ldc}
	s.check(f, invalidValue)
	return f.batched(s, p, q, aarray, f32, barray, f32, carray, f32, batchCount)
}

func (l *Library) aclblasCgemmBatched(t *rt.Thread, handle *Handle, transa, transb, m, n, k int32, alpha, aarray uintptr, lda int32, barray uintptr, ldb int32, beta, carray uintptr, ldc, batchCount int32) error {
	f := l.begin(t, "aclblasCgemmBatched", handle, on950)
	p, q := f.scalar("alpha", alpha, c64, false), f.scalar("beta", beta, c64, false)
	s := shape{transa, transb, m, n, k, lda, ldb, ldc}
	s.check(f, invalidValue)
	return f.batched(s, p, q, aarray, c64, barray, c64, carray, c64, batchCount)
}

func (l *Library) aclblasGemmBatchedEx(t *rt.Thread, handle *Handle, transa, transb, m, n, k int32, alpha, aarray uintptr, atype dtype.Type, lda int32, barray uintptr, btype dtype.Type, ldb int32, beta, carray uintptr, ctype dtype.Type, ldc, batchCount, computeType, algo int32) error {
	f := l.begin(t, "aclblasGemmBatchedEx", handle, on950)
	s := shape{transa, transb, m, n, k, lda, ldb, ldc}
	s.check(f, invalidValue)
	f.supports(algo == abi.ACLBLAS_GEMM_DEFAULT, "algo is %d; it is ACLBLAS_GEMM_DEFAULT", algo)
	dt := f.types(atype, btype, ctype, computeType, true)
	return f.batched(s, f.scalar("alpha", alpha, dt, false), f.scalar("beta", beta, dt, false), aarray, atype, barray, btype, carray, ctype, batchCount)
}

// ints are n numbers in host memory.
func ints(at uintptr, n int32) []int32 { return rt.In[int32](at).Slice(uint64(n)) }

// grouped is a call with several shapes, each for some products.
func (c *call) grouped(code, groups int32, opA, opB, m, n, k, alphas, aarray uintptr, atype dtype.Type, lda, barray uintptr, btype dtype.Type, ldb, betas, carray uintptr, ctype dtype.Type, ldc, sizes uintptr, dt dtype.Type, onDevice bool) error {
	c.sizes(groups)
	c.quick(groups == 0)
	c.present(opA, opB, m, n, k, alphas, lda, ldb, betas, ldc, sizes)
	if c.err != nil || c.done {
		return c.err
	}
	type group struct {
		shape
		alpha, beta complex128
		count       int32
	}
	all := make([]group, groups)
	total := 0
	for g := range all {
		at := func(p uintptr) int32 { return ints(p, groups)[g] }
		size := uintptr(dt.Size() * g)
		all[g] = group{
			shape{at(opA), at(opB), at(m), at(n), at(k), at(lda), at(ldb), at(ldc)},
			c.scalar("alphaArray", alphas+size, dt, false).host, c.scalar("betaArray", betas+size, dt, false).host, at(sizes),
		}
		if code == invalidEnum {
			c.code(all[g].opA != abi.ACLBLAS_OP_C && all[g].opB != abi.ACLBLAS_OP_C, code, "an operation of group %d is ACLBLAS_OP_C; the function takes N and T", g)
		}
		all[g].check(c, code)
		c.sizes(all[g].count)
		total += int(max(0, all[g].count))
	}
	c.quick(total == 0)
	c.present(aarray, barray, carray)
	work := func(d *device, a, b, to []uintptr) {
		i := 0
		for _, g := range all {
			for range g.count {
				g.problem(a[i], b[i], to[i], atype, btype, ctype, g.alpha, g.beta).solve(d)
				i++
			}
		}
	}
	if onDevice {
		for _, p := range []uintptr{aarray, barray, carray} {
			c.reads(vector("addresses", p, total, 1, dtype.Uint64))
		}
		return c.run(func(d *device) {
			work(d, d.pointers("Aarray", aarray, total), d.pointers("Barray", barray, total), d.pointers("Carray", carray, total))
		})
	}
	for _, p := range []uintptr{aarray, barray, carray} {
		c.need(!c.l.rt.OnDevice(uint64(p)), "an array of addresses is device memory; the function reads it on the host")
	}
	if c.err != nil {
		return c.err
	}
	list := func(p uintptr) []uintptr { return append([]uintptr(nil), rt.In[uintptr](p).Slice(uint64(total))...) }
	a, b, to := list(aarray), list(barray), list(carray)
	return c.run(func(d *device) { work(d, a, b, to) })
}

func (l *Library) aclblasSgemmGroupedBatched(t *rt.Thread, handle *Handle, groupCount int32, transaArray, transbArray, mArray, nArray, kArray, alphaArray, aarray, ldaArray, barray, ldbArray, betaArray, carray, ldcArray, groupSizeArray uintptr) error {
	f := l.begin(t, "aclblasSgemmGroupedBatched", handle, on950)
	return f.grouped(invalidEnum, groupCount, transaArray, transbArray, mArray, nArray, kArray, alphaArray, aarray, f32, ldaArray, barray, f32, ldbArray, betaArray, carray, f32, ldcArray, groupSizeArray, f32, false)
}

func (l *Library) aclblasGemmGroupedBatchedEx(t *rt.Thread, handle *Handle, transaArray, transbArray, mArray, nArray, kArray, alphaArray, aarray uintptr, atype dtype.Type, ldaArray, barray uintptr, btype dtype.Type, ldbArray, betaArray, carray uintptr, ctype dtype.Type, ldcArray uintptr, groupCount int32, groupSize uintptr, computeType int32) error {
	f := l.begin(t, "aclblasGemmGroupedBatchedEx", handle, on950)
	dt := f.types(atype, btype, ctype, computeType, true)
	return f.grouped(invalidValue, groupCount, transaArray, transbArray, mArray, nArray, kArray, alphaArray, aarray, atype, ldaArray, barray, btype, ldbArray, betaArray, carray, ctype, ldcArray, groupSize, dt, true)
}

// gemvBatched is a product with vectors whose addresses the device holds.
func (c *call) gemvBatched(trans, m, n int32, alpha, aarray uintptr, lda int32, xarray uintptr, incx int32, beta, yarray uintptr, incy, batchCount int32, in, out dtype.Type) error {
	c.need(m > 0 && n > 0, "m is %d and n %d; both are positive", m, n)
	c.leading("lda", lda, m)
	c.need(incx != 0 && incy != 0 && batchCount > 0, "strides %d and %d, batchCount %d", incx, incy, batchCount)
	c.present(aarray, xarray, yarray)
	p, q := c.scalar("alpha", alpha, f32, false), c.scalar("beta", beta, f32, false)
	c.code(trans == abi.ACLBLAS_OP_N || trans == abi.ACLBLAS_OP_T, invalidEnum, "trans is %d; it is N or T", trans)
	if c.err != nil {
		return c.err
	}
	nx, ny := lengths(trans, m, n)
	for _, a := range []uintptr{aarray, xarray, yarray} {
		c.reads(vector("addresses", a, int(batchCount), 1, dtype.Uint64))
	}
	return c.run(func(d *device) {
		a, x, y := d.pointers("Aarray", aarray, int(batchCount)), d.pointers("xarray", xarray, int(batchCount)), d.pointers("yarray", yarray, int(batchCount))
		for i := range a {
			problem{
				matrix("A", a[i], int(m), int(n), int(lda), in), trans, vector("x", x[i], nx, int(incx), in), abi.ACLBLAS_OP_N,
				vector("y", y[i], ny, int(incy), out), p.host, q.host,
			}.solve(d)
		}
	})
}

// gemvStrided is a product with vectors and matrices that lie some distance apart.
func (c *call) gemvStrided(trans, m, n int32, alpha, a uintptr, lda int32, strideA int64, x uintptr, incx int32, stridex int64, beta, y uintptr, incy int32, stridey int64, batchCount int32, in, out dtype.Type) error {
	c.sizes(m, n, batchCount)
	c.quick(m == 0 || n == 0 || batchCount == 0)
	c.operation(invalidEnum, trans)
	c.leading("lda", lda, m)
	c.need(strideA > 0 && stridex > 0 && stridey > 0, "distances %d, %d and %d", strideA, stridex, stridey)
	c.steps(incx, incy)
	p, q := c.scalar("alpha", alpha, f32, false), c.scalar("beta", beta, f32, false)
	c.present(a, x, y)
	nx, ny := lengths(trans, m, n)
	at := func(base uintptr, i int, stride int64, dt dtype.Type) uintptr {
		return base + uintptr(int64(i)*stride*int64(dt.Size()))
	}
	return c.batch(int(batchCount), func(i int) problem {
		return problem{
			matrix("A", at(a, i, strideA, in), int(m), int(n), int(lda), in), trans, vector("x", at(x, i, stridex, in), nx, int(incx), in), abi.ACLBLAS_OP_N,
			vector("y", at(y, i, stridey, out), ny, int(incy), out), p.host, q.host,
		}
	})
}

func (l *Library) aclblasSgemvBatched(t *rt.Thread, handle *Handle, trans, m, n int32, alpha, aarray uintptr, lda int32, xarray uintptr, incx int32, beta, yarray uintptr, incy, batchCount int32) error {
	return l.begin(t, "aclblasSgemvBatched", handle, on950).gemvBatched(trans, m, n, alpha, aarray, lda, xarray, incx, beta, yarray, incy, batchCount, f32, f32)
}

func (l *Library) aclblasSgemvStridedBatched(t *rt.Thread, handle *Handle, trans, m, n int32, alpha, a uintptr, lda int32, strideA int64, x uintptr, incx int32, stridex int64, beta, y uintptr, incy int32, stridey int64, batchCount int32) error {
	return l.begin(t, "aclblasSgemvStridedBatched", handle, on950).gemvStrided(trans, m, n, alpha, a, lda, strideA, x, incx, stridex, beta, y, incy, stridey, batchCount, f32, f32)
}

func (l *Library) aclblasHSHgemvBatched(t *rt.Thread, handle *Handle, trans, m, n int32, alpha, aarray uintptr, lda int32, xarray uintptr, incx int32, beta, yarray uintptr, incy, batchCount int32) error {
	return l.begin(t, "aclblasHSHgemvBatched", handle, on950).gemvBatched(trans, m, n, alpha, aarray, lda, xarray, incx, beta, yarray, incy, batchCount, dtype.Float16, dtype.Float16)
}

func (l *Library) aclblasHSHgemvStridedBatched(t *rt.Thread, handle *Handle, trans, m, n int32, alpha, a uintptr, lda int32, strideA int64, x uintptr, incx int32, stridex int64, beta, y uintptr, incy int32, stridey int64, batchCount int32) error {
	return l.begin(t, "aclblasHSHgemvStridedBatched", handle, on950).gemvStrided(trans, m, n, alpha, a, lda, strideA, x, incx, stridex, beta, y, incy, stridey, batchCount, dtype.Float16, dtype.Float16)
}

func (l *Library) aclblasHSSgemvBatched(t *rt.Thread, handle *Handle, trans, m, n int32, alpha, aarray uintptr, lda int32, xarray uintptr, incx int32, beta, yarray uintptr, incy, batchCount int32) error {
	return l.begin(t, "aclblasHSSgemvBatched", handle, on950).gemvBatched(trans, m, n, alpha, aarray, lda, xarray, incx, beta, yarray, incy, batchCount, dtype.Float16, f32)
}

func (l *Library) aclblasHSSgemvStridedBatched(t *rt.Thread, handle *Handle, trans, m, n int32, alpha, a uintptr, lda int32, strideA int64, x uintptr, incx int32, stridex int64, beta, y uintptr, incy int32, stridey int64, batchCount int32) error {
	return l.begin(t, "aclblasHSSgemvStridedBatched", handle, on950).gemvStrided(trans, m, n, alpha, a, lda, strideA, x, incx, stridex, beta, y, incy, stridey, batchCount, dtype.Float16, f32)
}

func (l *Library) aclblasTSTgemvBatched(t *rt.Thread, handle *Handle, trans, m, n int32, alpha, aarray uintptr, lda int32, xarray uintptr, incx int32, beta, yarray uintptr, incy, batchCount int32) error {
	return l.begin(t, "aclblasTSTgemvBatched", handle, on950).gemvBatched(trans, m, n, alpha, aarray, lda, xarray, incx, beta, yarray, incy, batchCount, dtype.BFloat16, dtype.BFloat16)
}

func (l *Library) aclblasTSTgemvStridedBatched(t *rt.Thread, handle *Handle, trans, m, n int32, alpha, a uintptr, lda int32, strideA int64, x uintptr, incx int32, stridex int64, beta, y uintptr, incy int32, stridey int64, batchCount int32) error {
	return l.begin(t, "aclblasTSTgemvStridedBatched", handle, on950).gemvStrided(trans, m, n, alpha, a, lda, strideA, x, incx, stridex, beta, y, incy, stridey, batchCount, dtype.BFloat16, dtype.BFloat16)
}

func (l *Library) aclblasTSSgemvBatched(t *rt.Thread, handle *Handle, trans, m, n int32, alpha, aarray uintptr, lda int32, xarray uintptr, incx int32, beta, yarray uintptr, incy, batchCount int32) error {
	return l.begin(t, "aclblasTSSgemvBatched", handle, on950).gemvBatched(trans, m, n, alpha, aarray, lda, xarray, incx, beta, yarray, incy, batchCount, dtype.BFloat16, f32)
}

func (l *Library) aclblasTSSgemvStridedBatched(t *rt.Thread, handle *Handle, trans, m, n int32, alpha, a uintptr, lda int32, strideA int64, x uintptr, incx int32, stridex int64, beta, y uintptr, incy int32, stridey int64, batchCount int32) error {
	return l.begin(t, "aclblasTSSgemvStridedBatched", handle, on950).gemvStrided(trans, m, n, alpha, a, lda, strideA, x, incx, stridex, beta, y, incy, stridey, batchCount, dtype.BFloat16, f32)
}

// aclblasSsymm has matrices whose rows follow each other.
func (l *Library) aclblasSsymm(t *rt.Thread, handle *Handle, side, uplo int32, m, n int64, alpha, a uintptr, lda int64, b uintptr, ldb int64, beta, c uintptr, ldc int64) error {
	f := l.begin(t, "aclblasSsymm", handle, onBoth)
	f.need(m >= 0 && n >= 0 && m < 1<<31 && n < 1<<31, "m is %d and n %d", m, n)
	f.quick(m == 0 || n == 0)
	f.side(invalidEnum, side)
	p := f.triangle(invalidEnum, uplo)
	order := m
	if side == abi.ACLBLAS_SIDE_RIGHT {
		order = n
	}
	f.need(lda >= order && ldb >= n && ldc >= n, "lda %d, ldb %d, ldc %d; they are at least %d, %d and %d, because rows follow each other", lda, ldb, ldc, order, n, n)
	alphaS, betaS := f.scalar("alpha", alpha, f32, false), f.scalar("beta", beta, f32, false)
	f.present(a, b, c)
	// Rows that follow each other are the columns of the transpose, whose triangle is the other one.
	av := matrix("A", a, int(order), int(order), int(lda), f32).half(lower)
	if p == lower {
		av.part = upper
	}
	bv, cv := byRows("B", b, int(m), int(n), int(ldb), f32), byRows("C", c, int(m), int(n), int(ldc), f32)
	f.reads(av, bv)
	if betaS.host != 0 {
		f.reads(cv)
	}
	f.writes(cv)
	return f.run(func(d *device) {
		s, x := symmetric(d.load(av), av.part), d.load(bv)
		if side == abi.ACLBLAS_SIDE_LEFT {
			x = product(s, x)
		} else {
			x = product(x, s)
		}
		old := zeros(cv.rows, cv.cols)
		if betaS.host != 0 {
			old = d.load(cv)
		}
		d.store(cv, mixed(alphaS.host, x, betaS.host, old))
	})
}

// aclblasStrmm has matrices whose rows follow each other.
func (l *Library) aclblasStrmm(t *rt.Thread, handle *Handle, side, uplo, trans, diag, m, n int32, alpha, a uintptr, lda int32, b uintptr, ldb int32, c uintptr, ldc int32) error {
	f := l.begin(t, "aclblasStrmm", handle, on950)
	f.sizes(m, n)
	f.quick(m == 0 || n == 0)
	f.side(invalidValue, side)
	p := f.triangle(invalidValue, uplo)
	f.operation(invalidValue, trans)
	f.diagonal(diag)
	order := m
	if side == abi.ACLBLAS_SIDE_RIGHT {
		order = n
	}
	f.need(lda >= order && ldb >= n && ldc >= n, "lda %d, ldb %d, ldc %d; they are at least %d, %d and %d, because rows follow each other", lda, ldb, ldc, order, n, n)
	s := f.scalar("alpha", alpha, f32, false)
	f.present(a, b, c)
	av := matrix("A", a, int(order), int(order), int(lda), f32).half(lower)
	if p == lower {
		av.part = upper
	}
	bv, cv := byRows("B", b, int(m), int(n), int(ldb), f32), byRows("C", c, int(m), int(n), int(ldc), f32)
	f.reads(av, bv)
	f.writes(cv)
	return f.run(func(d *device) {
		tri := applied(applied(triangular(d.load(av), av.part, diag), abi.ACLBLAS_OP_T), trans)
		x := d.load(bv)
		if side == abi.ACLBLAS_SIDE_LEFT {
			x = product(tri, x)
		} else {
			x = product(x, tri)
		}
		d.store(cv, mixed(s.host, x, 0, x))
	})
}

func (l *Library) aclblasStrsm(t *rt.Thread, handle *Handle, side, uplo, trans, diag, m, n int32, alpha, a uintptr, lda int32, b uintptr, ldb int32) error {
	f := l.begin(t, "aclblasStrsm", handle, on950)
	f.side(invalidValue, side)
	f.sizes(m, n)
	p := f.triangle(invalidValue, uplo)
	f.operation(invalidValue, trans)
	f.diagonal(diag)
	s := f.scalar("alpha", alpha, f32, false)
	f.quick(m == 0 || n == 0)
	f.present(b)
	f.need(s.host == 0 || a != 0, "A is null")
	order := m
	if side == abi.ACLBLAS_SIDE_RIGHT {
		order = n
	}
	f.leading("lda", lda, order)
	f.leading("ldb", ldb, m)
	av, bv := matrix("A", a, int(order), int(order), int(lda), f32).half(p), matrix("B", b, int(m), int(n), int(ldb), f32)
	if s.host == 0 {
		f.writes(bv)
		return f.run(func(d *device) { d.store(bv, zeros(bv.rows, bv.cols)) })
	}
	f.reads(av)
	f.updates(bv)
	return f.run(func(d *device) {
		tri := applied(triangular(d.load(av), p, diag), trans)
		isLower := (p == lower) == (trans == abi.ACLBLAS_OP_N)
		x := d.load(bv)
		x = mixed(s.host, x, 0, x)
		if side == abi.ACLBLAS_SIDE_LEFT {
			x = solved(tri, isLower, x)
		} else { // x A = b is A' x' = b'
			x = applied(solved(applied(tri, abi.ACLBLAS_OP_T), !isLower, applied(x, abi.ACLBLAS_OP_T)), abi.ACLBLAS_OP_T)
		}
		d.store(bv, x)
	})
}

func (l *Library) aclblasSdgmm(t *rt.Thread, handle *Handle, mode, m, n int32, a uintptr, lda int32, x uintptr, incx int32, c uintptr, ldc int32) error {
	f := l.begin(t, "aclblasSdgmm", handle, on950)
	f.side(invalidValue, mode)
	f.sizes(m, n)
	f.steps(incx)
	f.leading("lda", lda, m)
	f.leading("ldc", ldc, m)
	f.quick(m == 0 || n == 0)
	f.present(a, x, c)
	length := m
	if mode == abi.ACLBLAS_SIDE_RIGHT {
		length = n
	}
	av, xv, cv := matrix("A", a, int(m), int(n), int(lda), f32), vector("x", x, int(length), int(incx), f32), matrix("C", c, int(m), int(n), int(ldc), f32)
	f.reads(av, xv)
	f.writes(cv)
	return f.run(func(d *device) {
		y, s := d.load(av), d.load(xv)
		for i := range y.v {
			at := i % y.rows
			if mode == abi.ACLBLAS_SIDE_RIGHT {
				at = i / y.rows
			}
			y.v[i] = times(y.v[i], s.v[at])
		}
		d.store(cv, y)
	})
}

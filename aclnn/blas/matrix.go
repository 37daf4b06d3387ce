package blas

import (
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/internal/abi"
)

// known refuses values that are none of the constants.
func known(op string, operands []operand, values ...any) error {
	for _, v := range values {
		fits := true
		switch v := v.(type) {
		case Triangle:
			fits = v == Upper || v == Lower
		case Transpose:
			fits = v == NoTrans || v == Trans || v == ConjTrans
		case Diagonal:
			fits = v == NonUnit || v == Unit
		case Side:
			fits = v == Left || v == Right
		}
		if !fits {
			return refuse(op, operands, "%T(%v) is none of the package's constants", v, v)
		}
	}
	return nil
}

// order returns the rows and columns of a matrix in a form.
func (m Matrix) order(t Transpose) (rows, cols int) {
	if t == NoTrans {
		return m.Rows, m.Cols
	}
	return m.Cols, m.Rows
}

// floats refuses operands that are not all float32.
func floats(op string, operands []operand, types ...aclnn.DType) error {
	for _, dt := range types {
		if dt != aclnn.Float32 {
			return typed(op, operands, "float32")
		}
	}
	return nil
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// fits is the error of sizes that do not fit.
func fits(op string, operands []operand, ok bool, format string, args ...any) error {
	if ok {
		return nil
	}
	return refuse(op, operands, format, args...)
}

// Gemv makes y = alpha op(a) x + beta y: float32 on a 950 (aclblasSgemv), complex64 on an Atlas A2 or A3 (aclblasCgemv). An imaginary part
// of alpha or beta is for complex64 only. y is not read if beta is 0.
func (h *Handle) Gemv(alpha complex64, a Matrix, t Transpose, x Vector, beta complex64, y Vector) error {
	const op = "Handle.Gemv"
	operands := []operand{a.operand("a"), x.operand("x"), y.operand("y")}
	rows, cols := a.order(t)
	complex := a.DType == aclnn.Complex64
	if err := first(
		known(op, operands, t),
		fits(op, operands, x.N == cols && y.N == rows && x.DType == a.DType && y.DType == a.DType, "op(a) is %d x %d, and all have one type", rows, cols),
		fits(op, operands, complex || imag(alpha) == 0 && imag(beta) == 0, "alpha is %v and beta %v, and a is real", alpha, beta),
	); err != nil {
		return err
	}
	if !complex && a.DType != aclnn.Float32 {
		return typed(op, operands, "float32 and complex64")
	}
	return h.call(op, operands, func() error {
		if complex {
			return aclblasCgemv(h.context, h.handle, aclblasOperationT(t), int64(a.Rows), int64(a.Cols), alpha, a.address(), int64(a.ld()), x.address(), int64(x.inc()), beta, y.address(), int64(y.inc()))
		}
		p, q := real(alpha), real(beta)
		return aclblasSgemv(h.context, h.handle, aclblasOperationT(t), int32(a.Rows), int32(a.Cols), &p, a.address(), int32(a.ld()), x.address(), int32(x.inc()), &q, y.address(), int32(y.inc()))
	})
}

// Ger adds alpha x yᵀ to a, all of float32 (aclblasSger).
func (h *Handle) Ger(alpha float32, x, y Vector, a Matrix) error {
	const op = "Handle.Ger"
	operands := []operand{x.operand("x"), y.operand("y"), a.operand("a")}
	if err := first(floats(op, operands, x.DType, y.DType, a.DType), fits(op, operands, x.N == a.Rows && y.N == a.Cols, "a is %d x %d", a.Rows, a.Cols)); err != nil {
		return err
	}
	return h.call(op, operands, func() error {
		return aclblasSger(h.context, h.handle, int32(a.Rows), int32(a.Cols), &alpha, x.address(), int32(x.inc()), y.address(), int32(y.inc()), a.address(), int32(a.ld()))
	})
}

// square refuses a matrix that is not n x n.
func square(op string, operands []operand, a Matrix, n int) error {
	return fits(op, operands, a.Rows == a.Cols && a.Rows == n, "a is %d x %d; it is %d x %d", a.Rows, a.Cols, n, n)
}

// Symv makes y = alpha a x + beta y for a symmetric a of which one triangle is read, all of float32 (aclblasSsymv).
func (h *Handle) Symv(alpha float32, a Matrix, part Triangle, x Vector, beta float32, y Vector) error {
	const op = "Handle.Symv"
	operands := []operand{a.operand("a"), x.operand("x"), y.operand("y")}
	if err := first(known(op, operands, part), floats(op, operands, a.DType, x.DType, y.DType), square(op, operands, a, x.N), alike(op, operands, x, y)); err != nil {
		return err
	}
	return h.call(op, operands, func() error {
		return aclblasSsymv(h.context, h.handle, aclblasFillModeT(part), int32(x.N), &alpha, a.address(), int32(a.ld()), x.address(), int32(x.inc()), &beta, y.address(), int32(y.inc()))
	})
}

// Syr adds alpha x xᵀ to one triangle of a, of float32 (aclblasSsyr).
func (h *Handle) Syr(alpha float32, x Vector, a Matrix, part Triangle) error {
	const op = "Handle.Syr"
	operands := []operand{x.operand("x"), a.operand("a")}
	if err := first(known(op, operands, part), floats(op, operands, a.DType, x.DType), square(op, operands, a, x.N)); err != nil {
		return err
	}
	return h.call(op, operands, func() error {
		return aclblasSsyr(h.context, h.handle, aclblasFillModeT(part), int32(x.N), &alpha, x.address(), int32(x.inc()), a.address(), int32(a.ld()))
	})
}

// Syr2 adds alpha x yᵀ + alpha y xᵀ to one triangle of a, of float32 (aclblasSsyr2).
func (h *Handle) Syr2(alpha float32, x, y Vector, a Matrix, part Triangle) error {
	const op = "Handle.Syr2"
	operands := []operand{x.operand("x"), y.operand("y"), a.operand("a")}
	if err := first(known(op, operands, part), floats(op, operands, a.DType, x.DType), square(op, operands, a, x.N), alike(op, operands, x, y)); err != nil {
		return err
	}
	return h.call(op, operands, func() error {
		return aclblasSsyr2(h.context, h.handle, aclblasFillModeT(part), int32(x.N), &alpha, x.address(), int32(x.inc()), y.address(), int32(y.inc()), a.address(), int32(a.ld()))
	})
}

// Trmv makes x = op(a) x for a triangular a, of float32 (aclblasStrmv) or complex64 (aclblasCtrmv; at most 8192, with an Inc above 0).
func (h *Handle) Trmv(a Matrix, part Triangle, t Transpose, d Diagonal, x Vector) error {
	const op = "Handle.Trmv"
	operands := []operand{a.operand("a"), x.operand("x")}
	if err := first(known(op, operands, part, t, d), square(op, operands, a, x.N), fits(op, operands, a.DType == x.DType, "the types differ")); err != nil {
		return err
	}
	if a.DType != aclnn.Float32 && a.DType != aclnn.Complex64 {
		return typed(op, operands, "float32 and complex64")
	}
	return h.call(op, operands, func() error {
		if a.DType == aclnn.Complex64 {
			return aclblasCtrmv(h.context, h.handle, aclblasFillModeT(part), aclblasOperationT(t), aclblasDiagTypeT(d), int64(x.N), a.address(), int64(a.ld()), x.address(), int64(x.inc()))
		}
		return aclblasStrmv(h.context, h.handle, aclblasFillModeT(part), aclblasOperationT(t), aclblasDiagTypeT(d), int32(x.N), a.address(), int32(a.ld()), x.address(), int32(x.inc()))
	})
}

// Trsv replaces x by the solution of op(a) y = x for a triangular a, of float32 (aclblasStrsv). A zero on the diagonal gives infinities.
func (h *Handle) Trsv(a Matrix, part Triangle, t Transpose, d Diagonal, x Vector) error {
	const op = "Handle.Trsv"
	operands := []operand{a.operand("a"), x.operand("x")}
	if err := first(known(op, operands, part, t, d), floats(op, operands, a.DType, x.DType), square(op, operands, a, x.N)); err != nil {
		return err
	}
	return h.call(op, operands, func() error {
		return aclblasStrsv(h.context, h.handle, aclblasFillModeT(part), aclblasOperationT(t), aclblasDiagTypeT(d), int32(x.N), a.address(), int32(a.ld()), x.address(), int32(x.inc()))
	})
}

// packed refuses a vector that is not the triangle of an n x n matrix.
func packed(op string, operands []operand, ap Vector, n int) error {
	return fits(op, operands, ap.N == n*(n+1)/2 && ap.inc() == 1, "ap is no contiguous triangle of %d x %d numbers", n, n)
}

// Spmv is Symv for a triangle whose columns follow each other in ap (aclblasSspmv).
func (h *Handle) Spmv(alpha float32, ap Vector, part Triangle, x Vector, beta float32, y Vector) error {
	const op = "Handle.Spmv"
	operands := []operand{ap.operand("ap"), x.operand("x"), y.operand("y")}
	if err := first(known(op, operands, part), floats(op, operands, ap.DType, x.DType), packed(op, operands, ap, x.N), alike(op, operands, x, y)); err != nil {
		return err
	}
	return h.call(op, operands, func() error {
		return aclblasSspmv(h.context, h.handle, aclblasFillModeT(part), int32(x.N), &alpha, ap.address(), x.address(), int32(x.inc()), &beta, y.address(), int32(y.inc()))
	})
}

// Spr is Syr for a triangle whose columns follow each other in ap (aclblasSspr).
func (h *Handle) Spr(alpha float32, x, ap Vector, part Triangle) error {
	const op = "Handle.Spr"
	operands := []operand{x.operand("x"), ap.operand("ap")}
	if err := first(known(op, operands, part), floats(op, operands, ap.DType, x.DType), packed(op, operands, ap, x.N)); err != nil {
		return err
	}
	return h.call(op, operands, func() error {
		return aclblasSspr(h.context, h.handle, aclblasFillModeT(part), int32(x.N), &alpha, x.address(), int32(x.inc()), ap.address())
	})
}

// Spr2 is Syr2 for a triangle whose columns follow each other in ap (aclblasSspr2).
func (h *Handle) Spr2(alpha float32, x, y, ap Vector, part Triangle) error {
	const op = "Handle.Spr2"
	operands := []operand{x.operand("x"), y.operand("y"), ap.operand("ap")}
	if err := first(known(op, operands, part), floats(op, operands, ap.DType, x.DType), packed(op, operands, ap, x.N), alike(op, operands, x, y)); err != nil {
		return err
	}
	return h.call(op, operands, func() error {
		return aclblasSspr2(h.context, h.handle, aclblasFillModeT(part), int32(x.N), &alpha, x.address(), int32(x.inc()), y.address(), int32(y.inc()), ap.address())
	})
}

// Tpmv is Trmv for a triangle whose columns follow each other in ap (aclblasStpmv).
func (h *Handle) Tpmv(ap Vector, part Triangle, t Transpose, d Diagonal, x Vector) error {
	return h.packedTriangle("Handle.Tpmv", ap, part, t, d, x, aclblasStpmv)
}

// Tpsv is Trsv for a triangle whose columns follow each other in ap (aclblasStpsv).
func (h *Handle) Tpsv(ap Vector, part Triangle, t Transpose, d Diagonal, x Vector) error {
	return h.packedTriangle("Handle.Tpsv", ap, part, t, d, x, aclblasStpsv)
}

func (h *Handle) packedTriangle(op string, ap Vector, part Triangle, t Transpose, d Diagonal, x Vector, f func(aclrtContext, aclblasHandleT, aclblasFillModeT, aclblasOperationT, aclblasDiagTypeT, int32, uint64, uint64, int32) error) error {
	operands := []operand{ap.operand("ap"), x.operand("x")}
	if err := first(known(op, operands, part, t, d), floats(op, operands, ap.DType, x.DType), packed(op, operands, ap, x.N)); err != nil {
		return err
	}
	return h.call(op, operands, func() error {
		return f(h.context, h.handle, aclblasFillModeT(part), aclblasOperationT(t), aclblasDiagTypeT(d), int32(x.N), ap.address(), x.address(), int32(x.inc()))
	})
}

// Gbmv makes y = alpha op(a) x + beta y for a matrix of rows x (the columns of band) of which kl diagonals below the main one
// and ku above it are stored: row ku+i-j of band has element (i, j) in column j (aclblasSgbmv). All are float32.
func (h *Handle) Gbmv(alpha float32, band Matrix, rows, kl, ku int, t Transpose, x Vector, beta float32, y Vector) error {
	const op = "Handle.Gbmv"
	operands := []operand{band.operand("band"), x.operand("x"), y.operand("y")}
	whole := Matrix{Rows: rows, Cols: band.Cols}
	m, n := whole.order(t)
	if err := first(known(op, operands, t), floats(op, operands, band.DType, x.DType, y.DType),
		fits(op, operands, rows >= 0 && kl >= 0 && ku >= 0 && band.Rows == kl+ku+1, "band has %d rows; kl is %d and ku %d", band.Rows, kl, ku),
		fits(op, operands, x.N == n && y.N == m, "op(a) is %d x %d", m, n)); err != nil {
		return err
	}
	return h.call(op, operands, func() error {
		return aclblasSgbmv(h.context, h.handle, aclblasOperationT(t), int32(rows), int32(band.Cols), int32(kl), int32(ku), &alpha, band.address(), int32(band.ld()), x.address(), int32(x.inc()), &beta, y.address(), int32(y.inc()))
	})
}

// banded refuses a band that is not of a square matrix of n columns.
func banded(op string, operands []operand, band Matrix, n int) error {
	return fits(op, operands, band.Cols == n && band.Rows > 0, "band is %d x %d; it has the k+1 diagonals of a matrix of %d columns", band.Rows, band.Cols, n)
}

// Sbmv is Symv for a matrix with the diagonals that are the rows of band: of the upper triangle the last one is the main diagonal, of the
// lower triangle the first (aclblasSsbmv).
func (h *Handle) Sbmv(alpha float32, band Matrix, part Triangle, x Vector, beta float32, y Vector) error {
	const op = "Handle.Sbmv"
	operands := []operand{band.operand("band"), x.operand("x"), y.operand("y")}
	if err := first(known(op, operands, part), floats(op, operands, band.DType, x.DType), banded(op, operands, band, x.N), alike(op, operands, x, y)); err != nil {
		return err
	}
	return h.call(op, operands, func() error {
		return aclblasSsbmv(h.context, h.handle, aclblasFillModeT(part), int32(x.N), int32(band.Rows-1), &alpha, band.address(), int32(band.ld()), x.address(), int32(x.inc()), &beta, y.address(), int32(y.inc()))
	})
}

// Tbmv is Trmv for a band as Sbmv takes it (aclblasStbmv).
func (h *Handle) Tbmv(band Matrix, part Triangle, t Transpose, d Diagonal, x Vector) error {
	return h.bandTriangle("Handle.Tbmv", band, part, t, d, x, aclblasStbmv)
}

// Tbsv is Trsv for a band as Sbmv takes it (aclblasStbsv).
func (h *Handle) Tbsv(band Matrix, part Triangle, t Transpose, d Diagonal, x Vector) error {
	return h.bandTriangle("Handle.Tbsv", band, part, t, d, x, aclblasStbsv)
}

func (h *Handle) bandTriangle(op string, band Matrix, part Triangle, t Transpose, d Diagonal, x Vector, f func(aclrtContext, aclblasHandleT, aclblasFillModeT, aclblasOperationT, aclblasDiagTypeT, int32, int32, uint64, int32, uint64, int32) error) error {
	operands := []operand{band.operand("band"), x.operand("x")}
	if err := first(known(op, operands, part, t, d), floats(op, operands, band.DType, x.DType), banded(op, operands, band, x.N)); err != nil {
		return err
	}
	return h.call(op, operands, func() error {
		return f(h.context, h.handle, aclblasFillModeT(part), aclblasOperationT(t), aclblasDiagTypeT(d), int32(x.N), int32(band.Rows-1), band.address(), int32(band.ld()), x.address(), int32(x.inc()))
	})
}

// Gemm makes c = alpha op(a) op(b) + beta c: of float32 (aclblasSgemmEx), or with factors of float16, bfloat16, float8_e4m3 or float8_e5m2
// (aclblasGemmEx), where c is float16, of bfloat16 factors bfloat16. Sums are float32. c is not read if beta is 0.
func (h *Handle) Gemm(alpha float32, a Matrix, ta Transpose, b Matrix, tb Transpose, beta float32, c Matrix) error {
	const op = "Handle.Gemm"
	operands := []operand{a.operand("a"), b.operand("b"), c.operand("c")}
	m, k := a.order(ta)
	k2, n := b.order(tb)
	if err := first(known(op, operands, ta, tb), fits(op, operands, k == k2 && c.Rows == m && c.Cols == n, "op(a) is %d x %d and op(b) %d x %d", m, k, k2, n)); err != nil {
		return err
	}
	return h.call(op, operands, func() error {
		if a.DType == aclnn.Float32 && b.DType == aclnn.Float32 && c.DType == aclnn.Float32 {
			return aclblasSgemmEx(h.context, h.handle, aclblasOperationT(ta), aclblasOperationT(tb), int32(m), int32(n), int32(k), &alpha, a.address(), int32(a.ld()), b.address(), int32(b.ld()), &beta, c.address(), int32(c.ld()), abi.ACLBLAS_GEMM_DEFAULT)
		}
		return aclblasGemmEx(h.context, h.handle, aclblasOperationT(ta), aclblasOperationT(tb), int32(m), int32(n), int32(k), &alpha, a.address(), aclDataType(a.DType), int32(a.ld()), b.address(), aclDataType(b.DType), int32(b.ld()), &beta, c.address(), aclDataType(c.DType), int32(c.ld()), abi.ACLBLAS_COMPUTE_32F, abi.ACLBLAS_GEMM_DEFAULT)
	})
}

// Symm makes c = alpha a b + beta c, or with Right alpha b a + beta c, for a symmetric a of which one triangle is read, of float32
// (aclblasSsymm).
func (h *Handle) Symm(side Side, alpha float32, a Matrix, part Triangle, b Matrix, beta float32, c Matrix) error {
	const op = "Handle.Symm"
	operands := []operand{a.operand("a"), b.operand("b"), c.operand("c")}
	if err := first(known(op, operands, side, part), floats(op, operands, a.DType, b.DType, c.DType), sided(op, operands, side, a, b, c)); err != nil {
		return err
	}
	return h.call(op, operands, func() error { // on the transposes, whose rows follow each other
		return aclblasSsymm(h.context, h.handle, aclblasSideModeT(other(side)), aclblasFillModeT(mirrored(part)), int64(c.Cols), int64(c.Rows), &alpha, a.address(), int64(a.ld()), b.address(), int64(b.ld()), &beta, c.address(), int64(c.ld()))
	})
}

// sided refuses sizes that do not fit a product of a square a with b.
func sided(op string, operands []operand, side Side, a, b, c Matrix) error {
	n := b.Rows
	if side == Right {
		n = b.Cols
	}
	return first(square(op, operands, a, n), fits(op, operands, b.Rows == c.Rows && b.Cols == c.Cols, "b and c differ in size"))
}

func other(s Side) Side {
	if s == Left {
		return Right
	}
	return Left
}

func mirrored(t Triangle) Triangle {
	if t == Upper {
		return Lower
	}
	return Upper
}

// Trmm makes c = alpha op(a) b, or with Right alpha b op(a), for a triangular a, of float32 (aclblasStrmm).
func (h *Handle) Trmm(side Side, alpha float32, a Matrix, part Triangle, t Transpose, d Diagonal, b, c Matrix) error {
	const op = "Handle.Trmm"
	operands := []operand{a.operand("a"), b.operand("b"), c.operand("c")}
	if err := first(known(op, operands, side, part, t, d), floats(op, operands, a.DType, b.DType, c.DType), sided(op, operands, side, a, b, c)); err != nil {
		return err
	}
	return h.call(op, operands, func() error { // on the transposes, whose rows follow each other
		return aclblasStrmm(h.context, h.handle, aclblasSideModeT(other(side)), aclblasFillModeT(mirrored(part)), aclblasOperationT(t), aclblasDiagTypeT(d), int32(c.Cols), int32(c.Rows), &alpha, a.address(), int32(a.ld()), b.address(), int32(b.ld()), c.address(), int32(c.ld()))
	})
}

// Trsm replaces b by the x with op(a) x = alpha b, or with Right x op(a) = alpha b, for a triangular a, of float32 (aclblasStrsm).
func (h *Handle) Trsm(side Side, alpha float32, a Matrix, part Triangle, t Transpose, d Diagonal, b Matrix) error {
	const op = "Handle.Trsm"
	operands := []operand{a.operand("a"), b.operand("b")}
	if err := first(known(op, operands, side, part, t, d), floats(op, operands, a.DType, b.DType), sided(op, operands, side, a, b, b)); err != nil {
		return err
	}
	return h.call(op, operands, func() error {
		return aclblasStrsm(h.context, h.handle, aclblasSideModeT(side), aclblasFillModeT(part), aclblasOperationT(t), aclblasDiagTypeT(d), int32(b.Rows), int32(b.Cols), &alpha, a.address(), int32(a.ld()), b.address(), int32(b.ld()))
	})
}

// Dgmm makes c = diag(x) a, or with Right a diag(x), of float32 (aclblasSdgmm).
func (h *Handle) Dgmm(side Side, a Matrix, x Vector, c Matrix) error {
	const op = "Handle.Dgmm"
	operands := []operand{a.operand("a"), x.operand("x"), c.operand("c")}
	n := a.Rows
	if side == Right {
		n = a.Cols
	}
	if err := first(known(op, operands, side), floats(op, operands, a.DType, x.DType, c.DType), fits(op, operands, x.N == n && a.Rows == c.Rows && a.Cols == c.Cols, "x has %d elements for %d, or a and c differ", x.N, n)); err != nil {
		return err
	}
	return h.call(op, operands, func() error {
		return aclblasSdgmm(h.context, h.handle, aclblasSideModeT(side), int32(a.Rows), int32(a.Cols), a.address(), int32(a.ld()), x.address(), int32(x.inc()), c.address(), int32(c.ld()))
	})
}

package blas

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/internal/abi"
)

// Batch is matrices of one size whose addresses are in device memory, as the library's batched functions take them.
type Batch struct {
	matrices  []Matrix
	addresses *acl.Buffer
}

// NewBatch copies the addresses of matrices to the device. They have one size, LD and element type, and stay the caller's; they
// must be open as long as the batch is used.
func NewBatch(ctx context.Context, st *acl.Stream, matrices ...Matrix) (*Batch, error) {
	const op = "blas.NewBatch"
	var operands []operand
	addresses := make([]uint64, len(matrices))
	for i, m := range matrices {
		operands = append(operands, m.operand(fmt.Sprintf("matrix %d", i)))
		switch f := matrices[0]; {
		case operands[i].wrong != "" || m.Data == nil || operands[i].bytes < 0 || operands[i].bytes > m.Data.Size():
			return nil, refuse(op, operands, "matrix %d has no buffer, ends beyond it, or is no matrix (%s)", i, operands[i].wrong)
		case m.Rows != f.Rows || m.Cols != f.Cols || m.ld() != f.ld() || m.DType != f.DType:
			return nil, refuse(op, operands, "matrix %d differs from the first", i)
		}
		addresses[i] = m.address()
	}
	if len(matrices) == 0 {
		return nil, refuse(op, operands, "no matrices")
	}
	if st == nil {
		return nil, refuse(op, operands, "the stream is nil")
	}
	b, err := st.Malloc(8 * len(addresses))
	if err != nil {
		return nil, failed(op, operands, err)
	}
	if err := acl.CopyToDevice(ctx, st, b, addresses); err != nil {
		return nil, errors.Join(failed(op, operands, err), b.Close())
	}
	return &Batch{slices.Clone(matrices), b}, nil
}

// Close frees the addresses, not the matrices. Work that is queued may still use them.
func (b *Batch) Close() error {
	if b == nil || b.addresses == nil {
		return nil
	}
	return b.addresses.Close()
}

// operands are the batch's addresses and matrices.
func (b *Batch) operands(name string) []operand {
	if b == nil || b.addresses == nil {
		return []operand{{name: name, text: name, wrong: "the batch is nil, or was not made by NewBatch"}}
	}
	o := b.matrices[0].operand(name)
	o.text += fmt.Sprintf(" x %d", len(b.matrices))
	all := []operand{o}
	for _, m := range b.matrices[1:] {
		o := m.operand(name)
		o.text = ""
		all = append(all, o)
	}
	all = append(all, operand{name: name, data: b.addresses, bytes: 8 * len(b.matrices)})
	return all
}

// size is the form of the matrices; the zero value of a batch that was not made.
func (b *Batch) size() Matrix {
	if b == nil || len(b.matrices) == 0 {
		return Matrix{}
	}
	return b.matrices[0]
}

func (b *Batch) count() int {
	if b == nil {
		return 0
	}
	return len(b.matrices)
}

// GemmBatched makes c[i] = alpha op(a[i]) op(b[i]) + beta c[i]: of float32 (aclblasSgemmBatched), complex64 (aclblasCgemmBatched), or the
// element types of Gemm (aclblasGemmBatchedEx). An imaginary part of alpha or beta is for complex64 only.
func (h *Handle) GemmBatched(alpha complex64, a *Batch, ta Transpose, b *Batch, tb Transpose, beta complex64, c *Batch) error {
	const op = "Handle.GemmBatched"
	operands := slices.Concat(a.operands("a"), b.operands("b"), c.operands("c"))
	am, bm, cm := a.size(), b.size(), c.size()
	m, k := am.order(ta)
	k2, n := bm.order(tb)
	complex := am.DType == aclnn.Complex64
	if err := first(known(op, operands, ta, tb),
		fits(op, operands, a.count() == b.count() && b.count() == c.count() && k == k2 && cm.Rows == m && cm.Cols == n, "%d of %d x %d times %d of %d x %d", a.count(), m, k, b.count(), k2, n),
		fits(op, operands, complex || imag(alpha) == 0 && imag(beta) == 0, "alpha is %v and beta %v, and a is real", alpha, beta),
		fits(op, operands, !complex || bm.DType == aclnn.Complex64 && cm.DType == aclnn.Complex64, "the types differ")); err != nil {
		return err
	}
	return h.call(op, operands, func() error {
		p, q, opA, opB := real(alpha), real(beta), aclblasOperationT(ta), aclblasOperationT(tb)
		as, bs, cs := a.addresses.Address(), b.addresses.Address(), c.addresses.Address()
		switch {
		case complex:
			return aclblasCgemmBatched(h.context, h.handle, opA, opB, int32(m), int32(n), int32(k), &alpha, as, int32(am.ld()), bs, int32(bm.ld()), &beta, cs, int32(cm.ld()), int32(a.count()))
		case am.DType == aclnn.Float32 && bm.DType == aclnn.Float32 && cm.DType == aclnn.Float32:
			return aclblasSgemmBatched(h.context, h.handle, opA, opB, int32(m), int32(n), int32(k), &p, as, int32(am.ld()), bs, int32(bm.ld()), &q, cs, int32(cm.ld()), int32(a.count()))
		}
		return aclblasGemmBatchedEx(h.context, h.handle, opA, opB, int32(m), int32(n), int32(k), &p, as, aclDataType(am.DType), int32(am.ld()), bs, aclDataType(bm.DType), int32(bm.ld()), &q, cs, aclDataType(cm.DType), int32(cm.ld()), int32(a.count()), abi.ACLBLAS_COMPUTE_32F, abi.ACLBLAS_GEMM_DEFAULT)
	})
}

// Strided is the distances in elements from one problem of GemvStrided to the next.
type Strided struct{ A, X, Y, Count int }

// GemvStrided makes Count times y = alpha op(a) x + beta y for matrices and vectors that lie some distance apart, of which a, x and y are
// the first. a and x are float32, float16 or bfloat16, and y has their type or float32 (aclblasSgemvStridedBatched and its relatives
// HSH, HSS, TST and TSS). Distances are positive.
func (h *Handle) GemvStrided(alpha float32, a Matrix, t Transpose, x Vector, beta float32, y Vector, s Strided) error {
	const op = "Handle.GemvStrided"
	rows, cols := a.order(t)
	if s.Count < 1 || s.A < 1 || s.X < 1 || s.Y < 1 {
		return refuse(op, []operand{a.operand("a")}, "distances and Count are positive; they are %+v", s)
	}
	lastA, lastX, lastY := a, x, y
	lastA.Offset += (s.Count - 1) * s.A
	lastX.Offset += (s.Count - 1) * s.X
	lastY.Offset += (s.Count - 1) * s.Y
	operands := []operand{lastA.operand("a"), lastX.operand("x"), lastY.operand("y")}
	if err := first(known(op, operands, t), fits(op, operands, x.N == cols && y.N == rows && x.DType == a.DType && (y.DType == a.DType || y.DType == aclnn.Float32), "op(a) is %d x %d, x has a's type, and y that or float32", rows, cols)); err != nil {
		return err
	}
	f := map[[2]aclnn.DType]func(aclrtContext, aclblasHandleT, aclblasOperationT, int32, int32, *float32, uint64, int32, int64, uint64, int32, int64, *float32, uint64, int32, int64, int32) error{
		{aclnn.Float32, aclnn.Float32}: aclblasSgemvStridedBatched, {aclnn.Float16, aclnn.Float16}: aclblasHSHgemvStridedBatched, {aclnn.Float16, aclnn.Float32}: aclblasHSSgemvStridedBatched,
		{aclnn.BFloat16, aclnn.BFloat16}: aclblasTSTgemvStridedBatched, {aclnn.BFloat16, aclnn.Float32}: aclblasTSSgemvStridedBatched,
	}[[2]aclnn.DType{a.DType, y.DType}]
	if f == nil {
		return typed(op, operands, "float32, float16 and bfloat16")
	}
	return h.call(op, operands, func() error {
		return f(h.context, h.handle, aclblasOperationT(t), int32(a.Rows), int32(a.Cols), &alpha, a.address(), int32(a.ld()), int64(s.A), x.address(), int32(x.inc()), int64(s.X), &beta, y.address(), int32(y.inc()), int64(s.Y), int32(s.Count))
	})
}

// whole refuses a vector of int32 that has not n contiguous elements.
func whole(op string, operands []operand, name string, v Vector, n int) error {
	return fits(op, operands, v.DType == aclnn.Int32 && v.N == n && v.inc() == 1, "%s is %v[%d]; it has %d int32 elements", name, v.DType, v.N, n)
}

// GetrfBatched replaces each square float32 matrix by its factors P a = L U (aclblasSgetrfBatched). pivots gets n numbers for each,
// counted from 1, and info 0, or the first column, counted from 1, whose pivot is 0.
func (h *Handle) GetrfBatched(a *Batch, pivots, info Vector) error {
	const op = "Handle.GetrfBatched"
	operands := append(a.operands("a"), pivots.operand("pivots"), info.operand("info"))
	m, n := a.size(), a.count()
	if err := first(floats(op, operands, m.DType), square(op, operands, m, m.Rows), whole(op, operands, "pivots", pivots, n*m.Rows), whole(op, operands, "info", info, n)); err != nil {
		return err
	}
	return h.call(op, operands, func() error {
		return aclblasSgetrfBatched(h.context, h.handle, int32(m.Rows), a.addresses.Address(), int32(m.ld()), pivots.address(), info.address(), int32(n))
	})
}

// GetriBatched writes the inverses of matrices in the factors of GetrfBatched to c (aclblasSgetriBatched). c may not share memory with a.
func (h *Handle) GetriBatched(a *Batch, pivots Vector, c *Batch, info Vector) error {
	const op = "Handle.GetriBatched"
	operands := slices.Concat(a.operands("a"), []operand{pivots.operand("pivots")}, c.operands("c"), []operand{info.operand("info")})
	m, cm, n := a.size(), c.size(), a.count()
	if err := first(floats(op, operands, m.DType, cm.DType), square(op, operands, m, m.Rows), square(op, operands, cm, m.Rows), fits(op, operands, c.count() == n, "%d and %d matrices", n, c.count()),
		whole(op, operands, "pivots", pivots, n*m.Rows), whole(op, operands, "info", info, n)); err != nil {
		return err
	}
	return h.call(op, operands, func() error {
		return aclblasSgetriBatched(h.context, h.handle, int32(m.Rows), a.addresses.Address(), int32(m.ld()), pivots.address(), c.addresses.Address(), int32(cm.ld()), info.address(), int32(n))
	})
}

// GetrsBatched replaces each b by the x with op(a) x = b, for matrices in the factors of GetrfBatched (aclblasSgetrsBatched). b has at
// most 256 columns.
func (h *Handle) GetrsBatched(t Transpose, a *Batch, pivots Vector, b *Batch) error {
	const op = "Handle.GetrsBatched"
	operands := slices.Concat(a.operands("a"), []operand{pivots.operand("pivots")}, b.operands("b"))
	m, bm, n := a.size(), b.size(), a.count()
	if err := first(known(op, operands, t), floats(op, operands, m.DType, bm.DType), square(op, operands, m, bm.Rows), fits(op, operands, b.count() == n && bm.Cols <= 256, "%d and %d matrices, of %d columns", n, b.count(), bm.Cols),
		whole(op, operands, "pivots", pivots, n*m.Rows)); err != nil {
		return err
	}
	return h.call(op, operands, func() error {
		var info int32
		return aclblasSgetrsBatched(h.context, h.handle, aclblasOperationT(t), int32(m.Rows), int32(bm.Cols), a.addresses.Address(), int32(m.ld()), pivots.address(), b.addresses.Address(), int32(bm.ld()), &info, int32(n))
	})
}

// GeqrfBatched replaces each float32 matrix by its factors Q R: R above the diagonal, reflectors below it, and their factors in tau, which has
// min(rows, columns) rows and one column (aclblasSgeqrfBatched, as LAPACK's geqrf).
func (h *Handle) GeqrfBatched(a, tau *Batch) error {
	const op = "Handle.GeqrfBatched"
	operands := append(a.operands("a"), tau.operands("tau")...)
	m, tm := a.size(), tau.size()
	if err := first(floats(op, operands, m.DType, tm.DType), fits(op, operands, tau.count() == a.count() && tm.Rows == min(m.Rows, m.Cols) && tm.Cols == 1, "tau is %d of %d x %d; it is %d of %d x 1", tau.count(), tm.Rows, tm.Cols, a.count(), min(m.Rows, m.Cols))); err != nil {
		return err
	}
	return h.call(op, operands, func() error {
		var info int32
		return aclblasSgeqrfBatched(h.context, h.handle, int32(m.Rows), int32(m.Cols), a.addresses.Address(), int32(m.ld()), tau.addresses.Address(), &info, int32(a.count()))
	})
}

// GelsBatched replaces the first rows of each c by the x that makes op(a) x - c shortest, or the shortest x with op(a) x = c, and a by
// factors (aclblasSgelsBatched). t is NoTrans or Trans, and c has as many rows as the longer side of a. info gets 0, or the first column
// that depends on those before it.
func (h *Handle) GelsBatched(t Transpose, a, c *Batch, info Vector) error {
	const op = "Handle.GelsBatched"
	operands := append(append(a.operands("a"), c.operands("c")...), info.operand("info"))
	m, cm, n := a.size(), c.size(), a.count()
	if err := first(known(op, operands, t), fits(op, operands, t != ConjTrans, "t is ConjTrans; it is NoTrans or Trans"), floats(op, operands, m.DType, cm.DType),
		fits(op, operands, c.count() == n && cm.Rows == max(m.Rows, m.Cols), "c is %d of %d rows; it is %d of %d", c.count(), cm.Rows, n, max(m.Rows, m.Cols)), whole(op, operands, "info", info, n)); err != nil {
		return err
	}
	return h.call(op, operands, func() error {
		return aclblasSgelsBatched(h.context, h.handle, aclblasOperationT(t), int32(m.Rows), int32(m.Cols), int32(cm.Cols), a.addresses.Address(), int32(m.ld()), c.addresses.Address(), int32(cm.ld()), info.address(), int32(n))
	})
}

// MatinvBatched writes the inverses of float32 matrices of at most 32 rows (aclblasSmatinvBatched). info gets 0, or the first column, counted
// from 1, whose pivot is 0.
func (h *Handle) MatinvBatched(a, inverse *Batch, info Vector) error {
	const op = "Handle.MatinvBatched"
	operands := append(append(a.operands("a"), inverse.operands("inverse")...), info.operand("info"))
	m, im, n := a.size(), inverse.size(), a.count()
	if err := first(floats(op, operands, m.DType, im.DType), square(op, operands, m, m.Rows), square(op, operands, im, m.Rows),
		fits(op, operands, inverse.count() == n && m.Rows <= 32, "%d and %d matrices of %d rows; they have at most 32", n, inverse.count(), m.Rows), whole(op, operands, "info", info, n)); err != nil {
		return err
	}
	return h.call(op, operands, func() error {
		return aclblasSmatinvBatched(h.context, h.handle, int32(m.Rows), a.addresses.Address(), int32(m.ld()), inverse.addresses.Address(), int32(im.ld()), info.address(), int32(n))
	})
}

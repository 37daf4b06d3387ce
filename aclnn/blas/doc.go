// Package blas calls ops-blas (libops_blas), CANN's library of linear algebra, which is built from its sources (it is in no
// release) for one chip.
//
//	h, err := blas.New(st)
//	if err != nil { … }
//	defer h.Close()
//	a := blas.Matrix{Data: x, Rows: m, Cols: k} // column by column, without gaps
//	err = h.Gemm(1, a, blas.NoTrans, b, blas.NoTrans, 0, c)
//
// A Handle queues on one stream, and its calls take turns. Vectors and matrices are views of buffers: a call checks that each
// lies within its buffer, and the sizes of all against each other, before the library is called, and returns an *Error that
// names what does not fit. Results of reductions are written to device memory, so that nothing waits.
//
// Matrices lie column by column, as in Fortran. The functions have BLAS's names without the letter of the type: the element
// types of the operands choose the C function.
//
// The library has each function for some chips only. On an Atlas A2 or A3 these are Asum, Axpy (complex), Copy, Dot, Dotc, Iamax, Nrm2, Rot (complex),
// Rotm, Scal, Swap, Gemv (complex), Ger, Gerc, Spmv, Symm, Symv, Syr, Syr2, Trmv and Trsv; products of matrices, the
// factorisations and the rest need a 950. A missing function is an acl.ErrNotSupported. Symm and Trmm have matrices whose rows
// follow each other in the C library; here they are given column by column as everywhere, and the
// call exchanges the sides and triangles.
//
// Not here: aclBLASLt, groups of products of several types, the constructors of rotations (rotg, rotmg), which are
// arithmetic on four numbers of the host, and two functions that multiply rows and elements of complex matrices.
package blas

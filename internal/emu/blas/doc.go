// Package blas emulates libops_blas, CANN's library of linear algebra (ops-blas).
//
//	l := blas.New(runtime)
//	for name, f := range l.Functions() { … } // C name -> function over 64-bit words
//
// A function checks its arguments as the library's host code does at 35101c8, and queues one task on the stream of its
// handle. The task reads its operands into float64 (complex128), computes by the definition, and rounds once when it
// writes. Matrices lie column by column, except those of symm and trmm, whose rows follow each other in the library.
//
// The library is built for one chip, and its sources have each function for some chips only: products of matrices for
// the 950, most functions of complex numbers for the 910B and 910_93. A library for another chip has no such symbol;
// here the function returns ACLBLAS_STATUS_ARCH_MISMATCH.
//
// Logs of the library are settings without effect. aclBLASLt is a library of its own and is not emulated.
package blas

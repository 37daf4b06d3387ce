// Package fractal moves matrices between strided memory and FRACTAL_NZ storage, in C with Go wrappers. It
// knows element sizes only; package kernel multiplies by matrices in that storage where they lie.
//
//	err := fractal.Pack(storage, 16, weight) // a kernel.View of matrices [batch…, rows, cols]
package fractal

// Package matrix holds factorisations of small dense matrices in double precision: QR, singular
// values, Cholesky, determinant and inverse.
//
// It works on Go slices and knows neither views nor element types; products of large matrices
// are in kernel.
//
//	m := matrix.Dense{Rows: 2, Cols: 2, Data: []float64{4, 2, 2, 3}}
//	lower, err := m.Cholesky()
package matrix

// Package pointwise defines operators that are computed element by element: how operands are found
// in the C declaration, promoted to one element type and broadcast.
//
// An operator is a line in a family's table:
//
//	var unary = op.Merge(
//		pointwise.Form{Op: kernel.Abs}.Table("Abs"),
//		pointwise.Form{Op: kernel.Sqrt, Types: pointwise.Floating}.Table("Sqrt", "InplaceSqrt"),
//	)
//
// The package contains no operators and no arithmetic: kernel.Map computes.
package pointwise

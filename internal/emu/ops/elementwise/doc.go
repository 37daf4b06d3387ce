// Package elementwise holds arithmetic and functions of single elements.
//
// Functions of one tensor are in unary.go, those of several in binary.go, their gradients in
// gradient.go, sums of lists and fused sums in join.go, and complex numbers in complex.go. Activations,
// comparisons and operators on lists of tensors have their own packages.
//
// Table holds the operators; package nn joins the tables, and a test calls one with
// package optest:
//
//	optest.Run(t, name, optest.Args{"self": x, "out": y})
package elementwise

import (
	"github.com/goascend/cann/internal/emu/op"
)

// Table holds the operators of the family by name without "aclnn".
var Table = op.Merge(binaries, complexes, gradients, joined, unary)

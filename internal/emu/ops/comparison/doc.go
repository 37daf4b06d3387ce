// Package comparison holds comparisons of elements and of whole tensors.
//
// Comparisons of elements are forms of package pointwise with a bool result. Selecting elements by
// a condition is in package index, reductions such as All and Any in package reduction.
//
// Table holds the operators; package nn joins the tables, and a test calls one with
// package optest:
//
//	optest.Run(t, name, optest.Args{"self": x, "out": y})
package comparison

import (
	"github.com/goascend/cann/internal/emu/op"
)

// Table holds the operators of the family by name without "aclnn".
var Table = op.Merge(comparisons, memberships, wholeComparisons)

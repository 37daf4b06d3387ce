// Package reduction holds operators that reduce, scan, sort or count along dimensions.
//
// They are sums, means, extremes, norms, running reductions, sorting, unique elements and
// counts. Comparisons of single elements are in package comparison.
//
// Table names the operators; package nn joins the tables, and a test calls one with
// package optest:
//
//	optest.Run(t, name, optest.Args{"self": x, "out": y})
package reduction

import (
	"github.com/goascend/cann/internal/emu/op"
)

// Table lists the operators of the package by name, without the prefix "aclnn".
var Table = op.Merge(cumulatives, orderStatistics, orderings, reductions, sums, uniques)

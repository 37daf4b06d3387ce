// Package layout holds operators that move, copy, cast, pad or fill, and change no value otherwise.
//
// It also holds conversions between storage formats (format.go: FRACTAL_NZ), diagonals and
// triangles, and the lossless compression of exponents (hans.go). Operators that take index
// tensors are in package index.
//
// Table names the operators; package nn joins the tables, and a test calls one with
// package optest:
//
//	optest.Run(t, name, optest.Args{"self": x, "out": y})
package layout

import (
	"github.com/goascend/cann/internal/emu/op"
)

// Table lists the operators of the package by name, without the prefix "aclnn".
var Table = op.Merge(
	exponentCodes,
	filling,
	formatTable,
	moving,
	paddings,
	rearranging,
	signBits,
	stridedSlices,
	viewCopies,
)

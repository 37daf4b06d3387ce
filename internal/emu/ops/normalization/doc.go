// Package normalization holds norms, their gradients, and the forms that add or quantise on the way.
//
// Norms normalise over trailing dimensions (norm.go, added.go, adaptive.go, quant.go), over
// groups of channels, or over batches. Renorm, which limits norms, is here too; norms as
// reductions are in package reduction.
//
// Table names the operators; package nn joins the tables, and a test calls one with
// package optest:
//
//	optest.Run(t, name, optest.Args{"self": x, "out": y})
package normalization

import (
	"github.com/goascend/cann/internal/emu/op"
)

// Table lists the operators of the package by name, without the prefix "aclnn".
var Table = op.Merge(
	adaptiveNorms,
	addedNorms,
	batchNorms,
	groupNorms,
	hyperConnections,
	mxNorms,
	norms,
	quantBatchNorms,
	quantNorms,
	renorms,
)

// Package index holds operators that read or write elements at positions given by tensors.
//
// It has gathering and scattering, embeddings, masks, searches for positions, and repetition by
// counts. A position out of range is a fault of the stream, and nothing is written. Slices, whose
// ranges are attributes, are in package layout.
//
// Table holds the operators; package nn joins the tables, and a test calls one with
// package optest:
//
//	optest.Run(t, name, optest.Args{"self": x, "out": y})
package index

import (
	"github.com/goascend/cann/internal/emu/op"
)

// Table holds the operators of the family by name without "aclnn".
var Table = op.Merge(
	bags,
	cacheWrites,
	embeddings,
	indexing,
	jagged,
	oneHots,
	reading,
	searches,
	selections,
	writing,
)

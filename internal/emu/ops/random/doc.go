// Package random holds random numbers, dropout, and sampling from logits.
//
// All operators draw from random.Philox with a seed and an offset, so results are reproducible.
// The runtime function aclrtRandomNumAsync is in package nn.
//
// Table names the operators; package nn joins the tables, and a test calls one with
// package optest:
//
//	optest.Run(t, name, optest.Args{"self": x, "out": y})
package random

import (
	"github.com/goascend/cann/internal/emu/op"
)

// Table lists the operators of the package by name, without the prefix "aclnn".
var Table = op.Merge(dropouts, randoms, samplings)

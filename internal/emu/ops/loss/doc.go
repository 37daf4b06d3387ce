// Package loss holds losses and their gradients.
//
// Losses compare elements (pointwise.go), classes (loss.go, nll.go, classes.go), distributions
// (entropy.go) or sequences (ctc.go). vocabulary.go has the cross entropy over a vocabulary that
// is divided among ranks. Plain softmax is in package activation.
//
// Table names the operators; package nn joins the tables, and a test calls one with
// package optest:
//
//	optest.Run(t, name, optest.Args{"self": x, "out": y})
package loss

import (
	"github.com/goascend/cann/internal/emu/op"
)

// Table lists the operators of the package by name, without the prefix "aclnn".
var Table = op.Merge(
	classLosses,
	divergences,
	likelihoods,
	losses,
	pointwiseLosses,
	sequenceLosses,
	vocabularyLosses,
)

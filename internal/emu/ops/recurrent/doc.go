// Package recurrent holds recurrent layers and the delta rule of linear attention.
//
// It covers LSTM and GRU over sequences, the gated delta rule in chunks and token by token, and
// their gradients, and Kimi delta attention token by token. The causal convolution that precedes the delta rule is in package
// convolution.
//
// Table names the operators; package nn joins the tables, and a test calls one with
// package optest:
//
//	optest.Run(t, name, optest.Args{"self": x, "out": y})
package recurrent

import (
	"github.com/goascend/cann/internal/emu/op"
)

// Table lists the operators of the package by name, without the prefix "aclnn".
var Table = op.Merge(deltaRule, kimi, recurrences, segmentSums)

// Package activation holds activation functions, gated units and softmax.
//
// Activations are element-wise forms (package pointwise) listed in activation.go. Gated units such
// as SwiGLU, softmax with a scale or a mask, and modulation by a row have files of their own. Gated
// units with a quantised result are in package quantization, functions such as exp and tanh in
// package elementwise.
//
// Table holds the operators; package nn joins the tables, and a test calls one with
// package optest:
//
//	optest.Run(t, name, optest.Args{"self": x, "out": y})
package activation

import (
	"github.com/goascend/cann/internal/emu/op"
)

// Table holds the operators of the family by name without "aclnn".
var Table = op.Merge(
	activations,
	boundedGates,
	gatedUnits,
	maskedSoftmaxes,
	modulations,
	randomSlopes,
	slopes,
	softmaxes,
	transports,
)

// Package convolution holds convolutions, their gradients, and the rearrangement of windows as
// columns.
//
// Convolutions have one to three dimensions and may be transposed, depthwise, deformable,
// quantised, or causal for sequence models. Windows that are reduced without weights are in package
// pooling.
//
// Table holds the operators; package nn joins the tables, and a test calls one with
// package optest:
//
//	optest.Run(t, name, optest.Args{"self": x, "out": y})
package convolution

import (
	"github.com/goascend/cann/internal/emu/op"
)

// Table holds the operators of the family by name without "aclnn".
var Table = op.Merge(causalConvolutions, convolutions, deformedConvolutions, quantConvolutions, weights)

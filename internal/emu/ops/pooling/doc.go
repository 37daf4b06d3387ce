// Package pooling holds pooling, its gradients, and unpooling.
//
// Windows are reduced to a maximum or a mean. Interpolation is in package resampling; windows
// with weights are in package convolution.
//
// Table names the operators; package nn joins the tables, and a test calls one with
// package optest:
//
//	optest.Run(t, name, optest.Args{"self": x, "out": y})
package pooling

import (
	"github.com/goascend/cann/internal/emu/op"
)

// Table lists the operators of the package by name, without the prefix "aclnn".
var Table = op.Merge(maskPools, pools)

// Package resampling holds interpolation: resizing, grids, and affine maps.
//
// Each output element is a weighted sum of input elements at positions that follow from the
// sizes or from a grid. Windows are in package pooling.
//
// Table names the operators; package nn joins the tables, and a test calls one with
// package optest:
//
//	optest.Run(t, name, optest.Args{"self": x, "out": y})
package resampling

import (
	"github.com/goascend/cann/internal/emu/op"
)

// Table lists the operators of the package by name, without the prefix "aclnn".
var Table = op.Merge(blends, grids, overlaps, points, rasters, regions, resizings, smoothings, suppressions)

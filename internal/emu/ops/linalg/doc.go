// Package linalg holds linear algebra beyond products: factorisations, distances, Fourier transforms.
//
// Products of matrices are in package matmul, norms of tensors in package reduction.
//
// Table names the operators; package nn joins the tables, and a test calls one with
// package optest:
//
//	optest.Run(t, name, optest.Args{"self": x, "out": y})
package linalg

import (
	"github.com/goascend/cann/internal/emu/op"
)

// Table lists the operators of the package by name, without the prefix "aclnn".
var Table = op.Merge(
	crossProducts,
	distances,
	factorisations,
	fourierTransforms,
	traces,
	triangularSystems,
)

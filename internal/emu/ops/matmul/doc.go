// Package matmul holds products of matrices: plain, batched, grouped, quantised and sparse.
//
// Multiply is the common product with broadcasting and storage formats. grouped*.go are the
// grouped products of experts; quant*.go are the products of int8 and int4, whose conversions
// are in package quantization. Products fused with collectives are in package communication,
// which uses this package.
//
// Table names the operators; package nn joins the tables, and a test calls one with
// package optest:
//
//	optest.Run(t, name, optest.Args{"self": x, "out": y})
package matmul

import (
	"github.com/goascend/cann/internal/emu/op"
)

// Table lists the operators of the package by name, without the prefix "aclnn".
var Table = op.Merge(
	adapters,
	contractions,
	feedForwards,
	fusedProducts,
	groupedBiases,
	groupedDequants,
	groupedFused,
	groupedTable,
	matmulTable,
	mixedProducts,
	quantProducts,
	sparseProducts,
	minifloatProducts,
)

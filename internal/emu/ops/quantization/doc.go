// Package quantization holds conversions to and from few bits, and activations fused with them.
//
// Quantisation is static, dynamic, grouped, block-wise or rotated; the packing of scales is here
// too. Quantised products, norms, convolutions and optimizers are in the package of their
// floating-point form.
//
// Table names the operators; package nn joins the tables, and a test calls one with
// package optest:
//
//	optest.Run(t, name, optest.Args{"self": x, "out": y})
package quantization

import (
	"github.com/goascend/cann/internal/emu/op"
)

// Table lists the operators of the package by name, without the prefix "aclnn".
var Table = op.Merge(
	blockQuantisations,
	blockScalings,
	boundedQuantGates,
	dequantGates,
	dynamicScalings,
	fakeQuantisations,
	gateQuantisations,
	groupQuantisations,
	mxGates,
	quantActivations,
	quantPacks,
	quantParams,
	quantisations,
	rotations,
	scalings,
)

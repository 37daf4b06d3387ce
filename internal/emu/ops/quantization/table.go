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
	fakeQuantisations,
	gateQuantisations,
	groupQuantisations,
	quantActivations,
	quantPacks,
	quantParams,
	quantisations,
	rotations,
	scalings,
)

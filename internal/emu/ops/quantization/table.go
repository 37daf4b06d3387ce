package quantization

import (
	"github.com/goascend/cann/internal/emu/op"
)

// Table lists the operators of the package by name, without the prefix "aclnn".
var Table = op.Merge(
	blockQuantisations,
	boundedQuantGates,
	dequantGates,
	fakeQuantisations,
	groupQuantisations,
	quantActivations,
	quantPacks,
	quantParams,
	quantisations,
	rotations,
)

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

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
	groupedFused,
	groupedTable,
	matmulTable,
	mixedProducts,
	quantProducts,
	sparseProducts,
	tinyProducts,
)

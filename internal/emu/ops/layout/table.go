package layout

import (
	"github.com/goascend/cann/internal/emu/op"
)

// Table lists the operators of the package by name, without the prefix "aclnn".
var Table = op.Merge(
	exponentCodes,
	filling,
	formatTable,
	moving,
	paddings,
	rearranging,
	signBits,
	stridedSlices,
	viewCopies,
)

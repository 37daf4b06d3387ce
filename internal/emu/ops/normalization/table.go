package normalization

import (
	"github.com/goascend/cann/internal/emu/op"
)

// Table lists the operators of the package by name, without the prefix "aclnn".
var Table = op.Merge(
	adaptiveNorms,
	addedNorms,
	batchNorms,
	groupNorms,
	mxNorms,
	norms,
	quantBatchNorms,
	quantNorms,
	renorms,
)

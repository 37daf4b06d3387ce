package resampling

import (
	"github.com/goascend/cann/internal/emu/op"
)

// Table lists the operators of the package by name, without the prefix "aclnn".
var Table = op.Merge(blends, grids, regions, resizings, smoothings, suppressions)

package recurrent

import (
	"github.com/goascend/cann/internal/emu/op"
)

// Table lists the operators of the package by name, without the prefix "aclnn".
var Table = op.Merge(deltaRule, kimi, recurrences, segmentSums)

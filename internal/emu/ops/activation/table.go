package activation

import (
	"github.com/goascend/cann/internal/emu/op"
)

// Table holds the operators of the family by name without "aclnn".
var Table = op.Merge(
	activations,
	boundedGates,
	gatedUnits,
	maskedSoftmaxes,
	modulations,
	randomSlopes,
	slopes,
	softmaxes,
	transports,
)

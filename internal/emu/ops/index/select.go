package index

import (
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/pointwise"
)

// selections select elements by a condition.
var selections = op.Merge(
	pointwise.Form{Op: elementwise.Where, Types: pointwise.Selecting}.Table("SWhere").Selects(),
	pointwise.Form{Op: elementwise.Where, Types: pointwise.Assigning, Operands: []string{"mask", "value", "selfRef"}}.Table("InplaceMaskedFillScalar", "InplaceMaskedFillTensor").Selects(),
)

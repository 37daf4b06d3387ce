package elementwise

import (
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/pointwise"
)

// gradients are the backward operators of functions of one tensor. They include the scaling by a
// mask that dropout and its gradient share.
var gradients = op.Merge(
	pointwise.Form{Op: elementwise.SqrtGrad, Types: pointwise.Floating}.Table("SqrtBackward"),
	pointwise.Form{Op: elementwise.AcosGrad, Types: pointwise.Floating}.Table("AcosGrad"),
	pointwise.Form{Op: elementwise.AcosGrad, Types: pointwise.Floating, Operands: []string{"dy", "y"}}.Table("AcosGradV2"),
	pointwise.Form{Op: elementwise.AsinhGrad, Types: pointwise.Floating, Operands: []string{"dy", "y"}}.Table("AsinhGrad"),
	pointwise.Form{Op: elementwise.AtanGrad, Types: pointwise.Floating, Operands: []string{"dy", "x"}}.Table("AtanGrad"),
	pointwise.Form{Op: elementwise.LogitGrad, Types: pointwise.Floating, Operands: []string{"dy", "x"}, Params: []string{"eps"}}.Table("LogitGrad"),
	pointwise.Form{Op: elementwise.MaskedScale, Types: pointwise.Floating, Params: []string{"scale"}}.Table("MaskedScale"),
)

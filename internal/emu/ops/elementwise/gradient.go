package elementwise

import (
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/pointwise"
)

// gradients are the backward operators of functions of one tensor. They include the scaling by a
// mask that dropout and its gradient share.
var gradients = op.Merge(
	pointwise.Form{Op: kernel.SqrtGrad, Types: pointwise.Floating}.Table("SqrtBackward"),
	pointwise.Form{Op: kernel.AcosGrad, Types: pointwise.Floating}.Table("AcosGrad"),
	pointwise.Form{Op: kernel.AcosGrad, Types: pointwise.Floating, Operands: []string{"dy", "y"}}.Table("AcosGradV2"),
	pointwise.Form{Op: kernel.AsinhGrad, Types: pointwise.Floating, Operands: []string{"dy", "y"}}.Table("AsinhGrad"),
	pointwise.Form{Op: kernel.AtanGrad, Types: pointwise.Floating, Operands: []string{"dy", "x"}}.Table("AtanGrad"),
	pointwise.Form{Op: kernel.LogitGrad, Types: pointwise.Floating, Operands: []string{"dy", "x"}, Params: []string{"eps"}}.Table("LogitGrad"),
	pointwise.Form{Op: kernel.MaskedScale, Types: pointwise.Floating, Params: []string{"scale"}}.Table("MaskedScale"),
)

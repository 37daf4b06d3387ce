package elementwise

import (
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/pointwise"
)

// unary are the functions of one tensor. Each has an in-place form if CANN has one.
var unary = op.Merge(
	pointwise.Form{Op: elementwise.Abs}.Table("Abs"),
	pointwise.Form{Op: elementwise.Neg}.Table("Neg", "InplaceNeg"),
	pointwise.Form{Op: elementwise.Sign, Out: "result"}.Table("Sign"),
	pointwise.Form{Op: elementwise.Square}.Table("Square"),
	pointwise.Form{Op: elementwise.Sqrt, Types: pointwise.Floating, Complex: true}.Table("Sqrt", "InplaceSqrt"),
	pointwise.Form{Op: elementwise.Rsqrt, Types: pointwise.Floating, Complex: true}.Table("Rsqrt", "InplaceRsqrt"),
	pointwise.Form{Op: elementwise.Reciprocal, Types: pointwise.Floating, Complex: true}.Table("Reciprocal", "InplaceReciprocal"),
	pointwise.Form{Op: elementwise.Exp, Types: pointwise.Floating, Complex: true}.Table("Exp", "InplaceExp"),
	pointwise.Form{Op: elementwise.Exp2, Types: pointwise.Floating}.Table("Exp2", "InplaceExp2"),
	pointwise.Form{Op: elementwise.Expm1, Types: pointwise.Floating}.Table("Expm1", "InplaceExpm1"),
	pointwise.Form{Op: elementwise.Log, Types: pointwise.Floating, Complex: true}.Table("Log", "InplaceLog"),
	pointwise.Form{Op: elementwise.Log2, Types: pointwise.Floating, Complex: true}.Table("Log2", "InplaceLog2"),
	pointwise.Form{Op: elementwise.Log10, Types: pointwise.Floating}.Table("Log10", "InplaceLog10"),
	pointwise.Form{Op: elementwise.Log1p, Types: pointwise.Floating}.Table("Log1p", "InplaceLog1p"),
	pointwise.Form{Op: elementwise.Sin, Types: pointwise.Floating, Complex: true}.Table("Sin", "InplaceSin"),
	pointwise.Form{Op: elementwise.Cos, Types: pointwise.Floating, Complex: true}.Table("Cos", "InplaceCos"),
	pointwise.Form{Op: elementwise.Tan, Types: pointwise.Floating, Complex: true}.Table("Tan", "InplaceTan"),
	pointwise.Form{Op: elementwise.Asin, Types: pointwise.Floating}.Table("Asin", "InplaceAsin"),
	pointwise.Form{Op: elementwise.Acos, Types: pointwise.Floating}.Table("Acos", "InplaceAcos"),
	pointwise.Form{Op: elementwise.Atan, Types: pointwise.Floating}.Table("Atan", "InplaceAtan"),
	pointwise.Form{Op: elementwise.Sinh, Types: pointwise.Floating, Complex: true}.Table("Sinh", "InplaceSinh"),
	pointwise.Form{Op: elementwise.Cosh, Types: pointwise.Floating, Complex: true}.Table("Cosh", "InplaceCosh"),
	pointwise.Form{Op: elementwise.Tanh, Types: pointwise.Floating}.Table("Tanh", "InplaceTanh"),
	pointwise.Form{Op: elementwise.Asinh, Types: pointwise.Floating, Complex: true}.Table("Asinh", "InplaceAsinh"),
	pointwise.Form{Op: elementwise.Asinh, Types: pointwise.Floating}.Table("AsinhV2"),
	pointwise.Form{Op: elementwise.Acosh, Types: pointwise.Floating, Complex: true}.Table("Acosh", "InplaceAcosh"),
	pointwise.Form{Op: elementwise.Atanh, Types: pointwise.Floating, Complex: true}.Table("Atanh", "InplaceAtanh"),
	pointwise.Form{Op: elementwise.Erf, Types: pointwise.Floating}.Table("Erf", "InplaceErf"),
	pointwise.Form{Op: elementwise.Erfc, Types: pointwise.Floating}.Table("Erfc", "InplaceErfc"),
	pointwise.Form{Op: elementwise.Erfinv, Types: pointwise.Floating}.Table("Erfinv", "InplaceErfinv"),
	pointwise.Form{Op: elementwise.Lgamma, Types: pointwise.Floating}.Table("Lgamma"),
	pointwise.Form{Op: elementwise.Digamma, Types: pointwise.Floating}.Table("Digamma"),
	pointwise.Form{Op: elementwise.Sinc, Types: pointwise.Floating}.Table("Sinc", "InplaceSinc"),
	pointwise.Form{Op: elementwise.Logit, Types: pointwise.Floating, Params: []string{"eps"}}.Table("Logit"),
	pointwise.Form{Op: elementwise.Floor, Whole: true}.Table("Floor", "InplaceFloor"),
	pointwise.Form{Op: elementwise.Ceil, Whole: true}.Table("Ceil", "InplaceCeil"),
	pointwise.Form{Op: elementwise.Trunc, Whole: true}.Table("Trunc", "InplaceTrunc"),
	pointwise.Form{Op: elementwise.Round, Whole: true}.Table("Round", "InplaceRound"),
	pointwise.Form{Op: elementwise.Frac, Types: pointwise.Floating, Cut: true}.Table("Frac", "InplaceFrac"),
	pointwise.Form{Op: elementwise.BitNot, Bools: elementwise.LogicalNot}.Table("BitwiseNot"),
	pointwise.Form{Op: elementwise.NanToNum, Types: pointwise.Arithmetic, Whole: true, Params: []string{"nan", "posinf", "neginf"}}.Table("NanToNum", "InplaceNanToNum"),
)

package elementwise

import (
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/pointwise"
)

// unary are the functions of one tensor. Each has an in-place form if CANN has one.
var unary = op.Merge(
	pointwise.Form{Op: kernel.Abs}.Table("Abs"),
	pointwise.Form{Op: kernel.Neg}.Table("Neg", "InplaceNeg"),
	pointwise.Form{Op: kernel.Sign, Out: "result"}.Table("Sign"),
	pointwise.Form{Op: kernel.Square}.Table("Square"),
	pointwise.Form{Op: kernel.Sqrt, Types: pointwise.Floating}.Table("Sqrt", "InplaceSqrt"),
	pointwise.Form{Op: kernel.Rsqrt, Types: pointwise.Floating}.Table("Rsqrt", "InplaceRsqrt"),
	pointwise.Form{Op: kernel.Reciprocal, Types: pointwise.Floating}.Table("Reciprocal", "InplaceReciprocal"),
	pointwise.Form{Op: kernel.Exp, Types: pointwise.Floating}.Table("Exp", "InplaceExp"),
	pointwise.Form{Op: kernel.Exp2, Types: pointwise.Floating}.Table("Exp2", "InplaceExp2"),
	pointwise.Form{Op: kernel.Expm1, Types: pointwise.Floating}.Table("Expm1", "InplaceExpm1"),
	pointwise.Form{Op: kernel.Log, Types: pointwise.Floating}.Table("Log", "InplaceLog"),
	pointwise.Form{Op: kernel.Log2, Types: pointwise.Floating}.Table("Log2", "InplaceLog2"),
	pointwise.Form{Op: kernel.Log10, Types: pointwise.Floating}.Table("Log10", "InplaceLog10"),
	pointwise.Form{Op: kernel.Log1p, Types: pointwise.Floating}.Table("Log1p", "InplaceLog1p"),
	pointwise.Form{Op: kernel.Sin, Types: pointwise.Floating}.Table("Sin", "InplaceSin"),
	pointwise.Form{Op: kernel.Cos, Types: pointwise.Floating}.Table("Cos", "InplaceCos"),
	pointwise.Form{Op: kernel.Tan, Types: pointwise.Floating}.Table("Tan", "InplaceTan"),
	pointwise.Form{Op: kernel.Asin, Types: pointwise.Floating}.Table("Asin", "InplaceAsin"),
	pointwise.Form{Op: kernel.Acos, Types: pointwise.Floating}.Table("Acos", "InplaceAcos"),
	pointwise.Form{Op: kernel.Atan, Types: pointwise.Floating}.Table("Atan", "InplaceAtan"),
	pointwise.Form{Op: kernel.Sinh, Types: pointwise.Floating}.Table("Sinh", "InplaceSinh"),
	pointwise.Form{Op: kernel.Cosh, Types: pointwise.Floating}.Table("Cosh", "InplaceCosh"),
	pointwise.Form{Op: kernel.Tanh, Types: pointwise.Floating}.Table("Tanh", "InplaceTanh"),
	pointwise.Form{Op: kernel.Asinh, Types: pointwise.Floating}.Table("Asinh", "InplaceAsinh", "AsinhV2"),
	pointwise.Form{Op: kernel.Acosh, Types: pointwise.Floating}.Table("Acosh", "InplaceAcosh"),
	pointwise.Form{Op: kernel.Atanh, Types: pointwise.Floating}.Table("Atanh", "InplaceAtanh"),
	pointwise.Form{Op: kernel.Erf, Types: pointwise.Floating}.Table("Erf", "InplaceErf"),
	pointwise.Form{Op: kernel.Erfc, Types: pointwise.Floating}.Table("Erfc", "InplaceErfc"),
	pointwise.Form{Op: kernel.Erfinv, Types: pointwise.Floating}.Table("Erfinv", "InplaceErfinv"),
	pointwise.Form{Op: kernel.Lgamma, Types: pointwise.Floating}.Table("Lgamma"),
	pointwise.Form{Op: kernel.Digamma, Types: pointwise.Floating}.Table("Digamma"),
	pointwise.Form{Op: kernel.Sinc, Types: pointwise.Floating}.Table("Sinc", "InplaceSinc"),
	pointwise.Form{Op: kernel.Logit, Types: pointwise.Floating, Params: []string{"eps"}}.Table("Logit"),
	pointwise.Form{Op: kernel.Floor, Whole: true}.Table("Floor", "InplaceFloor"),
	pointwise.Form{Op: kernel.Ceil, Whole: true}.Table("Ceil", "InplaceCeil"),
	pointwise.Form{Op: kernel.Trunc, Whole: true}.Table("Trunc", "InplaceTrunc"),
	pointwise.Form{Op: kernel.Round, Whole: true}.Table("Round", "InplaceRound"),
	pointwise.Form{Op: kernel.Frac, Types: pointwise.Floating, Cut: true}.Table("Frac", "InplaceFrac"),
	pointwise.Form{Op: kernel.BitNot, Bools: kernel.LogicalNot}.Table("BitwiseNot"),
	pointwise.Form{Op: kernel.NanToNum, Types: pointwise.Arithmetic, Whole: true, Params: []string{"nan", "posinf", "neginf"}}.Table("NanToNum", "InplaceNanToNum"),
)

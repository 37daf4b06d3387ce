package nn

import (
	"math"

	"github.com/goascend/cann/internal/emu/kernel"
)

var alpha = []string{"alpha"}

// binaries are the functions of two and more operands, tensors or scalars.
var binaries = merge(
	elementwise{op: kernel.Add, params: alpha}.forms("Add", "Adds", "AddV3", "InplaceAdd", "InplaceAdds"),
	elementwise{op: kernel.Add, params: alpha, scale: minusOne}.forms("Sub", "Subs", "InplaceSub", "InplaceSubs"),
	elementwise{op: kernel.ReverseSub, params: alpha}.forms("Rsub", "Rsubs"),
	elementwise{op: kernel.Mul}.forms("Mul", "Muls", "InplaceMul", "InplaceMuls"),
	elementwise{op: kernel.Div, types: floating}.forms("Div", "Divs", "InplaceDiv", "InplaceDivs"),
	elementwise{op: kernel.FloorDiv}.forms("FloorDivide", "FloorDivides", "InplaceFloorDivide", "InplaceFloorDivides"),
	elementwise{op: kernel.Fmod}.forms("FmodTensor", "FmodScalar", "InplaceFmodTensor", "InplaceFmodScalar"),
	elementwise{op: kernel.Remainder}.forms("RemainderTensorTensor", "RemainderTensorScalar", "RemainderScalarTensor",
		"InplaceRemainderTensorTensor", "InplaceRemainderTensorScalar"),
	elementwise{op: kernel.Pow}.forms("PowTensorTensor", "PowScalarTensor", "InplacePowTensorTensor"),
	elementwise{op: kernel.Max}.forms("Maximum", "ClampMin", "ClampMinTensor", "InplaceClampMinTensor"),
	elementwise{op: kernel.Min}.forms("Minimum", "ClampMax", "ClampMaxTensor", "InplaceClampMax", "InplaceClampMaxTensor"),
	elementwise{op: kernel.Clamp}.forms("ClampTensor"),
	elementwise{op: kernel.Atan2, types: floating}.forms("Atan2", "InplaceAtan2"),
	elementwise{op: kernel.LogAddExp, types: floating}.forms("LogAddExp"),
	elementwise{op: kernel.LogAddExp2, types: floating}.forms("LogAddExp2"),
	elementwise{op: kernel.XLogY, types: floating}.forms("XLogYTensor", "XLogYScalarOther", "XLogYScalarSelf",
		"InplaceXLogYTensor", "InplaceXLogYScalarOther"),
	elementwise{op: kernel.XLog1pY, types: floating}.forms("Xlog1py"),
	elementwise{op: kernel.Heaviside}.forms("Heaviside"),
	elementwise{op: kernel.GCD}.forms("Gcd"),
	elementwise{op: kernel.Equal, types: comparing}.forms("EqTensor", "EqScalar", "InplaceEqTensor", "InplaceEqScalar"),
	elementwise{op: kernel.NotEqual, types: comparing}.forms("NeTensor", "NeScalar", "InplaceNeTensor", "InplaceNeScalar"),
	elementwise{op: kernel.Less, types: comparing}.forms("LtTensor", "LtScalar", "InplaceLtTensor", "InplaceLtScalar"),
	elementwise{op: kernel.LessEqual, types: comparing}.forms("LeTensor", "LeScalar", "InplaceLeTensor", "InplaceLeScalar"),
	elementwise{op: kernel.Greater, types: comparing}.forms("GtTensor", "GtScalar", "InplaceGtTensor", "InplaceGtScalar"),
	elementwise{op: kernel.GreaterEqual, types: comparing}.forms("GeTensor", "GeScalar", "InplaceGeTensor", "InplaceGeScalar"),
	elementwise{op: kernel.LogicalAnd, types: comparing}.forms("LogicalAnd", "InplaceLogicalAnd"),
	elementwise{op: kernel.LogicalOr, types: comparing}.forms("LogicalOr", "InplaceLogicalOr"),
	elementwise{op: kernel.LogicalXor, types: comparing}.forms("LogicalXor"),
	elementwise{op: kernel.BitAnd}.forms("BitwiseAndTensor", "BitwiseAndScalar", "BitwiseAndTensorOut",
		"InplaceBitwiseAndTensor", "InplaceBitwiseAndScalar", "InplaceBitwiseAndTensorOut"),
	elementwise{op: kernel.BitOr}.forms("BitwiseOrTensor", "BitwiseOrScalar", "InplaceBitwiseOrTensor", "InplaceBitwiseOrScalar"),
	elementwise{op: kernel.BitXor}.forms("BitwiseXorTensor", "BitwiseXorScalar", "InplaceBitwiseXorTensor", "InplaceBitwiseXorScalar"),
	elementwise{op: kernel.ShiftLeft}.forms("LeftShift", "LeftShifts"),
	elementwise{op: kernel.ShiftRight}.forms("RightShift"),
	elementwise{op: kernel.IsClose, types: truth, params: []string{"rtol", "atol", "equal_nan"}}.forms("IsClose"),
	elementwise{op: kernel.Addcmul, params: []string{"value"}}.forms("Addcmul", "InplaceAddcmul"),
	elementwise{op: kernel.Addcdiv, types: floating, params: []string{"value"}}.forms("Addcdiv", "InplaceAddcdiv"),
	elementwise{op: kernel.Lerp, types: floating}.forms("Lerp", "Lerps", "InplaceLerp", "InplaceLerps"),
	elementwise{op: kernel.Where, types: selecting}.forms("SWhere"),
	elementwise{op: kernel.Where, types: assigning, operands: []string{"mask", "value", "selfRef"}}.forms("InplaceMaskedFillScalar", "InplaceMaskedFillTensor"),
	table{
		"PowTensorScalar": power, "InplacePowTensorScalar": power, "Clamp": clamp,
		"DivMod": roundedDivision, "DivMods": roundedDivision, "InplaceDivMod": roundedDivision, "InplaceDivMods": roundedDivision,
		"RoundDecimals": roundDecimals, "InplaceRoundDecimals": roundDecimals,
	},
)

// power computes the exponents that have a cheaper form without pow.
func power(c *Call) (Run, error) {
	e := elementwise{op: kernel.Pow}
	if x := c.Optional("self"); x != nil && x.DType.IsFloat() {
		cheap := map[float64]kernel.Op{1: kernel.Identity, 2: kernel.Square, 0.5: kernel.Sqrt, -0.5: kernel.Rsqrt, -1: kernel.Reciprocal}
		if op, ok := cheap[c.Scalar("exponent").Float64()]; ok {
			return elementwise{op: op, params: []string{"exponent"}}.prepare(c)
		}
	}
	return e.prepare(c)
}

// clamp takes bounds that may be absent, but not both.
func clamp(c *Call) (Run, error) {
	self, out := c.Tensor("self"), c.Tensor("out")
	lo, hi := c.OptionalScalar("clipValueMin"), c.OptionalScalar("clipValueMax")
	x := operand{tensor: self}
	none := func() []kernel.Number { return nil }
	switch {
	case lo == nil && hi == nil:
		c.Fail(nullPointer, "clipValueMin and clipValueMax are null; give one of them")
		return nil, c.Err()
	case lo == nil:
		return elementwise{op: kernel.Min}.run(c, out, []operand{x, {scalar: hi}}, none)
	case hi == nil:
		return elementwise{op: kernel.Max}.run(c, out, []operand{x, {scalar: lo}}, none)
	}
	return elementwise{op: kernel.Clamp}.run(c, out, []operand{x, {scalar: lo}, {scalar: hi}}, none)
}

// roundedDivision divides: mode 0 exactly, 1 rounding to zero, 2 rounding down.
func roundedDivision(c *Call) (Run, error) {
	switch mode := c.Int("mode"); mode {
	case 0:
		return elementwise{op: kernel.Div, types: floating}.prepare(c)
	case 1:
		return elementwise{op: kernel.TruncDiv}.prepare(c)
	case 2:
		return elementwise{op: kernel.FloorDiv}.prepare(c)
	default:
		c.Invalid("mode is %d; use 0 (true division), 1 (rounds to zero) or 2 (rounds down)", mode)
		return nil, c.Err()
	}
}

// roundDecimals rounds to a number of decimals, which may be negative.
func roundDecimals(c *Call) (Run, error) {
	if decimals := c.Int("decimals"); decimals != 0 {
		scale := []float64{math.Pow(10, float64(decimals))}
		return elementwise{op: kernel.RoundDecimals, whole: true, fixed: scale}.prepare(c)
	}
	return elementwise{op: kernel.Round, whole: true}.prepare(c)
}

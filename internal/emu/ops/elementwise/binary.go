package elementwise

import (
	"math"
	"slices"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/pointwise"
)

var alpha = []string{"alpha"}

// binaries are the functions of two or more operands, which are tensors or scalars.
var binaries = op.Merge(
	pointwise.Form{Op: elementwise.Add, Params: alpha}.Table("Add", "Adds", "AddV3", "InplaceAdd", "InplaceAdds"),
	pointwise.Form{Op: elementwise.Add, Params: alpha, Scale: pointwise.MinusOne}.Table("Sub", "Subs", "InplaceSub", "InplaceSubs"),
	pointwise.Form{Op: elementwise.ReverseSub, Params: alpha}.Table("Rsub", "Rsubs"),
	pointwise.Form{Op: elementwise.Mul, Narrows: on950}.Table("Mul", "InplaceMul"),
	pointwise.Form{Op: elementwise.Mul, Narrows: but950}.Table("Muls", "InplaceMuls"),
	pointwise.Form{Op: elementwise.FloorDiv, Complex: true}.Table("FloorDivide", "FloorDivides", "InplaceFloorDivide", "InplaceFloorDivides"),
	pointwise.Form{Op: elementwise.Fmod}.Table("FmodTensor", "FmodScalar", "InplaceFmodTensor", "InplaceFmodScalar"),
	pointwise.Form{Op: elementwise.Remainder, Complex: true}.Table("RemainderScalarTensor", "InplaceRemainderTensorTensor"),
	pointwise.Form{Op: elementwise.Remainder, Computes: remainderTypes, Complex: true}.Table("RemainderTensorScalar", "InplaceRemainderTensorScalar"),
	pointwise.Form{Op: elementwise.Pow}.Table("PowTensorTensor", "PowScalarTensor", "InplacePowTensorTensor"),
	pointwise.Form{Op: elementwise.Max}.Table("Maximum", "ClampMin", "ClampMinTensor", "InplaceClampMinTensor"),
	pointwise.Form{Op: elementwise.Min}.Table("Minimum", "ClampMax", "ClampMaxTensor", "InplaceClampMax", "InplaceClampMaxTensor"),
	pointwise.Form{Op: elementwise.Clamp}.Table("ClampTensor"),
	pointwise.Form{Op: elementwise.Atan2, Types: pointwise.Floating, Narrows: everywhere}.Table("Atan2", "InplaceAtan2"),
	pointwise.Form{Op: elementwise.LogAddExp, Types: pointwise.Floating}.Table("LogAddExp"),
	pointwise.Form{Op: elementwise.LogAddExp2, Types: pointwise.Floating}.Table("LogAddExp2"),
	pointwise.Form{Op: elementwise.XLogY, Types: pointwise.Floating}.Table("XLogYTensor", "XLogYScalarOther", "XLogYScalarSelf",
		"InplaceXLogYTensor", "InplaceXLogYScalarOther"),
	pointwise.Form{Op: elementwise.XLog1pY, Types: pointwise.Floating}.Table("Xlog1py"),
	pointwise.Form{Op: elementwise.GCD}.Table("Gcd"),
	pointwise.Form{Op: elementwise.BitAnd}.Table("BitwiseAndTensor", "BitwiseAndScalar", "BitwiseAndTensorOut",
		"InplaceBitwiseAndTensor", "InplaceBitwiseAndScalar", "InplaceBitwiseAndTensorOut"),
	pointwise.Form{Op: elementwise.BitOr}.Table("BitwiseOrTensor", "BitwiseOrScalar", "InplaceBitwiseOrTensor", "InplaceBitwiseOrScalar"),
	pointwise.Form{Op: elementwise.BitXor}.Table("BitwiseXorTensor", "BitwiseXorScalar", "InplaceBitwiseXorTensor", "InplaceBitwiseXorScalar"),
	pointwise.Form{Op: elementwise.ShiftLeft}.Table("LeftShift", "LeftShifts"),
	pointwise.Form{Op: elementwise.ShiftRight}.Table("RightShift"),
	pointwise.Form{Op: elementwise.Addcmul, Params: []string{"value"}}.Table("Addcmul", "InplaceAddcmul"),
	pointwise.Form{Op: elementwise.Addcdiv, Params: []string{"value"}}.Table("Addcdiv", "InplaceAddcdiv"),
	pointwise.Form{Op: elementwise.Lerp, Types: pointwise.Floating}.Table("Lerp", "Lerps", "InplaceLerp", "InplaceLerps"),
	op.Table{
		"Div": divided, "Divs": divided, "InplaceDiv": divided, "InplaceDivs": divided,
		"RemainderTensorTensor": remainder, "PowTensorScalar": power, "InplacePowTensorScalar": power, "Clamp": clamp,
		"DivMod": roundedDivision, "DivMods": roundedDivision, "InplaceDivMod": roundedDivision, "InplaceDivMods": roundedDivision,
		"RoundDecimals": roundDecimals, "InplaceRoundDecimals": roundDecimals,
	},
)

// The source of Mul and InplaceMul does not ask on the 950 whether the product can be stored in the output, and that
// of Muls and InplaceMuls asks on the 950 only. No chip asks for Atan2. The result is cast to the output's type.
func on950(chip acceptance.Chip) bool      { return chip == acceptance.Ascend950 }
func but950(chip acceptance.Chip) bool     { return chip != acceptance.Ascend950 }
func everywhere(chip acceptance.Chip) bool { return true }

var divided = cut(elementwise.Div)

// cut is a function that computes integers in float32. It stores the integer part of the results if all
// tensors have integers.
func cut(fn elementwise.Op) op.Prepare {
	return func(c *op.Call) (op.Run, error) {
		whole := !slices.ContainsFunc(c.AllTensors(), func(t *op.Tensor) bool { return op.Category(t.DType) > 1 })
		return pointwise.Form{Op: fn, Types: pointwise.Floating, Cut: whole}.Prepare(c)
	}
}

// remainder takes one element without dimensions and with one for the same shape, as CANN does before the 950.
func remainder(c *op.Call) (op.Run, error) {
	tensors := []*op.Tensor{c.Tensor("self"), c.Tensor("other"), c.Tensor("out")}
	several := func(t *op.Tensor) bool { return t.Rank() > 1 || t.Len() != 1 }
	if c.Chip() != acceptance.Ascend950 && !slices.ContainsFunc(tensors, several) {
		for _, t := range tensors {
			t.Shape, t.Strides = nil, nil
		}
	}
	return pointwise.Form{Op: elementwise.Remainder, Complex: true}.Prepare(c)
}

// power is Pow with cheaper kernels for some exponents.
func power(c *op.Call) (op.Run, error) {
	e := pointwise.Form{Op: elementwise.Pow}
	if x := c.Optional("self"); x != nil && x.DType.IsFloat() {
		cheap := map[float64]elementwise.Op{1: elementwise.Identity, 2: elementwise.Square, 3: elementwise.Cube, 0.5: elementwise.Sqrt, -0.5: elementwise.Rsqrt, -1: elementwise.Reciprocal}
		if op, ok := cheap[c.Scalar("exponent").Float64()]; ok {
			return pointwise.Form{Op: op, Params: []string{"exponent"}}.Prepare(c)
		}
	}
	return e.Prepare(c)
}

// clamp limits values to bounds. One of the bounds may be absent.
func clamp(c *op.Call) (op.Run, error) {
	self, out := c.Tensor("self"), c.Tensor("out")
	lo, hi := c.OptionalScalar("clipValueMin"), c.OptionalScalar("clipValueMax")
	x := pointwise.Operand{Tensor: self}
	none := func() []elementwise.Number { return nil }
	switch {
	case lo == nil && hi == nil:
		c.Fail(op.NullPointer, "clipValueMin and clipValueMax are null; give one of them")
		return nil, c.Err()
	case lo == nil:
		return pointwise.Form{Op: elementwise.Min}.Run(c, out, []pointwise.Operand{x, {Scalar: hi}}, none)
	case hi == nil:
		return pointwise.Form{Op: elementwise.Max}.Run(c, out, []pointwise.Operand{x, {Scalar: lo}}, none)
	}
	return pointwise.Form{Op: elementwise.Clamp}.Run(c, out, []pointwise.Operand{x, {Scalar: lo}, {Scalar: hi}}, none)
}

// roundedDivision divides: mode 0 is exact, 1 rounds toward zero, 2 rounds down.
func roundedDivision(c *op.Call) (op.Run, error) {
	switch mode := c.Int("mode"); mode {
	case 0:
		return divided(c)
	case 1:
		return pointwise.Form{Op: elementwise.TruncDiv, Complex: true}.Prepare(c)
	case 2:
		return pointwise.Form{Op: elementwise.FloorDiv, Complex: true}.Prepare(c)
	default:
		c.Invalid("mode is %d; use 0 (true division), 1 (rounds to zero) or 2 (rounds down)", mode)
		return nil, c.Err()
	}
}

// roundDecimals rounds to a number of decimals, which may be negative.
func roundDecimals(c *op.Call) (op.Run, error) {
	if decimals := c.Int("decimals"); decimals != 0 {
		scale := []float64{math.Pow(10, float64(decimals))}
		return pointwise.Form{Op: elementwise.RoundDecimals, Whole: true, Fixed: scale}.Prepare(c)
	}
	return pointwise.Form{Op: elementwise.Round, Whole: true}.Prepare(c)
}

// remainderTypes returns the types in which a chip computes remainders. Rules of phase one have them for two tensors; the rule for a tensor and
// a scalar depends on both types, and is not among the rules.
func remainderTypes(chip acceptance.Chip) []dtype.Type {
	types := []dtype.Type{dtype.Int32, dtype.Int64, dtype.Float16, dtype.Float32, dtype.Float64}
	if chip != acceptance.Ascend910 && chip != acceptance.Ascend310P {
		types = append(types, dtype.BFloat16)
	}
	return types
}

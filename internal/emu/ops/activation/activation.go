package activation

import (
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/pointwise"
)

// gradOfSelf names the operands of the backward operators that take the input of the forward
// operator.
var gradOfSelf = []string{"gradOutput", "self"}

// activations are the activation functions and their backward operators. As on the device,
// aclnnGelu computes the tanh form; GeluV2 and GeluBackwardV2 take the form as an argument.
var activations = op.Merge(
	op.Table{"SquaredRelu": squaredRelu, "HardsigmoidV2": hardSigmoid, "InplaceHardsigmoidV2": hardSigmoid},
	pointwise.Form{Op: elementwise.Sigmoid, Types: pointwise.Floating}.Table("Sigmoid", "InplaceSigmoid"),
	pointwise.Form{Op: elementwise.SigmoidGrad, Types: pointwise.Floating}.Table("SigmoidBackward"),
	pointwise.Form{Op: elementwise.TanhGrad, Types: pointwise.Floating}.Table("TanhBackward"),
	pointwise.Form{Op: elementwise.Swish, Types: pointwise.Floating, Fixed: pointwise.Unit}.Table("Silu"),
	pointwise.Form{Op: elementwise.SwishGrad, Types: pointwise.Floating, Fixed: pointwise.Unit}.Table("SiluBackward"),
	pointwise.Form{Op: elementwise.GeluTanh, Types: pointwise.Floating}.Table("Gelu"),
	pointwise.Form{Op: elementwise.GeluTanhGrad, Types: pointwise.Floating}.Table("GeluBackward"),
	pointwise.Form{Op: elementwise.FastGelu, Types: pointwise.Floating}.Table("FastGelu", "FastGeluV2"),
	pointwise.Form{Op: elementwise.FastGeluGrad, Types: pointwise.Floating}.Table("FastGeluBackward"),
	pointwise.Form{Op: elementwise.Softplus, Types: pointwise.Floating, Params: []string{"beta", "threshold"}}.Table("Softplus"),
	pointwise.Form{Op: elementwise.SoftplusGrad, Types: pointwise.Floating, Params: []string{"beta", "threshold"}}.Table("SoftplusBackward"),
	pointwise.Form{Op: elementwise.LogSigmoid, Types: pointwise.Floating, Operands: []string{"self"}, Out: "out"}.Table("LogSigmoid", "LogSigmoidForward").Omits("LogSigmoidForward"),
	pointwise.Form{Op: elementwise.LogSigmoidGrad, Types: pointwise.Floating, Operands: gradOfSelf}.Table("LogSigmoidBackward"),
	pointwise.Form{Op: elementwise.Mish, Types: pointwise.Floating}.Table("Mish", "InplaceMish"),
	pointwise.Form{Op: elementwise.MishGrad, Types: pointwise.Floating}.Table("MishBackward"),
	pointwise.Form{Op: elementwise.Elu, Types: pointwise.Floating, Params: []string{"alpha", "scale", "inputScale"}}.Table("Elu", "InplaceElu", "EluV2"),
	pointwise.Form{Op: elementwise.Elu, Types: pointwise.Floating, Cut: true, Fixed: []float64{seluAlpha, seluScale, 1}}.Table("Selu", "InplaceSelu"),
	pointwise.Form{Op: elementwise.EluResultGrad, Types: pointwise.Floating, Cut: true, Fixed: []float64{seluAlpha, seluScale, 1}}.Table("SeluBackward"),
	pointwise.Form{Op: elementwise.LeakyRelu, Types: pointwise.Floating, Params: []string{"negativeSlope"}}.Table("LeakyRelu", "InplaceLeakyRelu"),
	pointwise.Form{Op: elementwise.LeakyReluGrad, Types: pointwise.Floating, Params: []string{"negativeSlope"}}.Table("LeakyReluBackward"),
	pointwise.Form{Op: elementwise.HardSigmoid, Types: pointwise.Floating, Cut: true}.Table("Hardsigmoid", "InplaceHardsigmoid"),
	pointwise.Form{Op: elementwise.HardSigmoidGrad, Types: pointwise.Floating}.Table("HardsigmoidBackward"),
	pointwise.Form{Op: elementwise.HardSwish, Types: pointwise.Floating}.Table("Hardswish", "InplaceHardswish"),
	pointwise.Form{Op: elementwise.HardSwishGrad, Types: pointwise.Floating, Fixed: []float64{1}}.Table("HardswishBackward"),
	pointwise.Form{Op: elementwise.HardSwishGrad, Types: pointwise.Floating, Fixed: []float64{0}}.Table("HardswishBackwardV2"),
	pointwise.Form{Op: elementwise.Clamp}.Table("Hardtanh", "InplaceHardtanh"),
	pointwise.Form{Op: elementwise.HardTanhGrad, Types: pointwise.Floating, Params: []string{"min", "max"}}.Table("HardtanhBackward"),
	pointwise.Form{Op: elementwise.HardShrink, Types: pointwise.Floating, Params: []string{"lambd"}}.Table("Hardshrink"),
	pointwise.Form{Op: elementwise.SoftShrink, Types: pointwise.Floating, Params: []string{"lambd"}}.Table("Softshrink"),
	pointwise.Form{Op: elementwise.ShrinkGrad, Types: pointwise.Floating, Params: []string{"lambd"}}.Table("HardshrinkBackward", "SoftshrinkBackward"),
	pointwise.Form{Op: elementwise.Shrink, Types: pointwise.Floating, Params: []string{"lambd", "bias"}}.Table("Shrink"),
	pointwise.Form{Op: elementwise.SoftSign, Types: pointwise.Floating}.Table("Softsign"),
	pointwise.Form{Op: elementwise.SoftSignGrad, Types: pointwise.Floating}.Table("SoftsignBackward"),
	pointwise.Form{Op: elementwise.Threshold, Params: []string{"threshold", "value"}}.Table("Threshold", "InplaceThreshold", "ThresholdV2"),
	pointwise.Form{Op: elementwise.ThresholdGrad, Params: []string{"threshold"}}.Table("ThresholdBackward", "ReluGradV4"),
	pointwise.Form{Op: elementwise.Relu}.Table("Relu", "InplaceRelu"),
	op.Table{
		"Swish": swish, "SwishBackward": swish, "GeluV2": gelu, "GeluBackwardV2": gelu, "EluBackward": eluBackward,
		"Celu": celu, "InplaceCelu": celu,
	},
)

// The constants of the SELU activation for self-normalising networks.
const (
	seluAlpha = 1.6732632423543772848170429916717
	seluScale = 1.0507009873554804934193349852946
)

// swish is x * sigmoid(beta * x), where beta may be null, and its backward operator.
func swish(c *op.Call) (op.Run, error) {
	e := pointwise.Form{Op: elementwise.Swish, Types: pointwise.Floating, Operands: []string{"self"}, Fixed: pointwise.Unit, Out: "out"}
	if c.Has("gradOutput") {
		e = pointwise.Form{Op: elementwise.SwishGrad, Types: pointwise.Floating, Operands: gradOfSelf, Fixed: pointwise.Unit, Out: "gradInput"}
	}
	if beta := c.OptionalScalar("betaOptional"); beta != nil {
		e.Fixed = []float64{beta.Float64()}
	}
	return e.Prepare(c)
}

// gelu takes the form as an integer (0 for erf, 1 for tanh), or as a string in the backward
// operator.
func gelu(c *op.Call) (op.Run, error) {
	if c.Has("gradOutput") {
		e := pointwise.Form{Op: elementwise.GeluGrad, Types: pointwise.Floating}
		switch form := c.Text("approximate"); form {
		case "none":
		case "tanh":
			e.Op = elementwise.GeluTanhGrad
		default:
			c.Invalid("approximate is %q; use \"none\" or \"tanh\"", form)
		}
		return e.Prepare(c)
	}
	e := pointwise.Form{Op: elementwise.Gelu, Types: pointwise.Floating}
	switch form := c.Int("approximate"); form {
	case 0:
	case 1:
		e.Op = elementwise.GeluTanh
	default:
		c.Invalid("approximate is %d; use 0 (erf) or 1 (tanh)", form)
	}
	return e.Prepare(c)
}

func eluBackward(c *op.Call) (op.Run, error) {
	e := pointwise.Form{
		Op: elementwise.EluGrad, Types: pointwise.Floating, Operands: []string{"gradOutput", "selfOrResult"},
		Params: []string{"alpha", "scale", "inputScale"}, Out: "gradInput",
	}
	if c.Bool("isResult") {
		e.Op = elementwise.EluResultGrad
		if alpha := c.Scalar("alpha").Float64(); alpha < 0 {
			c.Invalid("alpha is %v; it must not be negative when isResult is true", alpha)
		}
	}
	return e.Prepare(c)
}

// celu is elu with the input divided by alpha.
func celu(c *op.Call) (op.Run, error) {
	alpha := c.Scalar("alpha").Float64()
	if alpha == 0 {
		c.Invalid("alpha is 0; it divides the input")
	}
	e := pointwise.Form{Op: elementwise.Elu, Types: pointwise.Floating, Params: []string{"alpha"}, Fixed: []float64{1, 1 / alpha}, Complex: true}
	return e.Prepare(c)
}

// squaredRelu is max(x, 0)².
func squaredRelu(c *op.Call) (op.Run, error) {
	x, out := c.Tensor("input"), c.Tensor("out")
	c.Plain(x, out)
	c.DType(x, op.FloatTypes...)
	c.Same(x, out)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		t, release := kernel.Temporary(x.Shape...)
		defer release()
		if err := elementwise.Map(elementwise.Relu, dtype.Float32, t, []elementwise.Input{elementwise.Of(x.View())}); err != nil {
			return err
		}
		return elementwise.Map(elementwise.Square, dtype.Float32, out.View(), []elementwise.Input{elementwise.Of(t)})
	}, nil
}

// hardSigmoid is the second version of Hardsigmoid. The tables have no rules of it: both tensors have one of
// the types of the first version.
func hardSigmoid(c *op.Call) (op.Run, error) {
	self := c.Tensor("self")
	c.DType(self, dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Int32)
	if c.Has("out") {
		c.SameDType(self, c.Tensor("out"))
	}
	return pointwise.Form{Op: elementwise.HardSigmoid, Types: pointwise.Floating, Cut: true}.Prepare(c)
}

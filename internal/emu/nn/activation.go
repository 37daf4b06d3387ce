package nn

import (
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// gradOfSelf are the operands of a backward operator in terms of its forward input.
var gradOfSelf = []string{"gradOutput", "self"}

// activations are the activation functions and their backward operators. aclnnGelu is the
// tanh form, as on the device; GeluV2 and GeluBackwardV2 take the form as an argument.
var activations = merge(
	table{"SquaredRelu": squaredRelu},
	elementwise{op: kernel.Sigmoid, types: floating}.forms("Sigmoid", "InplaceSigmoid"),
	elementwise{op: kernel.SigmoidGrad, types: floating}.forms("SigmoidBackward"),
	elementwise{op: kernel.TanhGrad, types: floating}.forms("TanhBackward"),
	elementwise{op: kernel.Swish, types: floating, fixed: unit}.forms("Silu"),
	elementwise{op: kernel.SwishGrad, types: floating, fixed: unit}.forms("SiluBackward"),
	elementwise{op: kernel.GeluTanh, types: floating}.forms("Gelu"),
	elementwise{op: kernel.GeluTanhGrad, types: floating}.forms("GeluBackward"),
	elementwise{op: kernel.FastGelu, types: floating}.forms("FastGelu", "FastGeluV2"),
	elementwise{op: kernel.FastGeluGrad, types: floating}.forms("FastGeluBackward"),
	elementwise{op: kernel.Softplus, types: floating, params: []string{"beta", "threshold"}}.forms("Softplus"),
	elementwise{op: kernel.SoftplusGrad, types: floating, params: []string{"beta", "threshold"}}.forms("SoftplusBackward"),
	elementwise{op: kernel.LogSigmoid, types: floating, operands: []string{"self"}, out: "out"}.forms("LogSigmoid", "LogSigmoidForward"),
	elementwise{op: kernel.LogSigmoidGrad, types: floating, operands: gradOfSelf}.forms("LogSigmoidBackward"),
	elementwise{op: kernel.Mish, types: floating}.forms("Mish", "InplaceMish"),
	elementwise{op: kernel.MishGrad, types: floating}.forms("MishBackward"),
	elementwise{op: kernel.Elu, types: floating, params: []string{"alpha", "scale", "inputScale"}}.forms("Elu", "InplaceElu", "EluV2"),
	elementwise{op: kernel.Elu, types: floating, fixed: []float64{seluAlpha, seluScale, 1}}.forms("Selu", "InplaceSelu"),
	elementwise{op: kernel.EluResultGrad, types: floating, fixed: []float64{seluAlpha, seluScale, 1}}.forms("SeluBackward"),
	elementwise{op: kernel.LeakyRelu, types: floating, params: []string{"negativeSlope"}}.forms("LeakyRelu", "InplaceLeakyRelu"),
	elementwise{op: kernel.LeakyReluGrad, types: floating, params: []string{"negativeSlope"}}.forms("LeakyReluBackward"),
	elementwise{op: kernel.HardSigmoid, types: floating}.forms("Hardsigmoid", "InplaceHardsigmoid", "HardsigmoidV2", "InplaceHardsigmoidV2"),
	elementwise{op: kernel.HardSigmoidGrad, types: floating}.forms("HardsigmoidBackward"),
	elementwise{op: kernel.HardSwish, types: floating}.forms("Hardswish", "InplaceHardswish"),
	elementwise{op: kernel.HardSwishGrad, types: floating}.forms("HardswishBackward", "HardswishBackwardV2"),
	elementwise{op: kernel.Clamp}.forms("Hardtanh", "InplaceHardtanh"),
	elementwise{op: kernel.HardTanhGrad, types: floating, params: []string{"min", "max"}}.forms("HardtanhBackward"),
	elementwise{op: kernel.HardShrink, types: floating, params: []string{"lambd"}}.forms("Hardshrink"),
	elementwise{op: kernel.SoftShrink, types: floating, params: []string{"lambd"}}.forms("Softshrink"),
	elementwise{op: kernel.ShrinkGrad, types: floating, params: []string{"lambd"}}.forms("HardshrinkBackward", "SoftshrinkBackward"),
	elementwise{op: kernel.Shrink, types: floating, params: []string{"lambd", "bias"}}.forms("Shrink"),
	elementwise{op: kernel.SoftSign, types: floating}.forms("Softsign"),
	elementwise{op: kernel.SoftSignGrad, types: floating}.forms("SoftsignBackward"),
	elementwise{op: kernel.Threshold, params: []string{"threshold", "value"}}.forms("Threshold", "InplaceThreshold", "ThresholdV2"),
	elementwise{op: kernel.ThresholdGrad, params: []string{"threshold"}}.forms("ThresholdBackward", "ReluGradV4"),
	elementwise{op: kernel.SqrtGrad, types: floating}.forms("SqrtBackward"),
	elementwise{op: kernel.AcosGrad, types: floating}.forms("AcosGrad"),
	elementwise{op: kernel.AcosGrad, types: floating, operands: []string{"dy", "y"}}.forms("AcosGradV2"),
	elementwise{op: kernel.AsinhGrad, types: floating, operands: []string{"dy", "y"}}.forms("AsinhGrad"),
	elementwise{op: kernel.AtanGrad, types: floating, operands: []string{"dy", "x"}}.forms("AtanGrad"),
	elementwise{op: kernel.LogitGrad, types: floating, operands: []string{"dy", "x"}, params: []string{"eps"}}.forms("LogitGrad"),
	elementwise{op: kernel.MaskedScale, types: floating, params: []string{"scale"}}.forms("MaskedScale"),
	table{
		"Swish": swish, "SwishBackward": swish, "GeluV2": gelu, "GeluBackwardV2": gelu, "EluBackward": eluBackward,
		"Celu": celu, "InplaceCelu": celu,
	},
)

// The constants of self-normalising networks.
const (
	seluAlpha = 1.6732632423543772848170429916717
	seluScale = 1.0507009873554804934193349852946
)

// swish is x * sigmoid(beta * x) with a beta that may be absent, and its backward.
func swish(c *Call) (Run, error) {
	e := elementwise{op: kernel.Swish, types: floating, operands: []string{"self"}, fixed: unit, out: "out"}
	if c.Has("gradOutput") {
		e = elementwise{op: kernel.SwishGrad, types: floating, operands: gradOfSelf, fixed: unit, out: "gradInput"}
	}
	if beta := c.OptionalScalar("betaOptional"); beta != nil {
		e.fixed = []float64{beta.Float64()}
	}
	return e.prepare(c)
}

// gelu takes the form as an integer (0 for erf, 1 for tanh) or, backward, as a text.
func gelu(c *Call) (Run, error) {
	if c.Has("gradOutput") {
		e := elementwise{op: kernel.GeluGrad, types: floating}
		switch form := c.Text("approximate"); form {
		case "none":
		case "tanh":
			e.op = kernel.GeluTanhGrad
		default:
			c.Invalid("approximate is %q; use \"none\" or \"tanh\"", form)
		}
		return e.prepare(c)
	}
	e := elementwise{op: kernel.Gelu, types: floating}
	switch form := c.Int("approximate"); form {
	case 0:
	case 1:
		e.op = kernel.GeluTanh
	default:
		c.Invalid("approximate is %d; use 0 (erf) or 1 (tanh)", form)
	}
	return e.prepare(c)
}

func eluBackward(c *Call) (Run, error) {
	e := elementwise{
		op: kernel.EluGrad, types: floating, operands: []string{"gradOutput", "selfOrResult"},
		params: []string{"alpha", "scale", "inputScale"}, out: "gradInput",
	}
	if c.Bool("isResult") {
		e.op = kernel.EluResultGrad
		if alpha := c.Scalar("alpha").Float64(); alpha < 0 {
			c.Invalid("alpha is %v; it must not be negative when isResult is true", alpha)
		}
	}
	return e.prepare(c)
}

// celu is elu with the input divided by alpha.
func celu(c *Call) (Run, error) {
	alpha := c.Scalar("alpha").Float64()
	if alpha == 0 {
		c.Invalid("alpha is 0; it divides the input")
	}
	e := elementwise{op: kernel.Elu, types: floating, params: []string{"alpha"}, fixed: []float64{1, 1 / alpha}}
	return e.prepare(c)
}

// squaredRelu is the square of what is above 0.
func squaredRelu(c *Call) (Run, error) {
	x, out := c.Tensor("input"), c.Tensor("out")
	c.plain(x, out)
	c.DType(x, transformerTypes...)
	c.Same(x, out)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		t, release := kernel.Temporary(x.Shape...)
		defer release()
		if err := kernel.Map(kernel.Relu, dtype.Float32, t, []kernel.Input{kernel.Of(x.View())}); err != nil {
			return err
		}
		return kernel.Map(kernel.Square, dtype.Float32, out.View(), []kernel.Input{kernel.Of(t)})
	}, nil
}

package quantization

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/gemm"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/op"
)

// boundedQuantGates lists the operators that dequantise sums, apply a gated unit bounded by
// tanh, and quantise the result by truncation.
var boundedQuantGates = op.Table{"DequantSituQuant": dequantSitu}.Omits()

func dequantSitu(c *op.Call) (op.Run, error) {
	x, columns, whole, bias := c.Tensor("x"), c.Optional("weightScaleOptional"), c.Optional("activationScaleOptional"), c.Optional("biasOptional")
	scale, offset, y, extent := c.Optional("quantScaleOptional"), c.Optional("quantOffsetOptional"), c.Tensor("yOut"), c.Tensor("yScaleOut")
	g := rowwise.TanhBoundGate{Beta: c.Float("beta"), Linear: c.Float("linearBeta"), Left: c.Bool("activateLeft")}
	if g.Beta == 0 {
		c.Invalid("beta is 0")
	}
	mode := c.Text("quantTypeOptional")
	dynamic := mode != "static"
	if dynamic && mode != "" && mode != "dynamic" {
		c.Invalid("quantTypeOptional is %q; use static or dynamic", mode)
	}
	c.NoneOf("groupIndexOptional")
	c.Plain(x, y, extent)
	c.DType(x, dtype.Int8, dtype.Int32, dtype.BFloat16, dtype.Float16)
	c.DType(y, dtype.Int8)
	c.DType(extent, dtype.Float32)
	c.Rank(x, 2, kernel.MaxRank)
	if c.Err() != nil {
		return nil, c.Err()
	}
	if x.Len() == 0 {
		c.Invalid("%v is empty", x)
	}
	last := x.Rank() - 1
	width := x.Dim(-1)
	c.Shape(y, op.Halved(c, x, last), "x with half its last dimension")
	c.Shape(extent, x.Shape[:last], "one for each row of x")
	numbers := func(name string, t *op.Tensor, needed bool, n int64) {
		if needed && t == nil {
			c.Fail(op.NullPointer, "%s is null; %v needs it", name, x.DType)
		}
		oneOrMore(c, t, n)
	}
	exact := x.DType == dtype.Int8 || x.DType == dtype.Int32
	if !exact {
		columns, bias = nil, nil
	}
	if x.DType != dtype.Int32 {
		if whole != nil && exact {
			c.Invalid("%v is given; int8 has no such scale", whole)
		}
		whole = nil
	}
	numbers("weightScaleOptional", columns, exact, width)
	numbers("activationScaleOptional", whole, x.DType == dtype.Int32, 1)
	numbers("biasOptional", bias, false, width)
	numbers("quantScaleOptional", scale, !dynamic, width/2)
	if dynamic {
		offset = nil
	}
	numbers("quantOffsetOptional", offset, false, width/2)
	if c.Err() != nil {
		return nil, c.Err()
	}
	return func(*op.Exec) error {
		in, releaseIn := kernel.Temporary(x.Shape...)
		defer releaseIn()
		if err := scaledSums(in, x, bias, columns, whole); err != nil {
			return err
		}
		out, releaseOut := kernel.Temporary(y.Shape...)
		defer releaseOut()
		if err := g.Forward(out, in, last); err != nil {
			return err
		}
		if !dynamic {
			return gemm.Quantizer{Factor: scale.View(), Offset: op.OptionalView(offset), Divide: true, Round: elementwise.Trunc}.Quantize(y.View(), out)
		}
		if scale != nil {
			if err := elementwise.Map(elementwise.Mul, dtype.Float32, out, []elementwise.Input{elementwise.Of(out), elementwise.Of(scale.View())}); err != nil {
				return err
			}
		}
		return quantiseByExtremes(y, extent, out)
	}, nil
}

// oneOrMore checks a vector of one element or of n. A nil vector is accepted.
func oneOrMore(c *op.Call, t *op.Tensor, n int64) {
	if t == nil {
		return
	}
	c.Plain(t)
	c.DType(t, dtype.Float32)
	if t.Rank() != 1 || t.Len() != 1 && t.Len() != n {
		c.Invalid("%v must have one element or %d", t, n)
	}
}

// scaledSums sets out to sums times the scales, plus the bias. Scales and bias may be nil.
func scaledSums(out kernel.View, sums, bias *op.Tensor, scales ...*op.Tensor) error {
	f := dtype.Float32
	if err := elementwise.Map(elementwise.Identity, f, out, []elementwise.Input{elementwise.Of(sums.View())}); err != nil {
		return err
	}
	for _, t := range scales {
		if t == nil {
			continue
		}
		if err := elementwise.Map(elementwise.Mul, f, out, []elementwise.Input{elementwise.Of(out), elementwise.Of(t.View())}); err != nil {
			return err
		}
	}
	if bias == nil {
		return nil
	}
	return elementwise.Map(elementwise.Add, f, out, []elementwise.Input{elementwise.Of(out), elementwise.Of(bias.View())}, elementwise.Real(1))
}

// quantiseByExtremes quantises each row of numbers to int8 by truncation. extent receives the
// scale of each row, 1/127 of its largest magnitude.
func quantiseByExtremes(y, extent *op.Tensor, numbers kernel.View) error {
	f, last := dtype.Float32, y.Rank()-1
	sizes, release := kernel.Temporary(y.Shape...)
	defer release()
	if err := elementwise.Map(elementwise.Abs, f, sizes, []elementwise.Input{elementwise.Of(numbers)}); err != nil {
		return err
	}
	if err := rowwise.Reduce(rowwise.ReduceMax, extent.View(), sizes, []int{last}, 0); err != nil {
		return err
	}
	if err := elementwise.Map(elementwise.Mul, f, extent.View(), []elementwise.Input{elementwise.Of(extent.View()), elementwise.Const(elementwise.Real(1.0 / 127))}); err != nil {
		return err
	}
	column := extent.As(append(slices.Clone(extent.Shape), 1), append(slices.Clone(extent.Strides), 0))
	return gemm.Quantizer{Factor: column, Divide: true, Round: elementwise.Trunc}.Quantize(y.View(), numbers)
}

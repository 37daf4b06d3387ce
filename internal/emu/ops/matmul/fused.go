package matmul

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/op"
)

// fusedProducts lists products that go on in float32 before they are rounded to the type of the result.
var fusedProducts = op.Table{"FusedMatmul": fusedMatmul, "FusedMatmulGelu": fusedMatmulGelu, "MatmulEmuSplitWeight": splitWeight}

// fusions are the values of fusedOpType that have an operator. Add and Mul have a second operand.
var fusions = map[string]elementwise.Op{
	"": elementwise.Identity, "16cast32": elementwise.Identity, "add": elementwise.Add, "mul": elementwise.Mul, "relu": elementwise.Relu, "gelu_erf": elementwise.Gelu, "gelu_tanh": elementwise.GeluTanh,
}

// fusedMatmul applies an operator to x1·x2 + bias and, for add and mul, x3.
func fusedMatmul(c *op.Call) (op.Run, error) {
	x1, x2, bias, y, kind := c.Tensor("x1"), c.Tensor("x2"), c.Optional("bias"), c.Tensor("y"), c.RequiredText("fusedOpType")
	c.CubeMathType()
	c.Plain(x1, x2, y)
	if _, known := fusions[kind]; !known {
		c.Invalid("fusedOpType is %q; use add, mul, relu, gelu_erf, gelu_tanh, 16cast32 or an empty text", kind)
	}
	gelu := kind == "gelu_erf" || kind == "gelu_tanh"
	if gelu && bias != nil {
		c.Fail(op.NullPointer, "%v is given; fusedOpType %s has no bias, pass null", bias, kind)
	}
	if gelu || kind == "16cast32" {
		c.DType(x1, dtype.Float16, dtype.BFloat16)
	}
	if kind == "16cast32" {
		c.DType(y, dtype.Float32)
	} else {
		c.SameDType(x1, y)
	}
	if c.Err() == nil && kind == "16cast32" && (x1.Len() == 0 || x2.Len() == 0) {
		c.Fail(op.NoStep, "%v or %v is empty; fusedOpType %s does not support it", x1, x2, kind)
	}
	var x3 *op.Tensor
	if kind == "add" || kind == "mul" {
		x3 = c.Tensor("x3")
		c.Plain(x3)
	}
	if bias != nil {
		c.Plain(bias)
		bias = addend(c, bias, y)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	return fuse(c, y, Product{A: Left(x1), B: Right(x2), Add: bias, Alpha: 1, Beta: 1, Types: op.FloatTypes}, fusions[kind], x3)
}

// addend checks a bias of n elements, one for each column of y, and returns it as a vector.
func addend(c *op.Call, bias, y *op.Tensor) *op.Tensor {
	if n := y.Dim(-1); bias.Len() != n || bias.Dim(-1) != n {
		c.Invalid("%v must have %d elements, one for each column of %v", bias, n, y)
	}
	v := *bias
	v.Shape, v.Strides = slices.Clone(bias.Shape[bias.Rank()-1:]), slices.Clone(bias.Strides[bias.Rank()-1:])
	return c.Alias(v, bias)
}

// fuse returns the computation of y = f(product, with), where with may be nil.
func fuse(c *op.Call, y *op.Tensor, p Product, f elementwise.Op, with *op.Tensor) (op.Run, error) {
	sums := c.Scratch(dtype.Float32, y.Shape...)
	p.Out = sums
	multiply, err := Multiply(c, p)
	if err != nil {
		return nil, err
	}
	return func(x *op.Exec) error {
		if y.Len() == 0 {
			return nil
		}
		if err := multiply(x); err != nil {
			return err
		}
		in, factor := []elementwise.Input{elementwise.Of(sums.View())}, []elementwise.Number{}
		if with != nil {
			in = append(in, elementwise.Of(with.View()))
		}
		if f == elementwise.Add {
			factor = append(factor, elementwise.Real(1))
		}
		return elementwise.Map(f, dtype.Float32, y.View(), in, factor...)
	}, nil
}

// fusedMatmulGelu is gelu(x·weightᵀ + bias) for rows x [..., K] and weight [N, K].
func fusedMatmulGelu(c *op.Call) (op.Run, error) {
	x, weight, bias, y := c.Tensor("x"), c.Tensor("weight"), c.Optional("bias"), c.Tensor("y")
	c.Plain(x, weight, y)
	c.DType(x, dtype.Float16, dtype.BFloat16)
	c.SameDType(x, weight, y)
	c.Rank(x, 1, kernel.MaxRank)
	c.Rank(weight, 2, 2)
	if a := c.Int("approximate"); a != 1 {
		c.Invalid("approximate is %d; only 1, the formula with tanh, is supported", a)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	c.Shape(y, append(slices.Clone(x.Shape[:x.Rank()-1]), weight.Dim(0)), "the rows of x by those of weight")
	if bias != nil {
		c.Plain(bias)
		c.SameDType(x, bias)
		c.Shape(bias, weight.Shape[:1], "one for each row of weight")
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	return fuse(c, y, Product{A: Left(x), B: Right(c.Transposed(weight, true)), Add: bias, Alpha: 1, Beta: 1, Types: op.FloatTypes}, elementwise.GeluTanh, nil)
}

// splitWeight is x·wHigh + wLowScale·x·wLow: a product with a float32 weight that was split in two of
// bfloat16.
func splitWeight(c *op.Call) (op.Run, error) {
	x, high, low, y := c.Tensor("x"), c.Tensor("wHigh"), c.Tensor("wLow"), c.Tensor("y")
	c.Plain(x, high, low, y)
	first, err := Multiply(c, Product{Out: y, A: Left(x), B: Right(high), Alpha: 1, Types: op.FloatTypes})
	if err != nil {
		return nil, err
	}
	second, err := Multiply(c, Product{Out: y, A: Left(x), B: Right(low), Add: y, Alpha: c.Float("wLowScale"), Beta: 1, Types: op.FloatTypes})
	return func(e *op.Exec) error {
		if err := first(e); err != nil {
			return err
		}
		return second(e)
	}, err
}

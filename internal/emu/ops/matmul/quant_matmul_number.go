package matmul

import (
	"math"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/op"
)

// quantMatmulByNumber multiplies int8 matrices and scales the sums, with a bias added, by one number.
// The device takes the upper 19 bits of the number's float32 form.
func quantMatmulByNumber(c *op.Call) (op.Run, error) {
	x1, x2, bias, out := c.Tensor("x1"), c.Tensor("x2"), c.Optional("bias"), c.Tensor("out")
	c.DType(x1, dtype.Int8)
	c.DType(x2, dtype.Int8)
	if bias != nil {
		c.DType(bias, dtype.Int32)
		c.Plain(bias)
	}
	c.DType(out, dtype.Float16)
	c.Plain(x1, x2, out)
	c.Rank(x1, 2, 3)
	c.Rank(x2, 2, 3)
	if c.Err() != nil {
		return nil, c.Err()
	}
	if x1.Rank() != x2.Rank() || !slices.Equal(x1.Shape[:x1.Rank()-2], x2.Shape[:x2.Rank()-2]) {
		c.Invalid("%v and %v must have the same batch", x1, x2)
		return nil, c.Err()
	}
	n := x2.Dim(-1)
	if bias != nil {
		c.Shape(bias, []int64{n}, "one for each column of x2")
	}
	c.Shape(out, append(slices.Clone(x1.Shape[:x1.Rank()-1]), n), "the product of x1 and x2")
	if c.Err() != nil {
		return nil, c.Err()
	}
	packed := op.PackScale(float32(c.Float("deqScale")), nil, false)
	scale := elementwise.Real(float64(math.Float32frombits(uint32(packed))))
	sums := c.Scratch(dtype.Int32, out.Shape...)
	multiply, err := Multiply(c, Product{Out: sums, A: Left(x1), B: Right(x2), Alpha: 1, Types: []dtype.Type{dtype.Int8, dtype.Int32}})
	if err != nil {
		return nil, err
	}
	return func(x *op.Exec) error {
		if out.Len() == 0 {
			return nil
		}
		if err := multiply(x); err != nil {
			return err
		}
		if bias != nil {
			if err := elementwise.Map(elementwise.Add, dtype.Int32, sums.View(), []elementwise.Input{elementwise.Of(sums.View()), elementwise.Of(bias.View())}, elementwise.Whole(1)); err != nil {
				return err
			}
		}
		return elementwise.Map(elementwise.Mul, dtype.Float32, out.View(), []elementwise.Input{elementwise.Of(sums.View()), elementwise.Const(scale)})
	}, nil
}

package attention

import (
	"math"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/op"
)

// packedHeads split the product that holds queries, keys and values.
var packedHeads = op.Table{"TransformBiasRescaleQkv": biasQKV}

// biasQKV adds a bias to packed queries, keys and values [batch, tokens, 3·heads·dim], scales the
// queries by 1/√dim, and returns each as [batch, heads, tokens, dim].
func biasQKV(c *op.Call) (op.Run, error) {
	x, bias, heads := c.Tensor("qkv"), c.Tensor("qkvBias"), c.Int("numHeads")
	outs := []*op.Tensor{c.Tensor("qOut"), c.Tensor("kOut"), c.Tensor("vOut")}
	c.Plain(x, bias)
	c.DType(x, op.FloatTypes...)
	c.SameDType(x, bias)
	c.Rank(x, 3, 3)
	if c.Err() != nil {
		return nil, c.Err()
	}
	width := x.Shape[2]
	if heads < 1 || width%(3*max(heads, 1)) != 0 {
		c.Invalid("numHeads is %d; it must be above 0, and three times as many divide the last dimension of %v", heads, x)
		return nil, c.Err()
	}
	dim := width / 3 / heads
	c.Shape(bias, []int64{width}, "one for each column of qkv")
	for _, t := range outs {
		c.Plain(t)
		c.SameDType(x, t)
		c.Shape(t, []int64{x.Shape[0], heads, x.Shape[1], dim}, "batch, heads, tokens and the elements of a head")
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if x.Len() == 0 {
			return nil
		}
		parts, biases := op.Divided(op.Divided(x.View(), 2, 3), 3, heads), op.Divided(op.Divided(bias.View(), 0, 3), 1, heads)
		for i, out := range outs {
			into := op.Permuted(out.View(), []int64{0, 2, 1, 3})
			t, release := kernel.Temporary(into.Shape...)
			defer release()
			in := []elementwise.Input{elementwise.Of(parts.Select(2, int64(i))), elementwise.Of(biases.Select(0, int64(i)))}
			if err := elementwise.Map(elementwise.Add, dtype.Float32, t, in, elementwise.Real(1)); err != nil {
				return err
			}
			scale := 1.0
			if i == 0 {
				scale = 1 / math.Sqrt(float64(dim))
			}
			if err := elementwise.Map(elementwise.Mul, dtype.Float32, into, []elementwise.Input{elementwise.Of(t), elementwise.Const(elementwise.Real(scale))}); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

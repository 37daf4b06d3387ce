package attention

import (
	"math"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/op"
)

// attentionUpdate merges the attention results over several parts of the keys, [rows, head dimension] each, by the
// logarithms of their sums of exponentials, [rows] each. A logarithm of plus infinity, which attention without keys
// returns, counts as minus infinity.
func attentionUpdate(c *op.Call) (op.Run, error) {
	sums, parts, out, total := c.Tensors("lse"), c.Tensors("localOut"), c.Tensor("out"), c.Optional("lseOut")
	most := 128
	if c.Chip() == acceptance.Ascend950 {
		most = 16
	}
	for _, list := range []op.Named[[]*op.Tensor]{{Name: "lse", Value: sums}, {Name: "localOut", Value: parts}} {
		if list.Value == nil {
			c.Fail(op.NullPointer, "%s is null", list.Name)
			return nil, c.Err()
		}
	}
	if len(sums) == 0 || len(sums) > most || len(parts) != len(sums) {
		c.Invalid("lse has %d tensors and localOut %d; want as many in both, 1 to %d", len(sums), len(parts), most)
		return nil, c.Err()
	}
	switch kind := c.Int("updateType"); {
	case kind != 0 && kind != 1:
		c.Invalid("updateType is %d; use 0, or 1 for lseOut", kind)
	case (kind == 1) != (total != nil):
		c.Invalid("updateType is %d: lseOut must be given with 1, and null with 0", kind)
	}
	c.Plain(append(append([]*op.Tensor{out}, sums...), parts...)...)
	c.DType(parts[0], op.FloatTypes...)
	c.Rank(parts[0], 2, 2)
	c.DType(sums[0], dtype.Float32)
	c.Same(parts[0], append([]*op.Tensor{out}, parts[1:]...)...)
	c.Same(sums[0], sums[1:]...)
	if c.Err() != nil {
		return nil, c.Err()
	}
	rows, width := parts[0].Dim(0), parts[0].Dim(1)
	c.Shape(sums[0], []int64{rows}, "the rows of localOut")
	if width < 1 || width > 512 || width%8 != 0 {
		c.Invalid("%v: the last dimension must be a multiple of 8 up to 512", parts[0])
	}
	if total != nil {
		c.Plain(total)
		c.Same(sums[0], total)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	return func(*op.Exec) error {
		if rows == 0 {
			return nil
		}
		chain := rowwise.NewChain(sums[0].View())
		shape := []int64{rows}
		least := elementwise.Real(math.Inf(-1))
		highest, sum, weight := chain.Temp(shape), chain.Temp(shape), chain.Temp(shape)
		for i, t := range sums {
			chain.Set(weight, elementwise.NanToNum, []elementwise.Number{elementwise.Real(math.NaN()), least, least}, elementwise.Of(t.View()))
			if i == 0 {
				chain.Copy(highest, weight)
			} else {
				chain.Set(highest, elementwise.Max, nil, elementwise.Of(highest), elementwise.Of(weight))
			}
		}
		for i, t := range sums {
			chain.Set(weight, elementwise.NanToNum, []elementwise.Number{elementwise.Real(math.NaN()), least, least}, elementwise.Of(t.View()))
			chain.Sub(weight, weight, highest)
			chain.Set(weight, elementwise.Exp, nil, elementwise.Of(weight))
			if i == 0 {
				chain.Copy(sum, weight)
			} else {
				chain.Set(sum, elementwise.Add, []elementwise.Number{elementwise.Real(1)}, elementwise.Of(sum), elementwise.Of(weight))
			}
		}
		chain.Set(sum, elementwise.Log, nil, elementwise.Of(sum))
		chain.Set(sum, elementwise.Add, []elementwise.Number{elementwise.Real(1)}, elementwise.Of(sum), elementwise.Of(highest))
		merged, product := chain.Zeros(rows, width), chain.Temp([]int64{rows, width})
		for i, t := range parts {
			chain.Set(weight, elementwise.NanToNum, []elementwise.Number{elementwise.Real(math.NaN()), least, least}, elementwise.Of(sums[i].View()))
			chain.Sub(weight, weight, sum)
			chain.Set(weight, elementwise.Exp, nil, elementwise.Of(weight))
			column := weight
			column.Shape, column.Strides = []int64{rows, 1}, []int64{1, 0}
			chain.Mul(product, t.View(), column)
			chain.Set(merged, elementwise.Add, []elementwise.Number{elementwise.Real(1)}, elementwise.Of(merged), elementwise.Of(product))
		}
		chain.Copy(out.View(), merged)
		if total != nil {
			chain.Copy(total.View(), sum)
		}
		return chain.End()
	}, nil
}

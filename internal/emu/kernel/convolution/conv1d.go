package convolution

import (
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
)

// CausalConv convolves the tokens x [tokens, channels] of one sequence with taps
// [width, channels]: out[t] = Σ taps[width−1−i]·x[t−i] + bias, passed through x·sigmoid(x) if
// swish. past holds the width−1 inputs before the first token; without data they are zero. bias
// may have no data. If keep has data, it gets the past for the following tokens; it may be past.
func CausalConv(out, x, taps, bias, past, keep kernel.View, swish bool) error {
	c := rowwise.NewChain()
	width, tokens := taps.Shape[0], x.Shape[0]
	all := withPast(c, x, past, width)
	u := c.Zeros(x.Shape...)
	for i := range width {
		c.AddTimes(u, u, 1, all.Narrow(0, i, tokens), taps.Select(0, i).Across())
	}
	if bias.Data != nil {
		c.Set(u, elementwise.Add, []elementwise.Number{elementwise.Real(1)}, elementwise.Of(u), elementwise.Of(bias.Across()))
	}
	if swish {
		c.Set(u, elementwise.Swish, []elementwise.Number{elementwise.Real(1)}, elementwise.Of(u))
	}
	c.Copy(out, u)
	if keep.Data != nil && width > 1 {
		c.Copy(keep, all.Narrow(0, tokens, width-1))
	}
	return c.End()
}

// withPast returns the width−1 preceding inputs followed by the inputs of a sequence.
func withPast(c *rowwise.Chain, x, past kernel.View, width int64) kernel.View {
	all := c.Zeros(width-1+x.Shape[0], x.Shape[1])
	if past.Data != nil && width > 1 {
		c.Copy(all.Narrow(0, 0, width-1), past)
	}
	c.Copy(all.Narrow(0, width-1, x.Shape[0]), x)
	return all
}

// CausalConvGrad is the gradient of CausalConv for one sequence. u is the convolution before
// the activation and is needed if swish. Sums over tokens are added to dtaps and dbias, both
// float32. past is as for CausalConv. dfinal [width, channels] is the gradient of the last width
// inputs, and dpast of the same shape gets that of the inputs before the first. dbias, dfinal
// and dpast may have no data.
func CausalConvGrad(dx, dtaps, dbias, dpast, dy, u, x, taps, past, dfinal kernel.View, swish bool) error {
	c := rowwise.NewChain()
	width, tokens := taps.Shape[0], x.Shape[0]
	du := c.Zeros(x.Shape...)
	if swish {
		c.Set(du, elementwise.SwishGrad, []elementwise.Number{elementwise.Real(1)}, elementwise.Of(dy), elementwise.Of(u))
	} else {
		c.Copy(du, dy)
	}
	all, dall := withPast(c, x, past, width), c.Zeros(width+tokens, x.Shape[1])
	for i := range width {
		part := dall.Narrow(0, i+1, tokens)
		c.AddTimes(part, part, 1, du, taps.Select(0, i).Across())
		product, sum := c.Like(du), c.Temp(x.Shape[1:])
		c.Mul(product, du, all.Narrow(0, i, tokens))
		c.Reduce(rowwise.ReduceSum, sum, product, []int{0}, 0)
		to := dtaps.Select(0, i)
		c.Set(to, elementwise.Add, []elementwise.Number{elementwise.Real(1)}, elementwise.Of(to), elementwise.Of(sum))
	}
	if dbias.Data != nil {
		sum := c.Temp(x.Shape[1:])
		c.Reduce(rowwise.ReduceSum, sum, du, []int{0}, 0)
		c.Set(dbias, elementwise.Add, []elementwise.Number{elementwise.Real(1)}, elementwise.Of(dbias), elementwise.Of(sum))
	}
	if dfinal.Data != nil {
		last := dall.Narrow(0, tokens, width)
		c.Set(last, elementwise.Add, []elementwise.Number{elementwise.Real(1)}, elementwise.Of(last), elementwise.Of(dfinal))
	}
	if dpast.Data != nil {
		c.Copy(dpast, dall.Narrow(0, 0, width))
	}
	c.Copy(dx, dall.Narrow(0, width, tokens))
	return c.End()
}

package kernel

// CausalConv convolves the tokens x [tokens, channels] of one sequence with taps
// [width, channels]: out[t] = Σ taps[width−1−i]·x[t−i] + bias, passed through x·sigmoid(x) if
// swish. past holds the width−1 inputs before the first token; without data they are zero. bias
// may have no data. If keep has data, it gets the past for the following tokens; it may be past.
func CausalConv(out, x, taps, bias, past, keep View, swish bool) error {
	c := newChain()
	width, tokens := taps.Shape[0], x.Shape[0]
	all := c.withPast(x, past, width)
	u := c.zeros(x.Shape...)
	for i := range width {
		c.addTimes(u, u, 1, all.Narrow(0, i, tokens), taps.Select(0, i).across())
	}
	if bias.Data != nil {
		c.set(u, Add, []Number{Real(1)}, Of(u), Of(bias.across()))
	}
	if swish {
		c.set(u, Swish, []Number{Real(1)}, Of(u))
	}
	c.copy(out, u)
	if keep.Data != nil && width > 1 {
		c.copy(keep, all.Narrow(0, tokens, width-1))
	}
	return c.end()
}

// withPast returns the width−1 preceding inputs followed by the inputs of a sequence.
func (c *chain) withPast(x, past View, width int64) View {
	all := c.zeros(width-1+x.Shape[0], x.Shape[1])
	if past.Data != nil && width > 1 {
		c.copy(all.Narrow(0, 0, width-1), past)
	}
	c.copy(all.Narrow(0, width-1, x.Shape[0]), x)
	return all
}

// CausalConvGrad is the gradient of CausalConv for one sequence. u is the convolution before
// the activation and is needed if swish. Sums over tokens are added to dtaps and dbias, both
// float32. past is as for CausalConv. dfinal [width, channels] is the gradient of the last width
// inputs, and dpast of the same shape gets that of the inputs before the first. dbias, dfinal
// and dpast may have no data.
func CausalConvGrad(dx, dtaps, dbias, dpast, dy, u, x, taps, past, dfinal View, swish bool) error {
	c := newChain()
	width, tokens := taps.Shape[0], x.Shape[0]
	du := c.zeros(x.Shape...)
	if swish {
		c.set(du, SwishGrad, []Number{Real(1)}, Of(dy), Of(u))
	} else {
		c.copy(du, dy)
	}
	all, dall := c.withPast(x, past, width), c.zeros(width+tokens, x.Shape[1])
	for i := range width {
		part := dall.Narrow(0, i+1, tokens)
		c.addTimes(part, part, 1, du, taps.Select(0, i).across())
		product, sum := c.like(du), c.temp(x.Shape[1:])
		c.mul(product, du, all.Narrow(0, i, tokens))
		c.reduce(ReduceSum, sum, product, []int{0}, 0)
		to := dtaps.Select(0, i)
		c.set(to, Add, []Number{Real(1)}, Of(to), Of(sum))
	}
	if dbias.Data != nil {
		sum := c.temp(x.Shape[1:])
		c.reduce(ReduceSum, sum, du, []int{0}, 0)
		c.set(dbias, Add, []Number{Real(1)}, Of(dbias), Of(sum))
	}
	if dfinal.Data != nil {
		last := dall.Narrow(0, tokens, width)
		c.set(last, Add, []Number{Real(1)}, Of(last), Of(dfinal))
	}
	if dpast.Data != nil {
		c.copy(dpast, dall.Narrow(0, 0, width))
	}
	c.copy(dx, dall.Narrow(0, width, tokens))
	return c.end()
}

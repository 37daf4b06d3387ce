package kernel

// Recurrence is one layer of a recurrent network in one direction. For G gates, input size I and
// hidden size H the weights are [G·H, I] and [G·H, H], and the biases [G·H] may have no data.
type Recurrence struct {
	Input, Hidden         View
	InputBias, HiddenBias View
	Reverse               bool // from the last time step to the first
}

// States holds the hidden state h of a layer, and the cell state c of an LSTM, both [B, H]. They
// are updated in place.
type States struct{ H, C View }

// Record holds views [T, B, H] to which a layer writes its results at each time step. Views
// without data are not written.
type Record struct {
	Out                  View // the states h
	Gates                []View
	Cell, CellActivation View
}

// sums is out = a · weightᵀ + bias.
func (c *chain) sums(out, a, weight, bias View) {
	turned := View{Data: weight.Data, DType: weight.DType, Shape: []int64{weight.Shape[1], weight.Shape[0]}, Strides: []int64{weight.Strides[1], weight.Strides[0]}}
	if c.err == nil {
		c.err = Gemm(Product{Out: out, A: a, B: turned, Alpha: 1})
	}
	c.affine(out, out, View{}, bias)
}

// times calls step for each time step with the gates' input and hidden sums [B, G·H].
func (r Recurrence) times(x View, s States, step func(c *chain, t int64, in, hidden View)) error {
	n, batch, width := x.Shape[0], x.Shape[1], r.Input.Shape[0]
	c := newChain(x)
	all, hidden := c.temp([]int64{n * batch, width}), c.temp([]int64{batch, width})
	c.sums(all, c.whole(x, n*batch, x.Shape[2]), r.Input, r.InputBias)
	for i := range n {
		t := i
		if r.Reverse {
			t = n - 1 - i
		}
		c.sums(hidden, s.H, r.Hidden, r.HiddenBias)
		one := &chain{compute: c.compute, err: c.err} // frees its temporaries before the next
		step(one, t, all.Narrow(0, t*batch, batch), hidden)
		c.err = one.end()
	}
	return c.end()
}

// gate returns the k-th of n equal parts of the columns.
func gate(v View, k, n int64) View {
	size := v.Shape[1] / n
	return v.Narrow(1, k*size, size)
}

// recordAt returns the part of a record for time step t.
func recordAt(v View, t int64) View {
	if v.Data == nil {
		return v
	}
	return v.Select(0, t)
}

// LSTM runs the layer over x [T, B, I]. The weights have the gates in the order input, forget,
// cell candidate, output; the record has them in the order input, candidate, forget, output.
func (r Recurrence) LSTM(x View, s States, rec Record) error {
	return r.times(x, s, func(c *chain, t int64, in, hidden View) {
		c.set(hidden, Add, []Number{Real(1)}, Of(hidden), Of(in))
		i, f, j, o := gate(hidden, 0, 4), gate(hidden, 1, 4), gate(hidden, 2, 4), gate(hidden, 3, 4)
		for _, g := range []View{i, f, o} {
			c.set(g, Sigmoid, nil, Of(g))
		}
		c.set(j, Tanh, nil, Of(j))
		c.mul(s.C, f, s.C)
		c.addTimes(s.C, s.C, 1, i, j)
		active := c.temp(s.C.Shape)
		c.set(active, Tanh, nil, Of(s.C))
		c.mul(s.H, o, active)
		c.give(recordAt(rec.Out, t), s.H)
		c.give(recordAt(rec.Cell, t), s.C)
		c.give(recordAt(rec.CellActivation, t), active)
		for k, g := range rec.Gates {
			c.give(recordAt(g, t), []View{i, j, f, o}[k])
		}
	})
}

// GRU runs the layer over x [T, B, I]. The gates are reset, update and candidate. The record has
// them in this order, followed by the hidden-state part of the candidate.
func (r Recurrence) GRU(x View, s States, rec Record) error {
	return r.times(x, s, func(c *chain, t int64, in, hidden View) {
		reset, update, candidate := c.whole(gate(in, 0, 3), s.H.Shape...), c.whole(gate(in, 1, 3), s.H.Shape...), c.temp(s.H.Shape)
		for k, g := range []View{reset, update} {
			c.set(g, Add, []Number{Real(1)}, Of(g), Of(gate(hidden, int64(k), 3)))
			c.set(g, Sigmoid, nil, Of(g))
		}
		own := gate(hidden, 2, 3)
		c.addTimes(candidate, gate(in, 2, 3), 1, reset, own)
		c.set(candidate, Tanh, nil, Of(candidate))
		c.sub(s.H, s.H, candidate)
		c.addTimes(s.H, candidate, 1, update, s.H)
		c.give(recordAt(rec.Out, t), s.H)
		for k, g := range rec.Gates {
			c.give(recordAt(g, t), []View{reset, update, candidate, own}[k])
		}
	})
}

// LSTMCell computes one step from the gates' input and hidden sums [B, 4H], in the order input,
// candidate, forget, output. gates gets the activated gates, and last is the previous cell state.
func LSTMCell(h, cell, gates, in, hidden, inBias, hiddenBias, last View) error {
	c := newChain(in)
	sums := c.temp(in.Shape)
	c.set(sums, Add, []Number{Real(1)}, Of(in), Of(hidden))
	c.affine(sums, sums, View{}, inBias)
	c.affine(sums, sums, View{}, hiddenBias)
	i, j, f, o := gate(sums, 0, 4), gate(sums, 1, 4), gate(sums, 2, 4), gate(sums, 3, 4)
	for _, g := range []View{i, f, o} {
		c.set(g, Sigmoid, nil, Of(g))
	}
	c.set(j, Tanh, nil, Of(j))
	next := c.temp(last.Shape)
	c.mul(next, f, last)
	c.addTimes(next, next, 1, i, j)
	c.set(cell, Identity, nil, Of(next))
	c.set(next, Tanh, nil, Of(next))
	c.mul(h, o, next)
	c.set(gates, Identity, nil, Of(sums))
	return c.end()
}

// LSTMCellGrad computes the gradients of the sums, of the previous cell state and, summed over
// the batch, of the biases of LSTMCell. dh, dcell and dbias may have no data.
func LSTMCellGrad(dsums, dlast, dbias, dh, dcell, last, cell, gates View) error {
	c := newChain(gates)
	i, j, f, o := gate(gates, 0, 4), gate(gates, 1, 4), gate(gates, 2, 4), gate(gates, 3, 4)
	active, dc, grad := c.temp(cell.Shape), c.temp(cell.Shape), c.temp(gates.Shape)
	di, dj, df, do := gate(grad, 0, 4), gate(grad, 1, 4), gate(grad, 2, 4), gate(grad, 3, 4)
	c.set(active, Tanh, nil, Of(cell))
	c.set(dc, Mul, nil, Of(active), Const(Real(0)))
	c.set(do, Identity, nil, Of(dc))
	if dh.Data != nil {
		c.mul(dc, dh, o)
		c.set(dc, TanhGrad, nil, Of(dc), Of(active))
		c.mul(do, dh, active)
	}
	if dcell.Data != nil {
		c.set(dc, Add, []Number{Real(1)}, Of(dc), Of(dcell))
	}
	c.mul(di, dc, j)
	c.mul(dj, dc, i)
	c.mul(df, dc, last)
	for _, g := range []struct{ d, of View }{{di, i}, {df, f}, {do, o}} {
		c.set(g.d, SigmoidGrad, nil, Of(g.d), Of(g.of))
	}
	c.set(dj, TanhGrad, nil, Of(dj), Of(j))
	c.mul(dc, dc, f)
	c.set(dlast, Identity, nil, Of(dc))
	if dbias.Data != nil {
		sum := c.temp(gates.Shape[1:])
		c.reduce(ReduceSum, sum, grad, []int{0}, 0)
		c.set(dbias, Identity, nil, Of(sum))
	}
	c.set(dsums, Identity, nil, Of(grad))
	return c.end()
}

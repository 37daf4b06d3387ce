package kernel

// RecurrentGrad holds the inputs and results of the backward pass of one layer in one direction:
// T time steps of B sequences with input size I, and G gates of hidden size H.
type RecurrentGrad struct {
	X     View   // [T, B, I]
	Start States // before the first time step
	Rec   Record // from the forward pass; for a GRU including its fourth gate
	DOut  View   // [T, B, H], gradient of the hidden states
	// D holds the gradient of the states after the last time step, and gets the gradient of the
	// states before the first.
	D States
	// Results: [T, B, I], [G·H, I], [G·H, H], and of the two biases, which may lack data.
	DX, DInput, DHidden, DInputBias, DHiddenBias View
}

// before returns the state before each time step, [T, B, H].
func (g RecurrentGrad) before(c *chain, reverse bool, start, after View) View {
	n := after.Shape[0]
	v := c.temp(after.Shape)
	if reverse {
		c.copy(v.Narrow(0, 0, n-1), after.Narrow(0, 1, n-1))
		c.copy(v.Select(0, n-1), start)
	} else {
		c.copy(v.Narrow(0, 1, n-1), after.Narrow(0, 0, n-1))
		c.copy(v.Select(0, 0), start)
	}
	return v
}

// backwards calls step for each time step from the last to the first. step writes the gradients
// of the gates' input sums (sums) and hidden sums (own) [B, G·H], and sets D to the gradient of
// the previous state except for the part that flows through the hidden sums.
func (r Recurrence) backwards(g RecurrentGrad, step func(c *chain, t int64, before, sums, own View)) error {
	n, batch, width, size := g.X.Shape[0], g.X.Shape[1], r.Hidden.Shape[0], r.Hidden.Shape[1]
	c := newChain(g.X)
	sums, own := c.temp([]int64{n, batch, width}), c.temp([]int64{n, batch, width})
	before := g.before(c, r.Reverse, g.Start.H, g.Rec.Out)
	for i := range n {
		t := n - 1 - i
		if r.Reverse {
			t = i
		}
		c.set(g.D.H, Add, []Number{Real(1)}, Of(g.D.H), Of(g.DOut.Select(0, t)))
		one := &chain{compute: c.compute, err: c.err} // frees its temporaries before the next
		step(one, t, before.Select(0, t), sums.Select(0, t), own.Select(0, t))
		one.gemm(g.D.H, own.Select(0, t), r.Hidden, 1, true)
		c.err = one.end()
	}
	rows := n * batch
	sums, own = sums.reshaped(rows, width), own.reshaped(rows, width)
	inputs := c.temp([]int64{rows, g.X.Shape[2]})
	c.gemm(inputs, sums, r.Input, 1, false)
	c.copy(g.DX, inputs.reshaped(g.X.Shape...))
	for _, w := range []struct{ out, bias, of, with View }{
		{g.DInput, g.DInputBias, sums, c.whole(g.X, rows, g.X.Shape[2])}, {g.DHidden, g.DHiddenBias, own, before.reshaped(rows, size)},
	} {
		product := c.temp(w.out.Shape)
		c.gemm(product, w.of.transposed(), w.with, 1, false)
		c.copy(w.out, product)
		if w.bias.Data != nil {
			sum := c.temp([]int64{width})
			c.reduce(ReduceSum, sum, w.of, []int{0}, 0)
			c.copy(w.bias, sum)
		}
	}
	return c.end()
}

// LSTMGrad is the gradient of LSTM.
func (r Recurrence) LSTMGrad(g RecurrentGrad) error {
	states := newChain(g.X)
	cells := g.before(states, r.Reverse, g.Start.C, g.Rec.Cell)
	err := r.backwards(g, func(c *chain, t int64, _, sums, own View) {
		i, j, f, o := g.Rec.Gates[0].Select(0, t), g.Rec.Gates[1].Select(0, t), g.Rec.Gates[2].Select(0, t), g.Rec.Gates[3].Select(0, t)
		active := g.Rec.CellActivation.Select(0, t)
		di, df, dj, do := gate(sums, 0, 4), gate(sums, 1, 4), gate(sums, 2, 4), gate(sums, 3, 4)
		c.mul(do, g.D.H, active)
		c.set(do, SigmoidGrad, nil, Of(do), Of(o))
		c.mul(di, g.D.H, o)
		c.set(di, TanhGrad, nil, Of(di), Of(active))
		c.set(g.D.C, Add, []Number{Real(1)}, Of(g.D.C), Of(di))
		c.mul(di, g.D.C, j)
		c.set(di, SigmoidGrad, nil, Of(di), Of(i))
		c.mul(dj, g.D.C, i)
		c.set(dj, TanhGrad, nil, Of(dj), Of(j))
		c.mul(df, g.D.C, cells.Select(0, t))
		c.set(df, SigmoidGrad, nil, Of(df), Of(f))
		c.mul(g.D.C, g.D.C, f)
		c.copy(own, sums)
		c.set(g.D.H, Mul, nil, Of(g.D.H), Const(Real(0)))
	})
	if end := states.end(); err == nil {
		err = end
	}
	return err
}

// GRUGrad is the gradient of GRU.
func (r Recurrence) GRUGrad(g RecurrentGrad) error {
	return r.backwards(g, func(c *chain, t int64, before, sums, own View) {
		reset, update, candidate, part := g.Rec.Gates[0].Select(0, t), g.Rec.Gates[1].Select(0, t), g.Rec.Gates[2].Select(0, t), g.Rec.Gates[3].Select(0, t)
		dr, dz, dn := gate(sums, 0, 3), gate(sums, 1, 3), gate(sums, 2, 3)
		c.sub(dz, before, candidate)
		c.mul(dz, dz, g.D.H)
		c.set(dz, SigmoidGrad, nil, Of(dz), Of(update))
		c.set(dn, ReverseSub, []Number{Real(1)}, Of(update), Const(Real(1)))
		c.mul(dn, dn, g.D.H)
		c.set(dn, TanhGrad, nil, Of(dn), Of(candidate))
		c.mul(dr, dn, part)
		c.set(dr, SigmoidGrad, nil, Of(dr), Of(reset))
		c.copy(own, sums)
		c.mul(gate(own, 2, 3), dn, reset)
		c.mul(g.D.H, g.D.H, update)
	})
}

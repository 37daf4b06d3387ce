package recurrent

import (
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
)

// RecurrentGrad holds the inputs and results of the backward pass of one layer in one direction:
// T time steps of B sequences with input size I, and G gates of hidden size H.
type RecurrentGrad struct {
	X     kernel.View // [T, B, I]
	Start States      // before the first time step
	Rec   Record      // from the forward pass; for a GRU including its fourth gate
	DOut  kernel.View // [T, B, H], gradient of the hidden states
	// D holds the gradient of the states after the last time step, and gets the gradient of the
	// states before the first.
	D States
	// Results: [T, B, I], [G·H, I], [G·H, H], and of the two biases, which may lack data.
	DX, DInput, DHidden, DInputBias, DHiddenBias kernel.View
}

// before returns the state before each time step, [T, B, H].
func (g RecurrentGrad) before(c *rowwise.Chain, reverse bool, start, after kernel.View) kernel.View {
	n := after.Shape[0]
	v := c.Temp(after.Shape)
	if reverse {
		c.Copy(v.Narrow(0, 0, n-1), after.Narrow(0, 1, n-1))
		c.Copy(v.Select(0, n-1), start)
	} else {
		c.Copy(v.Narrow(0, 1, n-1), after.Narrow(0, 0, n-1))
		c.Copy(v.Select(0, 0), start)
	}
	return v
}

// backwards calls step for each time step from the last to the first. step writes the gradients
// of the gates' input sums (sums) and hidden sums (own) [B, G·H], and sets D to the gradient of
// the previous state except for the part that flows through the hidden sums.
func (r Recurrence) backwards(g RecurrentGrad, step func(c *rowwise.Chain, t int64, before, sums, own kernel.View)) error {
	n, batch, width, size := g.X.Shape[0], g.X.Shape[1], r.Hidden.Shape[0], r.Hidden.Shape[1]
	c := rowwise.NewChain(g.X)
	sums, own := c.Temp([]int64{n, batch, width}), c.Temp([]int64{n, batch, width})
	before := g.before(c, r.Reverse, g.Start.H, g.Rec.Out)
	for i := range n {
		t := n - 1 - i
		if r.Reverse {
			t = i
		}
		c.Set(g.D.H, elementwise.Add, []elementwise.Number{elementwise.Real(1)}, elementwise.Of(g.D.H), elementwise.Of(g.DOut.Select(0, t)))
		one := &rowwise.Chain{Compute: c.Compute, Err: c.Err} // frees its temporaries before the next
		step(one, t, before.Select(0, t), sums.Select(0, t), own.Select(0, t))
		multiply(one, g.D.H, own.Select(0, t), r.Hidden, 1, true)
		c.Err = one.End()
	}
	rows := n * batch
	sums, own = sums.Reshaped(rows, width), own.Reshaped(rows, width)
	inputs := c.Temp([]int64{rows, g.X.Shape[2]})
	multiply(c, inputs, sums, r.Input, 1, false)
	c.Copy(g.DX, inputs.Reshaped(g.X.Shape...))
	for _, w := range []struct{ out, bias, of, with kernel.View }{
		{g.DInput, g.DInputBias, sums, c.Whole(g.X, rows, g.X.Shape[2])}, {g.DHidden, g.DHiddenBias, own, before.Reshaped(rows, size)},
	} {
		product := c.Temp(w.out.Shape)
		multiply(c, product, w.of.Transposed(), w.with, 1, false)
		c.Copy(w.out, product)
		if w.bias.Data != nil {
			sum := c.Temp([]int64{width})
			c.Reduce(rowwise.ReduceSum, sum, w.of, []int{0}, 0)
			c.Copy(w.bias, sum)
		}
	}
	return c.End()
}

// LSTMGrad is the gradient of LSTM.
func (r Recurrence) LSTMGrad(g RecurrentGrad) error {
	states := rowwise.NewChain(g.X)
	cells := g.before(states, r.Reverse, g.Start.C, g.Rec.Cell)
	err := r.backwards(g, func(c *rowwise.Chain, t int64, _, sums, own kernel.View) {
		i, j, f, o := g.Rec.Gates[0].Select(0, t), g.Rec.Gates[1].Select(0, t), g.Rec.Gates[2].Select(0, t), g.Rec.Gates[3].Select(0, t)
		active := g.Rec.CellActivation.Select(0, t)
		di, df, dj, do := gate(sums, 0, 4), gate(sums, 1, 4), gate(sums, 2, 4), gate(sums, 3, 4)
		c.Mul(do, g.D.H, active)
		c.Set(do, elementwise.SigmoidGrad, nil, elementwise.Of(do), elementwise.Of(o))
		c.Mul(di, g.D.H, o)
		c.Set(di, elementwise.TanhGrad, nil, elementwise.Of(di), elementwise.Of(active))
		c.Set(g.D.C, elementwise.Add, []elementwise.Number{elementwise.Real(1)}, elementwise.Of(g.D.C), elementwise.Of(di))
		c.Mul(di, g.D.C, j)
		c.Set(di, elementwise.SigmoidGrad, nil, elementwise.Of(di), elementwise.Of(i))
		c.Mul(dj, g.D.C, i)
		c.Set(dj, elementwise.TanhGrad, nil, elementwise.Of(dj), elementwise.Of(j))
		c.Mul(df, g.D.C, cells.Select(0, t))
		c.Set(df, elementwise.SigmoidGrad, nil, elementwise.Of(df), elementwise.Of(f))
		c.Mul(g.D.C, g.D.C, f)
		c.Copy(own, sums)
		c.Set(g.D.H, elementwise.Mul, nil, elementwise.Of(g.D.H), elementwise.Const(elementwise.Real(0)))
	})
	if end := states.End(); err == nil {
		err = end
	}
	return err
}

// GRUGrad is the gradient of GRU.
func (r Recurrence) GRUGrad(g RecurrentGrad) error {
	return r.backwards(g, func(c *rowwise.Chain, t int64, before, sums, own kernel.View) {
		reset, update, candidate, part := g.Rec.Gates[0].Select(0, t), g.Rec.Gates[1].Select(0, t), g.Rec.Gates[2].Select(0, t), g.Rec.Gates[3].Select(0, t)
		dr, dz, dn := gate(sums, 0, 3), gate(sums, 1, 3), gate(sums, 2, 3)
		c.Sub(dz, before, candidate)
		c.Mul(dz, dz, g.D.H)
		c.Set(dz, elementwise.SigmoidGrad, nil, elementwise.Of(dz), elementwise.Of(update))
		c.Set(dn, elementwise.ReverseSub, []elementwise.Number{elementwise.Real(1)}, elementwise.Of(update), elementwise.Const(elementwise.Real(1)))
		c.Mul(dn, dn, g.D.H)
		c.Set(dn, elementwise.TanhGrad, nil, elementwise.Of(dn), elementwise.Of(candidate))
		c.Mul(dr, dn, part)
		c.Set(dr, elementwise.SigmoidGrad, nil, elementwise.Of(dr), elementwise.Of(reset))
		c.Copy(own, sums)
		c.Mul(gate(own, 2, 3), dn, reset)
		c.Mul(g.D.H, g.D.H, update)
	})
}

package recurrent

import (
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/gemm"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
)

// Recurrence is one layer of a recurrent network in one direction. For G gates, input size I and
// hidden size H the weights are [G·H, I] and [G·H, H], and the biases [G·H] may have no data.
type Recurrence struct {
	Input, Hidden         kernel.View
	InputBias, HiddenBias kernel.View
	Reverse               bool // from the last time step to the first
}

// States holds the hidden state h of a layer, and the cell state c of an LSTM, both [B, H]. They
// are updated in place.
type States struct{ H, C kernel.View }

// Record holds views [T, B, H] to which a layer writes its results at each time step. Views
// without data are not written.
type Record struct {
	Out                  kernel.View // the states h
	Gates                []kernel.View
	Cell, CellActivation kernel.View
}

// sums is out = a · weightᵀ + bias.
func sums(c *rowwise.Chain, out, a, weight, bias kernel.View) {
	transposed := kernel.View{Data: weight.Data, DType: weight.DType, Shape: []int64{weight.Shape[1], weight.Shape[0]}, Strides: []int64{weight.Strides[1], weight.Strides[0]}}
	if c.Err == nil {
		c.Err = gemm.Gemm(gemm.Product{Out: out, A: a, B: transposed, Alpha: 1})
	}
	c.Affine(out, out, kernel.View{}, bias)
}

// times calls step for each time step with the gates' input and hidden sums [B, G·H].
func (r Recurrence) times(x kernel.View, s States, step func(c *rowwise.Chain, t int64, in, hidden kernel.View)) error {
	n, batch, width := x.Shape[0], x.Shape[1], r.Input.Shape[0]
	c := rowwise.NewChain(x)
	all, hidden := c.Temp([]int64{n * batch, width}), c.Temp([]int64{batch, width})
	sums(c, all, c.Whole(x, n*batch, x.Shape[2]), r.Input, r.InputBias)
	for i := range n {
		t := i
		if r.Reverse {
			t = n - 1 - i
		}
		sums(c, hidden, s.H, r.Hidden, r.HiddenBias)
		one := &rowwise.Chain{Compute: c.Compute, Err: c.Err} // frees its temporaries before the next
		step(one, t, all.Narrow(0, t*batch, batch), hidden)
		c.Err = one.End()
	}
	return c.End()
}

// gate returns the k-th of n equal parts of the columns.
func gate(v kernel.View, k, n int64) kernel.View {
	size := v.Shape[1] / n
	return v.Narrow(1, k*size, size)
}

// recordAt returns the part of a record for time step t.
func recordAt(v kernel.View, t int64) kernel.View {
	if v.Data == nil {
		return v
	}
	return v.Select(0, t)
}

// LSTM runs the layer over x [T, B, I]. The weights have the gates in the order input, forget,
// cell candidate, output; the record has them in the order input, candidate, forget, output.
func (r Recurrence) LSTM(x kernel.View, s States, rec Record) error {
	return r.times(x, s, func(c *rowwise.Chain, t int64, in, hidden kernel.View) {
		c.Set(hidden, elementwise.Add, []elementwise.Number{elementwise.Real(1)}, elementwise.Of(hidden), elementwise.Of(in))
		i, f, j, o := gate(hidden, 0, 4), gate(hidden, 1, 4), gate(hidden, 2, 4), gate(hidden, 3, 4)
		for _, g := range []kernel.View{i, f, o} {
			c.Set(g, elementwise.Sigmoid, nil, elementwise.Of(g))
		}
		c.Set(j, elementwise.Tanh, nil, elementwise.Of(j))
		c.Mul(s.C, f, s.C)
		c.AddTimes(s.C, s.C, 1, i, j)
		active := c.Temp(s.C.Shape)
		c.Set(active, elementwise.Tanh, nil, elementwise.Of(s.C))
		c.Mul(s.H, o, active)
		c.Give(recordAt(rec.Out, t), s.H)
		c.Give(recordAt(rec.Cell, t), s.C)
		c.Give(recordAt(rec.CellActivation, t), active)
		for k, g := range rec.Gates {
			c.Give(recordAt(g, t), []kernel.View{i, j, f, o}[k])
		}
	})
}

// GRU runs the layer over x [T, B, I]. The gates are reset, update and candidate. The record has
// them in this order, followed by the hidden-state part of the candidate.
func (r Recurrence) GRU(x kernel.View, s States, rec Record) error {
	return r.times(x, s, func(c *rowwise.Chain, t int64, in, hidden kernel.View) {
		reset, update, candidate := c.Whole(gate(in, 0, 3), s.H.Shape...), c.Whole(gate(in, 1, 3), s.H.Shape...), c.Temp(s.H.Shape)
		for k, g := range []kernel.View{reset, update} {
			c.Set(g, elementwise.Add, []elementwise.Number{elementwise.Real(1)}, elementwise.Of(g), elementwise.Of(gate(hidden, int64(k), 3)))
			c.Set(g, elementwise.Sigmoid, nil, elementwise.Of(g))
		}
		own := gate(hidden, 2, 3)
		c.AddTimes(candidate, gate(in, 2, 3), 1, reset, own)
		c.Set(candidate, elementwise.Tanh, nil, elementwise.Of(candidate))
		c.Sub(s.H, s.H, candidate)
		c.AddTimes(s.H, candidate, 1, update, s.H)
		c.Give(recordAt(rec.Out, t), s.H)
		for k, g := range rec.Gates {
			c.Give(recordAt(g, t), []kernel.View{reset, update, candidate, own}[k])
		}
	})
}

// LSTMCell computes one step from the gates' input and hidden sums [B, 4H], in the order input,
// candidate, forget, output. gates gets the activated gates, and last is the previous cell state.
func LSTMCell(h, cell, gates, in, hidden, inBias, hiddenBias, last kernel.View) error {
	c := rowwise.NewChain(in)
	sums := c.Temp(in.Shape)
	c.Set(sums, elementwise.Add, []elementwise.Number{elementwise.Real(1)}, elementwise.Of(in), elementwise.Of(hidden))
	c.Affine(sums, sums, kernel.View{}, inBias)
	c.Affine(sums, sums, kernel.View{}, hiddenBias)
	i, j, f, o := gate(sums, 0, 4), gate(sums, 1, 4), gate(sums, 2, 4), gate(sums, 3, 4)
	for _, g := range []kernel.View{i, f, o} {
		c.Set(g, elementwise.Sigmoid, nil, elementwise.Of(g))
	}
	c.Set(j, elementwise.Tanh, nil, elementwise.Of(j))
	next := c.Temp(last.Shape)
	c.Mul(next, f, last)
	c.AddTimes(next, next, 1, i, j)
	c.Set(cell, elementwise.Identity, nil, elementwise.Of(next))
	c.Set(next, elementwise.Tanh, nil, elementwise.Of(next))
	c.Mul(h, o, next)
	c.Set(gates, elementwise.Identity, nil, elementwise.Of(sums))
	return c.End()
}

// LSTMCellGrad computes the gradients of the sums, of the previous cell state and, summed over
// the batch, of the biases of LSTMCell. dh, dcell and dbias may have no data.
func LSTMCellGrad(dsums, dlast, dbias, dh, dcell, last, cell, gates kernel.View) error {
	c := rowwise.NewChain(gates)
	i, j, f, o := gate(gates, 0, 4), gate(gates, 1, 4), gate(gates, 2, 4), gate(gates, 3, 4)
	active, dc, grad := c.Temp(cell.Shape), c.Temp(cell.Shape), c.Temp(gates.Shape)
	di, dj, df, do := gate(grad, 0, 4), gate(grad, 1, 4), gate(grad, 2, 4), gate(grad, 3, 4)
	c.Set(active, elementwise.Tanh, nil, elementwise.Of(cell))
	c.Set(dc, elementwise.Mul, nil, elementwise.Of(active), elementwise.Const(elementwise.Real(0)))
	c.Set(do, elementwise.Identity, nil, elementwise.Of(dc))
	if dh.Data != nil {
		c.Mul(dc, dh, o)
		c.Set(dc, elementwise.TanhGrad, nil, elementwise.Of(dc), elementwise.Of(active))
		c.Mul(do, dh, active)
	}
	if dcell.Data != nil {
		c.Set(dc, elementwise.Add, []elementwise.Number{elementwise.Real(1)}, elementwise.Of(dc), elementwise.Of(dcell))
	}
	c.Mul(di, dc, j)
	c.Mul(dj, dc, i)
	c.Mul(df, dc, last)
	for _, g := range []struct{ d, of kernel.View }{{di, i}, {df, f}, {do, o}} {
		c.Set(g.d, elementwise.SigmoidGrad, nil, elementwise.Of(g.d), elementwise.Of(g.of))
	}
	c.Set(dj, elementwise.TanhGrad, nil, elementwise.Of(dj), elementwise.Of(j))
	c.Mul(dc, dc, f)
	c.Set(dlast, elementwise.Identity, nil, elementwise.Of(dc))
	if dbias.Data != nil {
		sum := c.Temp(gates.Shape[1:])
		c.Reduce(rowwise.ReduceSum, sum, grad, []int{0}, 0)
		c.Set(dbias, elementwise.Identity, nil, elementwise.Of(sum))
	}
	c.Set(dsums, elementwise.Identity, nil, elementwise.Of(grad))
	return c.End()
}

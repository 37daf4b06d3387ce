package recurrent

import (
	"slices"

	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	recurrentkernel "github.com/goascend/cann/internal/emu/kernel/recurrent"
	"github.com/goascend/cann/internal/emu/op"
)

// networkGrad is the gradient of a network, computed from the tensors recorded in training. The
// fields out, hy and cy of the network hold the incoming gradients.
type networkGrad struct {
	network
	dx      *op.Tensor
	dstates []*op.Tensor // gradients of the initial h and, for an LSTM, c
	dparams []*op.Tensor
}

func recurrentGrad(c *op.Call) (op.Run, error) {
	g := networkGrad{network: network{
		x: c.Tensor("input"), out: c.Tensor("dy"), hy: c.Tensor("dh"), params: c.Tensors("params"), layers: c.Int("numLayers"), directions: 1,
		lstm: c.Op.Name == "LstmBackward", biased: c.Bool("hasBias"), batchFirst: c.Bool("batchFirst"),
	}}
	g.dx, g.dparams, g.dstates = c.Tensor("dxOut"), c.Tensors("dparamsOut"), []*op.Tensor{c.Tensor("dhPrevOut")}
	if c.Bool(c.Either("bidirectional", "bidirection")) {
		g.directions = 2
	}
	if g.lstm {
		g.cy, g.start, g.dstates = c.Tensor("dc"), c.Tensors("hx"), append(g.dstates, c.Tensor("dcPrevOut"))
		if c.Float("dropout") != 0 {
			c.Invalid("dropout %g is not supported; use 0", c.Float("dropout"))
		}
	} else if h := c.Optional("hx"); h != nil {
		g.start = []*op.Tensor{h}
	}
	if t := c.Optional(c.Either("batchSizesOptional", "batchSizes")); t != nil {
		c.Invalid("%v: sequences of different lengths are not supported; pass null", t)
	}
	g.check(c)
	if c.Err() != nil {
		return nil, c.Err()
	}
	if g.lstm {
		g.gates, g.states = g.recorded(c, "i", "g", "f", "o"), g.recorded(c, "h", "c", "tanhc")
	} else {
		g.gates, g.states = g.recorded(c, "r", "z", "n", "hn"), g.recorded(c, "h")
	}
	c.Plain(g.dx)
	c.Same(g.x, g.dx)
	for _, t := range g.dstates {
		c.Plain(t)
		c.Same(g.hy, t)
	}
	if len(g.dparams) != len(g.params) {
		c.Invalid("dparamsOut has %d tensors; it has one for each of %d params", len(g.dparams), len(g.params))
	} else {
		for i, t := range g.dparams {
			c.Plain(t)
			c.Same(g.params[i], t)
		}
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return g.run, nil
}

func (g *networkGrad) run(*op.Exec) error {
	if g.out.Len() == 0 || g.x.Len() == 0 {
		return op.ZeroAll(slices.Concat([]*op.Tensor{g.dx}, g.dstates, g.dparams)...)
	}
	dy, release := kernel.Temporary(g.times, g.batch, g.directions*g.size)
	defer release()
	if err := elementwise.Copy(dy, g.timeFirst(g.out.View())); err != nil {
		return err
	}
	for layer := g.layers - 1; layer >= 0; layer-- {
		x := g.timeFirst(g.x.View())
		if layer > 0 {
			below, release := kernel.Temporary(g.times, g.batch, g.directions*g.size)
			defer release()
			for d := range g.directions {
				if err := elementwise.Copy(below.Narrow(2, d*g.size, g.size), g.states[0][(layer-1)*g.directions+d].View()); err != nil {
					return err
				}
			}
			x = below
		}
		dx, release := kernel.Temporary(x.Shape...)
		defer release()
		for d := range g.directions {
			part, releasePart := kernel.Temporary(x.Shape...)
			err := g.direction(part, x, dy.Narrow(2, d*g.size, g.size), layer*g.directions+d, d == 1)
			switch {
			case err != nil:
			case d == 0:
				err = elementwise.Copy(dx, part)
			default:
				err = elementwise.Map(elementwise.Add, dx.DType, dx, []elementwise.Input{elementwise.Of(dx), elementwise.Of(part)}, elementwise.Real(1))
			}
			releasePart()
			if err != nil {
				return err
			}
		}
		dy = dx
	}
	return elementwise.Copy(g.timeFirst(g.dx.View()), dy)
}

// direction computes the gradient of the k-th layer and direction, whose input was x. It writes
// the gradient of x to dx; dy is the gradient of its states.
func (g *networkGrad) direction(dx, x, dy kernel.View, k int64, reverse bool) error {
	start, release, err := g.stateCopies(g.start, k)
	defer release()
	if err != nil {
		return err
	}
	d, releaseD, err := g.stateCopies([]*op.Tensor{g.hy, g.cy}, k)
	defer releaseD()
	if err != nil {
		return err
	}
	p, dp := g.weights(g.params, k), g.weights(g.dparams, k)
	r := recurrentkernel.Recurrence{Input: p[0].View(), Hidden: p[1].View(), Reverse: reverse}
	of := recurrentkernel.RecurrentGrad{
		X: x, Start: recurrentkernel.States{H: start[0], C: start[1]}, DOut: dy, D: recurrentkernel.States{H: d[0], C: d[1]},
		Rec: recurrentkernel.Record{Out: g.states[0][k].View()}, DX: dx, DInput: dp[0].View(), DHidden: dp[1].View(),
	}
	if g.biased {
		of.DInputBias, of.DHiddenBias = dp[2].View(), dp[3].View()
	}
	for _, list := range g.gates {
		of.Rec.Gates = append(of.Rec.Gates, list[k].View())
	}
	layer := r.GRUGrad
	if g.lstm {
		of.Rec.Cell, of.Rec.CellActivation = g.states[1][k].View(), g.states[2][k].View()
		layer = r.LSTMGrad
	}
	if err := layer(of); err != nil {
		return err
	}
	for i, t := range g.dstates {
		if err := elementwise.Copy(t.View().Select(0, k), d[i]); err != nil {
			return err
		}
	}
	return nil
}

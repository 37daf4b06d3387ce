package recurrent

import (
	"fmt"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	recurrentkernel "github.com/goascend/cann/internal/emu/kernel/recurrent"
	"github.com/goascend/cann/internal/emu/op"
)

// recurrentLimit is the largest number of tokens per sequence in one call.
const recurrentLimit = 8

// recurrentDelta processes a few tokens of each sequence one by one. actualSeqLengths holds the
// boundaries, starting with 0. Every token stores its state in the row that ssmStateIndices
// assigns to it. A sequence starts from the row of its first token, or of the last accepted
// token.
func recurrentDelta(c *op.Call) (op.Run, error) {
	q, k, v, beta, state := c.Tensor("query"), c.Tensor("key"), c.Tensor("value"), c.Tensor("beta"), c.Tensor("stateRef")
	ends, rows := c.Tensor("actualSeqLengths"), c.Tensor("ssmStateIndices")
	g, accepted, out := c.Optional("g"), c.Optional("numAcceptedTokens"), c.Tensor("out")
	scale := c.Float("scaleValue")
	unsupported(c, "gk")
	c.Plain(q, k, v, beta, state, ends, rows, out)
	c.Rank(q, 3, 3)
	c.Rank(v, 3, 3)
	c.Rank(state, 4, 4)
	c.Rank(ends, 1, 1)
	if err := c.Err(); err != nil {
		return nil, err
	}
	c.DType(q, dtype.BFloat16)
	c.SameDType(q, k, v, beta, out)
	c.DType(state, dtype.BFloat16, dtype.Float32)
	c.DType(ends, dtype.Int32)
	c.DType(rows, dtype.Int32)
	t, hk, dk, hv, dv := q.Shape[0], q.Shape[1], q.Shape[2], v.Shape[1], v.Shape[2]
	c.SameShape(q, k)
	c.SameShape(v, out)
	c.Shape(v, []int64{t, hv, dv}, "a value for each token of query")
	c.Shape(beta, []int64{t, hv}, "one for each value head")
	c.Shape(state, []int64{state.Shape[0], hv, dv, dk}, "rows of states [Nv,Dv,Dk]")
	c.Shape(rows, []int64{t}, "a row for each token")
	if g != nil {
		c.DType(g, dtype.Float32)
		c.Shape(g, []int64{t, hv}, "one for each value head")
	}
	if accepted != nil {
		c.DType(accepted, dtype.Int32)
		c.Shape(accepted, []int64{max(ends.Shape[0]-1, 0)}, "one for each sequence")
	}
	if hk == 0 || hv%hk != 0 || hv > 256 || dk > 256 || dv > 256 {
		c.Invalid("%v and %v: value heads must be a multiple of key heads, at most 256, and dimensions at most 256", q, v)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	step := deltaSteps{q, k, v, beta, g, state, out, scale}
	return func(*op.Exec) error {
		bounds, err := elementwise.Indices(ends.View())
		if err != nil {
			return err
		}
		places, err := elementwise.Indices(rows.View())
		if err != nil {
			return err
		}
		var kept []int64
		if accepted != nil {
			if kept, err = elementwise.Indices(accepted.View()); err != nil {
				return err
			}
		}
		if i := slices.IndexFunc(places, func(row int64) bool { return row < 0 || row >= state.Shape[0] }); i >= 0 {
			return fmt.Errorf("%s: ssmStateIndices has %d for %v", c.Name(), places[i], state)
		}
		for n := range max(len(bounds)-1, 0) {
			from, to := bounds[n], bounds[n+1]
			if from < 0 || from > to || to > t || to-from > recurrentLimit {
				return fmt.Errorf("%s: actualSeqLengths goes from %d to %d; sequences of %d tokens have at most %d each", c.Name(), from, to, t, recurrentLimit)
			}
			if from == to {
				continue
			}
			start := from
			if kept != nil {
				if start = from + kept[n] - 1; start < from || start >= to {
					return fmt.Errorf("%s: numAcceptedTokens[%d] is %d for %d tokens", c.Name(), n, kept[n], to-from)
				}
			}
			if err := step.sequence(from, to, places, places[start]); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// deltaSteps computes the recurrence over the tokens of sequences.
type deltaSteps struct {
	q, k, v, beta, g, state, out *op.Tensor // g may be nil
	scale                        float64
}

// sequence computes tokens [from, to) and stores their states in the rows places. The first
// token starts from the state in row before.
func (d deltaSteps) sequence(from, to int64, places []int64, before int64) error {
	heads := d.v.Shape[1]
	each := heads / d.q.Shape[1] // value heads per key head
	for i := from; i < to; i++ {
		row := d.state.View().Select(0, places[i])
		if before != places[i] {
			if err := elementwise.Copy(row, d.state.View().Select(0, before)); err != nil {
				return err
			}
		}
		before = places[i]
		for h := range heads {
			at := func(x *op.Tensor, head int64) kernel.View { return x.View().Select(0, i).Select(0, head) }
			one := func(x *op.Tensor) kernel.View { return x.View().Select(0, i).Narrow(0, h, 1) }
			var decay kernel.View
			if d.g != nil {
				decay = one(d.g)
			}
			if err := recurrentkernel.DeltaStep(at(d.out, h), row.Select(0, h), at(d.q, h/each), at(d.k, h/each), at(d.v, h), decay, one(d.beta), d.scale); err != nil {
				return err
			}
		}
	}
	return nil
}

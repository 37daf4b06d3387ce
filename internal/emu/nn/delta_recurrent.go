package nn

import (
	"fmt"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// recurrentLimit is the largest number of tokens of a sequence in one call.
const recurrentLimit = 8

// recurrentDelta takes a few tokens of each sequence one by one. actualSeqLengths are the
// boundaries, from 0 on; every token stores its state in the row that ssmStateIndices gives
// it, and a sequence starts from the row of its first token, or of the last one that was
// accepted.
func recurrentDelta(c *Call) (Run, error) {
	q, k, v, beta, state := c.Tensor("query"), c.Tensor("key"), c.Tensor("value"), c.Tensor("beta"), c.Tensor("stateRef")
	ends, rows := c.Tensor("actualSeqLengths"), c.Tensor("ssmStateIndices")
	g, accepted, out := c.Optional("g"), c.Optional("numAcceptedTokens"), c.Tensor("out")
	scale := c.Float("scaleValue")
	c.unsupported("gk")
	c.plain(q, k, v, beta, state, ends, rows, out)
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
	return func(*Exec) error {
		bounds, err := kernel.Indices(ends.View())
		if err != nil {
			return err
		}
		places, err := kernel.Indices(rows.View())
		if err != nil {
			return err
		}
		var kept []int64
		if accepted != nil {
			if kept, err = kernel.Indices(accepted.View()); err != nil {
				return err
			}
		}
		for _, row := range places {
			if row < 0 || row >= state.Shape[0] {
				return fmt.Errorf("%s: ssmStateIndices has %d for %v", c.Name(), row, state)
			}
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
			before := places[start]
			for i := from; i < to; i++ {
				row := state.View().Select(0, places[i])
				if before != places[i] {
					if err := kernel.Copy(row, state.View().Select(0, before)); err != nil {
						return err
					}
				}
				before = places[i]
				for h := range hv {
					at := func(x *Tensor, head int64) kernel.View { return x.View().Select(0, i).Select(0, head) }
					one := func(x *Tensor) kernel.View { return x.View().Select(0, i).Narrow(0, h, 1) }
					var decay kernel.View
					if g != nil {
						decay = one(g)
					}
					key := h / (hv / hk)
					if err := kernel.DeltaStep(at(out, h), row.Select(0, h), at(q, key), at(k, key), at(v, h), decay, one(beta), scale); err != nil {
						return err
					}
				}
			}
		}
		return nil
	}, nil
}

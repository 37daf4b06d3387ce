package recurrent

import (
	"errors"
	"fmt"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/thread"
	"github.com/goascend/cann/internal/emu/op"
)

// kdaForm is a call of RecurrentKda, whose tensors are seen as those of packed tokens: [T, heads, ·].
type kdaForm struct {
	q, k, v, gate, beta, state, final, out *op.Tensor
	ends, slots, accepted                  *op.Tensor // may be nil
	tokens, sequences                      int64
	keys, heads, dk, dv                    int64
	valueFirst, inPlace, stores            bool
}

// newKdaForm reads and checks the tensors.
func newKdaForm(c *op.Call) *kdaForm {
	f := &kdaForm{
		q: required(c, "query"), k: required(c, "key"), v: required(c, "value"), gate: required(c, "gate"), beta: required(c, "beta"),
		state: required(c, "initialStateRef"), final: required(c, "finalState"), out: required(c, "attnOut"),
		ends: c.Optional("cuSeqlensOptional"), slots: c.Optional("ssmStateIndicesOptional"), accepted: c.Optional("numAcceptedTokensOptional"),
		valueFirst: c.Bool("stateVFirst"), inPlace: c.Bool("inplaceFinalState"),
	}
	f.stores = f.inPlace || c.Bool("outputFinalState")
	lead := map[string]int{"": 2, "BSND": 2, "TND": 1}[c.Text("layout")]
	if lead == 0 {
		c.Invalid("layout is %q; use BSND or TND", c.Text("layout"))
	}
	c.Plain(f.q, f.k, f.v, f.gate, f.beta, f.state, f.final, f.out)
	for _, t := range []*op.Tensor{f.q, f.k, f.v, f.out} {
		c.DType(t, dtype.BFloat16)
	}
	c.DType(f.gate, op.FloatTypes...)
	c.DType(f.beta, op.FloatTypes...)
	c.DType(f.state, dtype.BFloat16, dtype.Float32)
	c.SameDType(f.state, f.final)
	c.Rank(f.q, lead+2, lead+2)
	c.Rank(f.v, lead+2, lead+2)
	c.Rank(f.state, 4, 4)
	if c.Err() != nil {
		return f
	}
	f.keys, f.heads, f.dk, f.dv = f.q.Dim(-2), f.v.Dim(-2), f.q.Dim(-1), f.v.Dim(-1)
	f.tokens, f.sequences = op.Count(f.q.Shape[:lead]), op.Count(f.q.Shape[:lead-1])
	rows := slices.Clone(f.q.Shape[:lead])
	c.SameShape(f.q, f.k)
	c.Shape(f.v, append(slices.Clone(rows), f.heads, f.dv), "the values of query's tokens")
	c.Shape(f.gate, append(slices.Clone(rows), f.heads, f.dk), "a gate for each channel of a value head")
	c.Shape(f.beta, append(rows, f.heads), "one for each value head")
	c.SameShape(f.v, f.out)
	c.SameShape(f.state, f.final)
	if f.keys == 0 || f.heads%max(f.keys, 1) != 0 || f.tokens == 0 || f.heads == 0 {
		c.Invalid("%v and %v: there must be tokens, and the value heads be a multiple of the key heads", f.q, f.v)
	}
	if f.dk != 128 || f.dv != 128 && f.dv != 256 {
		c.Invalid("%v and %v: keys have 128 channels and values 128 or 256", f.q, f.v)
	}
	f.lists(c)
	tail := []int64{f.state.Dim(0), f.heads, f.dk, f.dv}
	if f.valueFirst {
		tail[2], tail[3] = f.dv, f.dk
	}
	c.Shape(f.state, tail, "states of each value head")
	if f.state.Dim(0) == 0 || f.slots == nil && f.state.Dim(0) != f.sequences {
		c.Invalid("%v must have a state for each of %d sequences", f.state, f.sequences)
	}
	return f
}

// lists checks the tensors that select sequences and states.
func (f *kdaForm) lists(c *op.Call) {
	for _, t := range []*op.Tensor{f.ends, f.slots, f.accepted} {
		if t != nil {
			c.Plain(t)
			c.DType(t, dtype.Int32, dtype.Int64)
		}
	}
	if f.ends != nil {
		c.Rank(f.ends, 1, 1)
		if c.Err() == nil && f.ends.Len() < 2 {
			c.Invalid("%v must have at least two elements", f.ends)
		}
		f.sequences = f.ends.Len() - 1
	}
	if f.slots != nil && !(f.slots.Rank() == 1 && f.slots.Len() >= f.tokens || f.slots.Rank() == 2 && f.slots.Dim(0) == f.sequences && f.slots.Dim(1) > 0) {
		c.Invalid("%v must have one element for each of %d tokens, or a row for each of %d sequences", f.slots, f.tokens, f.sequences)
	}
	if f.accepted != nil {
		c.Shape(f.accepted, []int64{f.sequences}, "one for each sequence")
		if f.slots == nil {
			c.Invalid("%v goes with ssmStateIndicesOptional", f.accepted)
		}
	}
	if !c.Bool("useGateInKernel") && (c.Bool("safeGate") || c.Optional("aLogOptional") != nil || c.Optional("dtBiasOptional") != nil) {
		c.Invalid("aLogOptional, dtBiasOptional and safeGate go with useGateInKernel")
	}
}

// recurrentKda processes at most eight tokens of each sequence one by one. Every token stores its state in
// the row that ssmStateIndices assigns to it, or in that of its sequence.
func recurrentKda(c *op.Call) (op.Run, error) {
	f := newKdaForm(c)
	gate := gates(c, f.heads, f.dk)
	if c.Err() != nil {
		return nil, c.Err()
	}
	scale, normalize, sigmoid, double := c.Float("scale"), c.Bool("useQkL2normInKernel"), c.Bool("useBetaSigmoidInKernel"), c.Bool("allowNegEigval")
	copies := f.inPlace && c.Bool("outputFinalState")
	return func(*op.Exec) error {
		spans, err := f.spans()
		if err != nil {
			return fmt.Errorf("%s: %w", c.Name(), err)
		}
		all, err := gate()
		if err != nil {
			return err
		}
		values := make([][]float64, 5)
		for i, t := range []*op.Tensor{f.q, f.k, f.v, f.gate, f.beta} {
			if values[i], err = elementwise.Doubles(t.View()); err != nil {
				return err
			}
		}
		x := kdaTokens{kdaForm: f, q: values[0], k: values[1], v: values[2], g: values[3], beta: values[4], out: make([]float64, f.out.Len())}
		x.prepare(all, scale, normalize, sigmoid, double)
		for _, s := range spans {
			failures := make([]error, f.heads)
			thread.Parallel(f.heads, 1, func(lo, hi int64) {
				for h := lo; h < hi; h++ {
					failures[h] = x.sequence(s, h)
				}
			})
			if err := errors.Join(failures...); err != nil {
				return err
			}
		}
		if err := elementwise.SetFloats(f.out.View(), x.out); err != nil || !copies {
			return err
		}
		return elementwise.Copy(f.final.View(), f.state.View())
	}, nil
}

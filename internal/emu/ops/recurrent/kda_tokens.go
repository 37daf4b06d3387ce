package recurrent

import (
	"fmt"
	"math"

	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/kda"
	"github.com/goascend/cann/internal/emu/op"
)

// kdaSpan is the tokens of a sequence, from first to end, the state that they start from, and those that
// they store.
type kdaSpan struct {
	first, end, before int64
	slots              []int64
}

// spans reads the tensors that select sequences and states.
func (f *kdaForm) spans() (all []kdaSpan, err error) {
	lists := make([][]int64, 3)
	for i, t := range []*op.Tensor{f.ends, f.slots, f.accepted} {
		if t != nil {
			if lists[i], err = elementwise.Indices(t.View()); err != nil {
				return nil, err
			}
		}
	}
	ends, slots, accepted := lists[0], lists[1], lists[2]
	if f.ends == nil {
		for s := range f.sequences + 1 {
			ends = append(ends, s*f.tokens/f.sequences)
		}
	}
	for s := range f.sequences {
		span := kdaSpan{first: ends[s], end: ends[s+1], before: s}
		n := span.end - span.first
		if ends[0] != 0 || n < 0 || n > recurrentLimit || span.end > f.tokens {
			return nil, fmt.Errorf("sequence %d has the tokens from %d to %d of %d; sequences begin at 0 and have at most %d tokens each", s, span.first, span.end, f.tokens, recurrentLimit)
		}
		if n == 0 {
			continue
		}
		for i := range n {
			slot := s
			if f.slots != nil && f.slots.Rank() == 1 {
				slot = slots[span.first+i]
			} else if f.slots != nil {
				if n > f.slots.Dim(1) {
					return nil, fmt.Errorf("sequence %d has %d tokens, and ssmStateIndicesOptional states for %d", s, n, f.slots.Dim(1))
				}
				slot = slots[s*f.slots.Dim(1)+i]
			}
			if slot < 0 || slot >= f.state.Dim(0) {
				return nil, fmt.Errorf("ssmStateIndicesOptional has %d for %d states", slot, f.state.Dim(0))
			}
			span.slots = append(span.slots, slot)
		}
		at := int64(1)
		if f.accepted != nil {
			at = accepted[s]
		}
		if at < 1 || at > n {
			return nil, fmt.Errorf("numAcceptedTokensOptional has %d for a sequence of %d tokens", at, n)
		}
		span.before = span.slots[at-1]
		all = append(all, span)
	}
	return all, nil
}

// kdaTokens are the elements of the tensors of a call.
type kdaTokens struct {
	*kdaForm
	q, k, v, g, beta, out []float64
}

// prepare makes queries, keys, gates and betas what the recurrence takes.
func (x kdaTokens) prepare(all []kda.Gate, scale float64, normalize, sigmoid, double bool) {
	for i := int64(0); i < x.tokens*x.keys; i++ {
		q := x.q[i*x.dk:][:x.dk]
		if normalize {
			kda.Normalize(q)
			kda.Normalize(x.k[i*x.dk:][:x.dk])
		}
		for j := range q {
			q[j] *= scale
		}
	}
	for i := range x.beta {
		if all != nil {
			all[int64(i)%x.heads].Log(x.g[int64(i)*x.dk:][:x.dk])
		}
		if sigmoid {
			x.beta[i] = 1 / (1 + math.Exp(-x.beta[i]))
			if double {
				x.beta[i] *= 2
			}
		}
	}
}

// sequence computes the tokens of a sequence for one value head.
func (x kdaTokens) sequence(s kdaSpan, h int64) error {
	state, err := elementwise.Doubles(x.stateOf(x.state, s.before, h))
	if err != nil {
		return err
	}
	into := x.final
	if x.inPlace {
		into = x.state
	}
	for i := s.first; i < s.end; i++ {
		row, key := i*x.heads+h, (i*x.keys+h/(x.heads/x.keys))*x.dk
		kda.Step(x.out[row*x.dv:][:x.dv], state, x.q[key:][:x.dk], x.k[key:][:x.dk], x.v[row*x.dv:][:x.dv], x.g[row*x.dk:][:x.dk], x.beta[row])
		if x.stores {
			if err := elementwise.SetFloats(x.stateOf(into, s.slots[i-s.first], h), state); err != nil {
				return err
			}
		}
	}
	return nil
}

// stateOf returns the state of a head as [values, keys].
func (x kdaTokens) stateOf(t *op.Tensor, slot, h int64) kernel.View {
	v := t.View().Select(0, slot).Select(0, h)
	if !x.valueFirst {
		v = op.Permuted(v, []int64{1, 0})
	}
	return v
}

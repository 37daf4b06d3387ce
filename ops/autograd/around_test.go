package autograd_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/internal/testing/opstest"
	"github.com/goascend/cann/ops/autograd"
)

// shard is a weight that exists only between open and close.
type shard struct {
	b      *opstest.Bench
	values []float32
	v      *autograd.Var
	whole  *aclnn.Tensor
}

func (s *shard) open() error {
	s.whole = s.b.Floats(aclnn.Float32, s.values, 4, 4)
	s.v.Value = s.whole
	return nil
}

// close overwrites what was read, so that a stale weight shows in the gradients.
func (s *shard) close() error {
	s.v.Value = nil
	return aclnn.InplaceZero(s.b.Stream, aclnn.InplaceZeroParams{Self: s.whole})
}

// TestAround: weights that are gathered anew for the backward pass give the gradients of weights that stay, with and without recomputing, and the hooks
// are called in pairs, also when something between them fails.
func TestAround(t *testing.T) {
	for _, recompute := range []bool{false, true} {
		p := &problem{b: opstest.New(t)}
		x := p.param(3, 4)
		whole := []*autograd.Var{p.param(4, 4), p.param(4, 4)}
		fixed := autograd.New(t.Context(), p.b.Stream, p.b.Registry, autograd.Options{})
		require.NoError(t, fixed.BackwardFrom(autograd.Output{Var: fixed.Linear(fixed.Linear(x, whole[0], nil), whole[1], nil), Factor: 2}))
		require.NoError(t, fixed.Close())
		want := [][]float32{p.b.Read(x.Grad), p.b.Read(whole[0].Grad), p.b.Read(whole[1].Grad)}

		shards := []*shard{{b: p.b, values: p.weights[1].values}, {b: p.b, values: p.weights[2].values}}
		for _, s := range shards {
			s.v = autograd.NewOpenedParameter(true)
		}
		var calls []string
		run := func(fail string) error {
			calls = nil
			tape := autograd.New(t.Context(), p.b.Stream, p.b.Registry, autograd.Options{})
			y := x
			for i, s := range shards {
				name := string(rune('a' + i))
				call := func(what string, f func() error) func() error {
					return func() error {
						calls = append(calls, what+name)
						if fail == what+name {
							return acl.ErrBusy
						}
						return f()
					}
				}
				before := y
				layer := func() *autograd.Var { return tape.Linear(before, s.v, nil) }
				tape.Around(autograd.Hooks{
					BeforeForward: call("open ", s.open), AfterForward: call("close ", s.close),
					BeforeBackward: call("reopen ", func() error {
						s.v.Grad = p.b.Empty(aclnn.Float32, 4, 4)
						return s.open()
					}),
					AfterBackward: call("end ", s.close),
				}, func() {
					if y = tape.Block(name, layer); recompute {
						y = tape.Checkpoint(name, layer)
					}
				})
			}
			err := tape.Err()
			if err == nil {
				err = tape.BackwardFrom(autograd.Output{Var: y, Factor: 2})
			}
			if closed := tape.Close(); err == nil {
				err = closed
			}
			return err
		}
		require.NoError(t, run(""))
		assert.Equal(t, []string{"open a", "close a", "open b", "close b", "reopen b", "end b", "reopen a", "end a"}, calls)
		assert.Equal(t, want, [][]float32{p.b.Read(x.Grad), p.b.Read(shards[0].v.Grad), p.b.Read(shards[1].v.Grad)})
		require.ErrorIs(t, run("reopen b"), acl.ErrBusy)
		assert.Equal(t, "end b", calls[len(calls)-1])
		require.ErrorIs(t, run("end b"), acl.ErrBusy)
		assert.False(t, slices.Contains(calls, "reopen a"), "%v", calls)
		require.ErrorIs(t, run("open b"), acl.ErrBusy)
		assert.Equal(t, "close b", calls[len(calls)-1])
	}
}

// TestTapesInTurns: tapes of micro-batches whose passes overlap, as in a pipeline, add up to one, and each announces each parameter once.
func TestTapesInTurns(t *testing.T) {
	m := newTransformer(t, 2, 8)
	m.step(autograd.Options{Seed: 1}, (*autograd.Tape).Block)()
	once := m.gradients()
	var tapes []*autograd.Tape
	var losses []*autograd.Var
	completed := make([]int, 2)
	for i := range 2 {
		tape := autograd.New(t.Context(), m.p.b.Stream, m.p.b.Registry, autograd.Options{Seed: 1, Accumulate: i > 0, Complete: func(*autograd.Var) error {
			completed[i]++
			return nil
		}})
		tapes, losses = append(tapes, tape), append(losses, m.loss(tape, (*autograd.Tape).Block))
	}
	for i, tape := range tapes {
		require.NoError(t, tape.Backward(losses[i]))
		require.NoError(t, tape.Close())
	}
	assert.Equal(t, []int{len(m.p.weights), len(m.p.weights)}, completed)
	for i, g := range m.gradients() {
		for j := range g {
			require.InDelta(t, 2*once[i][j], g[j], 1e-5, "parameter %d", i)
		}
	}
}

// TestDerivedAccumulates: gradients of parts of a parameter are added to those of an earlier micro-batch, and the rest stays.
func TestDerivedAccumulates(t *testing.T) {
	p := &problem{b: opstest.New(t)}
	x, w := p.param(3, 4), p.param(9)
	part := func(d *aclnn.Tensor) *aclnn.Tensor { return d.Narrow(0, 2, 4) }
	for i := range 3 {
		tape := autograd.New(t.Context(), p.b.Stream, p.b.Registry, autograd.Options{Accumulate: i == 1})
		own := tape.Derive(w, func(_ *aclnn.Scope, v *aclnn.Tensor) *aclnn.Tensor { return part(v) }, part)
		require.NoError(t, tape.BackwardFrom(autograd.Output{Var: tape.RMSNorm(x, own, 1e-6), Factor: 1}))
		require.NoError(t, tape.Close())
		g := p.b.Read(w.Grad)
		assert.Equal(t, []float32{0, 0, 0, 0, 0}, slices.Concat(g[:2], g[6:]))
		if i == 1 {
			for j := range g {
				g[j] /= 2
			}
		}
		p.weights = append(p.weights, &weight{values: g})
		assert.Equal(t, p.weights[2].values, g)
	}
}

// TestReceived: the gradient of what a stage receives is that of one micro-batch, while those of the weights add up.
func TestReceived(t *testing.T) {
	p := &problem{b: opstest.New(t)}
	w := p.param(4, 4)
	x, dx := p.b.Floats(aclnn.Float32, opstest.Random(aclnn.Float32, 9, 12), 3, 4), p.b.Empty(aclnn.Float32, 3, 4)
	var first, weights []float32
	for i := range 2 {
		tape := autograd.New(t.Context(), p.b.Stream, p.b.Registry, autograd.Options{Accumulate: i > 0})
		in := autograd.NewReceived(x)
		y := tape.Linear(in, w, nil)
		in.Grad = dx
		require.NoError(t, tape.BackwardFrom(autograd.Output{Var: y, Factor: 1}))
		require.NoError(t, tape.Close())
		if i == 0 {
			first, weights = p.b.Read(dx), p.b.Read(w.Grad)
		}
	}
	assert.Equal(t, first, p.b.Read(dx))
	for i, g := range p.b.Read(w.Grad) {
		require.InDelta(t, 2*weights[i], g, 1e-5)
	}
}

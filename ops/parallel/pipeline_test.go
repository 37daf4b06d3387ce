package parallel_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/hccl"
	"github.com/goascend/cann/internal/testing/opstest"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/parallel"
)

// layer is a stage with one projection. Its output is the input of the next stage; the gradient of
// the last stage's output is given.
type layer struct {
	b           *opstest.Bench
	weight, dw  *aclnn.Tensor
	data, dLast []*aclnn.Tensor // by micro-batch: input of the first stage, gradient at the last
	results     []*aclnn.Tensor // of the last stage
	ins         map[int]*aclnn.Tensor
	failAt      int // the micro-batch whose backward fails, −1 for none
}

var errStage = errors.New("the stage failed")

func (l *layer) Forward(ctx context.Context, st *acl.Stream, micro int, in, out *aclnn.Tensor) error {
	if in == nil {
		in = l.data[micro]
	}
	if out == nil {
		out = l.results[micro]
	}
	l.ins[micro] = in
	return l.b.Linear().Run(ctx, st, &ops.LinearArgs{X: in, Weight: l.weight, Out: out})
}

func (l *layer) Backward(ctx context.Context, st *acl.Stream, micro int, dOut, dIn *aclnn.Tensor) error {
	if micro == l.failAt {
		return errStage
	}
	if dOut == nil {
		dOut = l.dLast[micro]
	}
	in := l.ins[micro]
	delete(l.ins, micro)
	return l.b.LinearGrad().Run(ctx, st, &ops.LinearGradArgs{DOut: dOut, X: in, Weight: l.weight, DX: dIn, DWeight: l.dw, Accumulate: true})
}

func newLayer(b *opstest.Bench, stage, micros int, rows, width int64) *layer {
	l := &layer{b: b, ins: map[int]*aclnn.Tensor{}, failAt: -1}
	l.weight, _ = b.Input(aclnn.Float32, uint64(100+stage), width, width)
	l.dw = b.Floats(aclnn.Float32, make([]float32, width*width), width, width)
	for m := range micros {
		x, _ := b.Input(aclnn.Float32, uint64(m), rows, width)
		d, _ := b.Input(aclnn.Float32, uint64(50+m), rows, width)
		l.data, l.dLast = append(l.data, x), append(l.dLast, d)
		l.results = append(l.results, b.Empty(aclnn.Float32, rows, width))
	}
	return l
}

// The pipeline gives the same outputs and gradients as running the layers one after another.
func TestPipeline(t *testing.T) {
	const rows, width = 3, 5
	for _, c := range []struct{ stages, micros int }{{1, 2}, {2, 1}, {2, 4}, {4, 2}, {4, 7}} {
		t.Run(fmt.Sprintf("%d stages/%d micro-batches", c.stages, c.micros), func(t *testing.T) {
			// One layer after another on one device.
			want := whole(t, func(b *opstest.Bench) (out []*aclnn.Tensor) {
				var layers []*layer
				for s := range c.stages {
					layers = append(layers, newLayer(b, s, c.micros, rows, width))
				}
				ctx := b.T.Context()
				for m := range c.micros {
					x := layers[0].data[m]
					for _, l := range layers {
						require.NoError(b.T, l.Forward(ctx, b.Stream, m, x, l.results[m]))
						x = l.results[m]
					}
					d := layers[0].dLast[m]
					for s := c.stages - 1; s >= 0; s-- {
						dIn := b.Empty(aclnn.Float32, rows, width)
						require.NoError(b.T, layers[s].Backward(ctx, b.Stream, m, d, dIn))
						d = dIn
					}
					out = append(out, x)
				}
				for _, l := range layers {
					out = append(out, l.dw)
				}
				return out
			})
			onRanks(t, c.stages, func(r *rank) {
				l := newLayer(r.Bench, r.comm.Rank(), c.micros, rows, width)
				p := pipeline(r.T, r.comm, c.stages, c.micros, 1, false)
				require.NoError(r.T, p.Run(r.T.Context(), r.Stream, aclnn.Float32, []int64{rows, width}, l))
				if r.comm.Rank() == c.stages-1 {
					for m := range c.micros {
						r.Near("output", l.results[m], want[m], 1e-6)
					}
				}
				r.Near("gradient", l.dw, want[c.micros+r.comm.Rank()], 1e-6)
				assert.Empty(r.T, l.ins)
			})
		})
	}
}

// halves is a layer that computes the gradient of its weight apart.
type halves struct {
	*layer
	dOut map[int]*aclnn.Tensor
}

func (h *halves) Backward(ctx context.Context, st *acl.Stream, micro int, dOut, dIn *aclnn.Tensor) error {
	if dOut == nil {
		dOut = h.dLast[micro]
	}
	h.dOut[micro] = dOut
	if dIn == nil {
		return nil
	}
	return h.b.LinearGrad().Run(ctx, st, &ops.LinearGradArgs{DOut: dOut, X: h.ins[micro], Weight: h.weight, DX: dIn})
}

func (h *halves) BackwardWeights(ctx context.Context, st *acl.Stream, micro int) error {
	in := h.ins[micro]
	delete(h.ins, micro)
	return h.b.LinearGrad().Run(ctx, st, &ops.LinearGradArgs{DOut: h.dOut[micro], X: in, Weight: h.weight, DWeight: h.dw, Accumulate: true})
}

// Interleaved and zero-bubble schedules give the results of 1F1B. The layers of a rank are the chunks.
func TestPipelineForms(t *testing.T) {
	const rows, width, stages, micros = 3, 5, 4, 4
	want := whole(t, func(b *opstest.Bench) (out []*aclnn.Tensor) {
		ctx, layers := b.T.Context(), make([]*layer, stages)
		for s := range layers {
			layers[s] = newLayer(b, s, micros, rows, width)
		}
		for m := range micros {
			x := layers[0].data[m]
			for _, l := range layers {
				require.NoError(b.T, l.Forward(ctx, b.Stream, m, x, l.results[m]))
				x = l.results[m]
			}
			d := layers[0].dLast[m]
			for s := stages - 1; s >= 0; s-- {
				dIn := b.Empty(aclnn.Float32, rows, width)
				require.NoError(b.T, layers[s].Backward(ctx, b.Stream, m, d, dIn))
				d = dIn
			}
		}
		for _, l := range layers {
			out = append(out, l.dw)
		}
		return out
	})
	for name, c := range map[string]struct {
		ranks int
		zero  bool
	}{"interleaved": {2, false}, "zero bubble": {4, true}} {
		t.Run(name, func(t *testing.T) {
			onRanks(t, c.ranks, func(r *rank) {
				p := pipeline(r.T, r.comm, c.ranks, micros, stages/c.ranks, c.zero)
				var chunks []parallel.Stage
				var layers []*layer
				for s := r.comm.Rank(); s < stages; s += c.ranks {
					l := newLayer(r.Bench, s, micros, rows, width)
					layers = append(layers, l)
					if c.zero {
						chunks = append(chunks, &halves{l, map[int]*aclnn.Tensor{}})
					} else {
						chunks = append(chunks, l)
					}
				}
				require.NoError(r.T, p.Run(r.T.Context(), r.Stream, aclnn.Float32, []int64{rows, width}, chunks...))
				for i, l := range layers {
					r.Near("gradient", l.dw, want[r.comm.Rank()+i*c.ranks], 1e-6)
				}
			})
		})
	}
	b := opstest.New(t)
	p, shape := pipeline(t, nil, 1, 1, 1, true), []int64{rows, width}
	err := p.Run(t.Context(), b.Stream, aclnn.Float32, shape, newLayer(b, 0, 1, rows, width))
	require.ErrorIs(t, err, ops.ErrInvalid)
	require.ErrorContains(t, err, "needs a WeightStage")
	require.ErrorContains(t, p.Run(t.Context(), b.Stream, aclnn.Float32, shape), "0 stages for 1 chunks")
	require.ErrorIs(t, new(parallel.Pipeline).Run(t.Context(), b.Stream, aclnn.Float32, shape), ops.ErrInvalid)
	s, err := parallel.NewPipelineSchedule(2, 2, 1, false)
	require.NoError(t, err)
	_, err = parallel.NewPipeline(nil, s)
	require.ErrorIs(t, err, ops.ErrInvalid)
	require.ErrorContains(t, err, "2 ranks, and the communicator has 1")
}

// pipeline makes a pipeline and its schedule.
func pipeline(t require.TestingT, comm parallel.PeerCommunicator, ranks, micros, chunks int, zeroBubble bool) *parallel.Pipeline {
	s, err := parallel.NewPipelineSchedule(ranks, micros, chunks, zeroBubble)
	require.NoError(t, err)
	p, err := parallel.NewPipeline(comm, s)
	require.NoError(t, err)
	return p
}

// The error of a failed stage names the stage and the micro-batch, and everything is freed.
func TestPipelineFaults(t *testing.T) {
	b := opstest.New(t)
	l := newLayer(b, 0, 4, 2, 3)
	l.failAt = 1
	p, shape := pipeline(t, nil, 1, 4, 1, false), []int64{2, 3}
	err := p.Run(t.Context(), b.Stream, aclnn.Float32, shape, l)
	require.ErrorIs(t, err, errStage)
	require.ErrorContains(t, err, "stage 0 of 1: backward of micro-batch 1")

	p = pipeline(t, &closedPeers{}, 2, 4, 1, false)
	err = p.Run(t.Context(), b.Stream, aclnn.Float32, shape, newLayer(b, 0, 4, 2, 3))
	require.ErrorIs(t, err, acl.ErrClosed)
	require.ErrorContains(t, err, "stage 0 of 2: exchange with the neighbours")
}

// closedPeers is a communicator of two stages that was closed.
type closedPeers struct{}

func (*closedPeers) Rank() int                                   { return 0 }
func (*closedPeers) Size() int                                   { return 2 }
func (*closedPeers) Exchange(*acl.Stream, ...hccl.Message) error { return acl.ErrClosed }

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
				p := parallel.NewPipeline(r.comm, aclnn.Float32, rows, width)
				require.NoError(r.T, p.Run(r.T.Context(), r.Stream, c.micros, l))
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

// The error of a failed stage names the stage and the micro-batch, and everything is freed.
func TestPipelineFaults(t *testing.T) {
	b := opstest.New(t)
	l := newLayer(b, 0, 4, 2, 3)
	l.failAt = 1
	p := parallel.NewPipeline(nil, aclnn.Float32, 2, 3)
	require.ErrorIs(t, p.Run(t.Context(), b.Stream, 0, l), ops.ErrInvalid)
	err := p.Run(t.Context(), b.Stream, 4, l)
	require.ErrorIs(t, err, errStage)
	require.ErrorContains(t, err, "stage 0 of 1: backward of micro-batch 1")

	c := &closedPeers{}
	err = parallel.NewPipeline(c, aclnn.Float32, 2, 3).Run(t.Context(), b.Stream, 4, newLayer(b, 0, 4, 2, 3))
	require.ErrorIs(t, err, acl.ErrClosed)
	require.ErrorContains(t, err, "stage 0 of 2: exchange with the neighbours")
}

// closedPeers is a communicator of two stages that was closed.
type closedPeers struct{}

func (*closedPeers) Rank() int                                   { return 0 }
func (*closedPeers) Size() int                                   { return 2 }
func (*closedPeers) Exchange(*acl.Stream, ...hccl.Message) error { return acl.ErrClosed }

//go:build emu

package ops_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
)

// wires connect the ranks of a test pairwise; a transfer waits for its other side.
type wires struct {
	mu   sync.Mutex
	pair map[[2]int]chan []float32
}

func (w *wires) between(from, to int) chan []float32 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pair == nil {
		w.pair = map[[2]int]chan []float32{}
	}
	key := [2]int{from, to}
	if w.pair[key] == nil {
		w.pair[key] = make(chan []float32)
	}
	return w.pair[key]
}

// wired is a rank's end of the wires.
type wired struct {
	*rank
	wires *wires
}

func (w wired) Rank() int { return w.comm.Rank() }
func (w wired) Size() int { return w.comm.Size() }

func (w wired) Exchange(ctx context.Context, st *acl.Stream, transfers []ops.Transfer) error {
	come := make([][]float32, len(transfers))
	errs := make([]error, len(transfers))
	var wg sync.WaitGroup
	for i, t := range transfers {
		var values []float32
		if !t.Receive {
			values = w.read(t.Tensor)
		}
		wg.Go(func() {
			if t.Receive {
				select {
				case come[i] = <-w.wires.between(t.Peer, w.Rank()):
				case <-ctx.Done():
					errs[i] = ctx.Err()
				}
				return
			}
			select {
			case w.wires.between(w.Rank(), t.Peer) <- values:
			case <-ctx.Done():
				errs[i] = ctx.Err()
			}
		})
	}
	wg.Wait()
	for i, t := range transfers {
		if t.Receive && errs[i] == nil {
			errs[i] = aclnn.CopyToDevice(ctx, st, t.Tensor, come[i])
		}
	}
	return errors.Join(errs...)
}

// layer is a stage that is one projection. Its output is the next one's input; the gradient
// of the last one's output is given.
type layer struct {
	b           *bench
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
	return l.b.Linear.Run(ctx, st, &ops.LinearArgs{X: in, Weight: l.weight, Out: out})
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
	return l.b.LinearGrad.Run(ctx, st, &ops.LinearGradArgs{DOut: dOut, X: in, Weight: l.weight, DX: dIn, DWeight: l.dw, Accumulate: true})
}

func newLayer(b *bench, stage, micros int, rows, width int64) *layer {
	l := &layer{b: b, ins: map[int]*aclnn.Tensor{}, failAt: -1}
	l.weight, _ = b.input(aclnn.Float32, uint64(100+stage), width, width)
	l.dw = b.floats(aclnn.Float32, make([]float32, width*width), width, width)
	for m := range micros {
		x, _ := b.input(aclnn.Float32, uint64(m), rows, width)
		d, _ := b.input(aclnn.Float32, uint64(50+m), rows, width)
		l.data, l.dLast = append(l.data, x), append(l.dLast, d)
		l.results = append(l.results, b.empty(aclnn.Float32, rows, width))
	}
	return l
}

// The pipeline gives the outputs and gradients of the layers one after another.
func TestPipeline(t *testing.T) {
	const rows, width = 3, 5
	for _, c := range []struct{ stages, micros int }{{1, 2}, {2, 1}, {2, 4}, {4, 2}, {4, 7}} {
		t.Run(fmt.Sprintf("%d stages/%d micro-batches", c.stages, c.micros), func(t *testing.T) {
			// One layer after another on one device.
			want := whole(t, func(b *bench) (out []*aclnn.Tensor) {
				var layers []*layer
				for s := range c.stages {
					layers = append(layers, newLayer(b, s, c.micros, rows, width))
				}
				ctx := b.t.Context()
				for m := range c.micros {
					x := layers[0].data[m]
					for _, l := range layers {
						require.NoError(b.t, l.Forward(ctx, b.st, m, x, l.results[m]))
						x = l.results[m]
					}
					d := layers[0].dLast[m]
					for s := c.stages - 1; s >= 0; s-- {
						dIn := b.empty(aclnn.Float32, rows, width)
						require.NoError(b.t, layers[s].Backward(ctx, b.st, m, d, dIn))
						d = dIn
					}
					out = append(out, x)
				}
				for _, l := range layers {
					out = append(out, l.dw)
				}
				return out
			})
			var w wires
			onRanks(t, c.stages, func(r *rank) {
				l := newLayer(r.bench, r.comm.Rank(), c.micros, rows, width)
				p := ops.NewPipeline(wired{r, &w}, aclnn.Float32, rows, width)
				require.NoError(r.t, p.Run(r.t.Context(), r.st, c.micros, l))
				if r.comm.Rank() == c.stages-1 {
					for m := range c.micros {
						r.near("output", l.results[m], want[m], 1e-6)
					}
				}
				r.near("gradient", l.dw, want[c.micros+r.comm.Rank()], 1e-6)
				assert.Empty(r.t, l.ins)
			})
		})
	}
}

func TestPipelineFaults(t *testing.T) {
	var w wires
	ctx, leave := context.WithCancel(t.Context()) // as a communicator that one rank has closed
	defer leave()
	onRanks(t, 2, func(r *rank) {
		l := newLayer(r.bench, r.comm.Rank(), 4, 2, 3)
		p := ops.NewPipeline(wired{r, &w}, aclnn.Float32, 2, 3)
		require.ErrorIs(r.t, p.Run(ctx, r.st, 0, l), ops.ErrInvalid)
		if r.comm.Rank() == 1 {
			defer leave()
			l.failAt = 1
			err := p.Run(ctx, r.st, 4, l)
			require.ErrorIs(r.t, err, errStage)
			require.ErrorContains(r.t, err, "stage 1 of 2: backward of micro-batch 1")
			return
		}
		err := p.Run(ctx, r.st, 4, l)
		require.ErrorIs(r.t, err, context.Canceled)
		require.ErrorContains(r.t, err, "stage 0 of 2: exchange with the neighbours")
	})
}

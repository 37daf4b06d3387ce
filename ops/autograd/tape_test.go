package autograd_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/internal/testing/opstest"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/autograd"
	"github.com/goascend/cann/ops/mask"
)

// transformer is a small model of some layers with one parameter of each kind.
type transformer struct {
	p                           *problem
	embedding, head, final      *autograd.Var
	layers                      []transformerLayer
	cos, sin, ids, labels       *aclnn.Tensor
	batch, length, heads, width int64
}

type transformerLayer struct{ attentionNorm, q, k, v, o, mlpNorm, gateUp, down *autograd.Var }

func newTransformer(t *testing.T, layers int, length int64) *transformer {
	m := &transformer{p: &problem{b: opstest.New(t)}, batch: 2, length: length, heads: 4, width: 32}
	b, w := m.p.b, m.width
	m.embedding, m.head, m.final = m.p.param(11, w), m.p.param(11, w), m.p.param(w)
	for range layers {
		m.layers = append(m.layers, transformerLayer{
			m.p.param(w), m.p.param(w, w), m.p.param(w/2, w), m.p.param(w/2, w), m.p.param(w, w), m.p.param(w), m.p.param(4*w, w), m.p.param(w, 2*w),
		})
	}
	m.cos, _ = b.Input(aclnn.Float32, 60, 1, length, 1, w/m.heads)
	m.sin, _ = b.Input(aclnn.Float32, 61, 1, length, 1, w/m.heads)
	ids, labels := make([]int32, m.batch*length), make([]int32, m.batch*length)
	for i := range ids {
		ids[i], labels[i] = int32(i*7%11), int32(i*5%11)
	}
	m.ids, m.labels = opstest.Data(b, aclnn.Int32, ids, m.batch*length), opstest.Data(b, aclnn.Int32, labels, m.batch*length)
	return m
}

func (m *transformer) layer(t *autograd.Tape, l transformerLayer, x *autograd.Var) *autograd.Var {
	b, n, d := m.batch, m.length, m.width/m.heads
	h := t.RMSNorm(x, l.attentionNorm, 1e-6)
	q, k := t.RoPE(t.Reshape(t.Linear(h, l.q, nil), b, n, m.heads, d), t.Reshape(t.Linear(h, l.k, nil), b, n, m.heads/2, d), m.cos, m.sin)
	v := t.Reshape(t.Linear(h, l.v, nil), b, n, m.heads/2, d)
	y := t.Attention(q, k, v, nil, ops.AttentionArgs{Layout: ops.BSND, Mask: mask.Causal{}, Scale: 0.35})
	x, h = t.AddRMSNorm(x, t.Dropout(t.Linear(t.Reshape(y, b*n, m.width), l.o, nil), 0.1), l.mlpNorm, 1e-6)
	return t.Add(x, t.Linear(t.SwiGLU(t.Linear(h, l.gateUp, nil)), l.down, nil))
}

// loss is the forward pass; around runs each layer.
func (m *transformer) loss(t *autograd.Tape, around func(t *autograd.Tape, name string, body func() *autograd.Var) *autograd.Var) *autograd.Var {
	x := t.Embedding(m.embedding, t.Input(m.ids))
	for _, l := range m.layers {
		before := x
		x = around(t, "layer", func() *autograd.Var { return m.layer(t, l, before) })
		t.Free(before)
	}
	return t.Block("head", func() *autograd.Var {
		return t.CrossEntropy(t.Linear(t.RMSNorm(x, m.final, 1e-6), m.head, nil), t.Input(m.labels), -100)
	})
}

func (m *transformer) gradients() (all [][]float32) {
	for _, w := range m.p.weights {
		all = append(all, m.p.b.Read(w.v.Grad))
	}
	return all
}

// peak runs f and returns the most memory that was in use beyond what was before.
func (m *transformer) peak(f func()) int {
	t, dev := m.p.b.T, m.p.b.Stream.Device()
	require.NoError(t, m.p.b.Stream.Synchronize(t.Context()))
	before := dev.Allocator().Stats().InUse
	dev.Allocator().ResetPeaks()
	f()
	require.NoError(t, m.p.b.Stream.Synchronize(t.Context()))
	require.Equal(t, before, dev.Allocator().Stats().InUse, "something was not freed")
	return dev.Allocator().Stats().PeakInUse - before
}

func (m *transformer) step(o autograd.Options, around func(*autograd.Tape, string, func() *autograd.Var) *autograd.Var) func() {
	return func() {
		t := m.p.b.T
		tape := autograd.New(t.Context(), m.p.b.Stream, m.p.b.Registry, o)
		loss := m.loss(tape, around)
		if !o.NoGrad {
			require.NoError(t, tape.Backward(loss))
		}
		require.NoError(t, tape.Close())
	}
}

// TestMemory: a training step needs hardly more memory than its forward pass; recomputed layers keep their inputs only; without gradients
// one layer is alive at a time. The gradients have the same bits with and without recomputing.
func TestMemory(t *testing.T) {
	const layers = 12
	m := newTransformer(t, layers, 64)
	block, checkpoint := (*autograd.Tape).Block, (*autograd.Tape).Checkpoint
	m.step(autograd.Options{}, block)() // the registry makes the causal mask, which it keeps
	forward := m.peak(func() {
		tape := autograd.New(t.Context(), m.p.b.Stream, m.p.b.Registry, autograd.Options{})
		m.loss(tape, block)
		require.NoError(t, tape.Close())
	})
	plain := m.peak(m.step(autograd.Options{}, block))
	want := m.gradients()
	recomputed := m.peak(m.step(autograd.Options{}, checkpoint))
	assert.Equal(t, want, m.gradients(), "gradients of recomputed layers")
	evaluated := m.peak(m.step(autograd.Options{NoGrad: true}, block))
	one := newTransformer(t, 1, 64)
	one.step(autograd.Options{}, block)()
	layer := one.peak(one.step(autograd.Options{NoGrad: true}, block))
	t.Logf("forward pass %d, step %d, recomputed %d, evaluation %d, of one layer %d", forward, plain, recomputed, evaluated, layer)
	assert.LessOrEqual(t, plain, forward*110/100)
	assert.LessOrEqual(t, recomputed, plain*30/100)
	assert.LessOrEqual(t, evaluated, layer*110/100)
}

// TestOffload: what checkpoints read lies in host memory between the passes, the gradients keep their bits, and the host memory is used again.
func TestOffload(t *testing.T) {
	m := newTransformer(t, 12, 64)
	m.step(autograd.Options{}, (*autograd.Tape).Checkpoint)()
	want := m.gradients()
	recomputed := m.peak(m.step(autograd.Options{}, (*autograd.Tape).Checkpoint))
	o, err := autograd.NewOffload(m.p.b.Stream.Device(), 1<<10)
	require.NoError(t, err)
	step := m.step(autograd.Options{Offload: o}, (*autograd.Tape).Checkpoint)
	var offloaded int
	for range 3 {
		offloaded = m.peak(step)
		assert.Equal(t, want, m.gradients())
	}
	const input = 2 * 64 * 32 * 4
	t.Logf("recomputed %d, offloaded %d, on the host %d", recomputed, offloaded, o.HostBytes())
	assert.LessOrEqual(t, o.HostBytes(), 13*input)
	assert.LessOrEqual(t, offloaded, recomputed-8*input, "the inputs of the layers are on the device")

	// A failure on the way leaves nothing behind.
	tape := autograd.New(t.Context(), m.p.b.Stream, m.p.b.Registry, autograd.Options{Offload: o})
	loss := m.loss(tape, (*autograd.Tape).Checkpoint)
	tape.Fail(acl.ErrBusy)
	require.ErrorIs(t, tape.Backward(loss), acl.ErrBusy)
	require.ErrorIs(t, tape.Close(), acl.ErrBusy)
	m.peak(step)
	assert.Equal(t, want, m.gradients())
	assert.LessOrEqual(t, o.HostBytes(), 13*input)
	require.NoError(t, o.Close())
}

// TestLaunches: a step on the tape launches what direct calls of the operators launch.
func TestLaunches(t *testing.T) {
	m := newTransformer(t, 1, 8)
	var names []string
	stop, err := m.p.b.Stream.Device().Runtime().Observe(func(c acl.Call) {
		if c.Kind == acl.CallLaunch {
			names = append(names, c.Name)
		}
	})
	require.NoError(t, err)
	tape := autograd.New(t.Context(), m.p.b.Stream, m.p.b.Registry, autograd.Options{})
	l, x, head := m.layers[0], m.embedding, m.head
	loss := tape.CrossEntropy(tape.Linear(tape.RMSNorm(x, l.mlpNorm, 1e-6), head, nil), tape.Input(opstest.Data(m.p.b, aclnn.Int32, make([]int32, 11), 11)), -100)
	require.NoError(t, tape.Backward(loss))
	require.NoError(t, tape.Close())
	onTape := slices.Clone(names)
	names = nil

	b, reg, ctx, st := m.p.b, m.p.b.Registry, t.Context(), m.p.b.Stream
	like := func(x *aclnn.Tensor) *aclnn.Tensor { return b.Empty(x.DType(), x.Shape()...) }
	norm := ops.RMSNormArgs{X: x.Value, Weight: l.mlpNorm.Value, Epsilon: 1e-6, Out: like(x.Value), RStd: b.Empty(aclnn.Float32, 11, 1)}
	require.NoError(t, reg.RMSNorm().Run(ctx, st, &norm))
	logits := b.Empty(aclnn.Float32, 11, 11)
	require.NoError(t, reg.Linear().Run(ctx, st, &ops.LinearArgs{X: norm.Out, Weight: head.Value, Out: logits}))
	ce := ops.CrossEntropyArgs{Logits: logits, Labels: opstest.Data(b, aclnn.Int32, make([]int32, 11), 11), Loss: b.Empty(aclnn.Float32, 1), LogProb: like(logits)}
	require.NoError(t, reg.CrossEntropy().Run(ctx, st, &ce))
	dLogits, dNormed, dx := like(logits), like(norm.Out), like(x.Value)
	require.NoError(t, reg.CrossEntropyGrad().Run(ctx, st, &ops.CrossEntropyGradArgs{CrossEntropyArgs: ce, DLogits: dLogits}))
	require.NoError(t, reg.LinearGrad().Run(ctx, st, &ops.LinearGradArgs{DOut: dLogits, X: norm.Out, Weight: head.Value, DX: dNormed, DWeight: head.Grad}))
	want := b.Read(head.Grad)
	require.NoError(t, reg.RMSNormGrad().Run(ctx, st, &ops.RMSNormGradArgs{DOut: dNormed, X: x.Value, RStd: norm.RStd, Weight: l.mlpNorm.Value, DX: dx, DWeight: l.mlpNorm.Grad}))
	stop()
	direct := slices.DeleteFunc(names, func(s string) bool { return s == "aclnnInplaceCopy" })
	assert.Equal(t, direct, slices.DeleteFunc(onTape, func(s string) bool { return s == "aclnnInplaceCopy" }))
	assert.Equal(t, want, b.Read(head.Grad))
}

// TestAccumulate: micro-batches add up, and the first of the next step overwrites.
func TestAccumulate(t *testing.T) {
	m := newTransformer(t, 2, 8)
	step := func(accumulate bool) { m.step(autograd.Options{Accumulate: accumulate}, (*autograd.Tape).Block)() }
	step(false)
	once := m.gradients()
	step(true)
	step(false)
	assert.Equal(t, once, m.gradients())
	step(true)
	for i, g := range m.gradients() {
		for j := range g {
			require.InDelta(t, 2*once[i][j], g[j], 1e-5, "parameter %d", i)
		}
	}
}

// TestComplete: each parameter is announced once, when its gradient has its final value, those of the last layer first.
func TestComplete(t *testing.T) {
	for name, around := range map[string]func(*autograd.Tape, string, func() *autograd.Var) *autograd.Var{
		"kept": (*autograd.Tape).Block, "recomputed": (*autograd.Tape).Checkpoint,
	} {
		t.Run(name, func(t *testing.T) {
			m := newTransformer(t, 2, 8)
			m.step(autograd.Options{}, around)()
			want := m.gradients()
			var order []*autograd.Var
			m.step(autograd.Options{Complete: func(p *autograd.Var) error {
				at := slices.IndexFunc(m.p.weights, func(w *weight) bool { return w.v == p })
				assert.Equal(t, want[at], m.p.b.Read(p.Grad), "parameter %d", at)
				order = append(order, p)
				return nil
			}}, around)()
			assert.Len(t, order, len(m.p.weights))
			assert.Equal(t, m.head, order[0])
			assert.Less(t, slices.Index(order, m.layers[1].q), slices.Index(order, m.layers[0].down))
			assert.Equal(t, m.embedding, order[len(order)-1])
		})
	}
}

// TestFrozen: constants get no gradient, and nothing is computed for them.
func TestFrozen(t *testing.T) {
	m := newTransformer(t, 1, 8)
	m.step(autograd.Options{}, (*autograd.Tape).Block)()
	want := m.p.b.Read(m.layers[0].down.Grad)
	l := &m.layers[0]
	for _, v := range []**autograd.Var{&m.embedding, &m.head, &m.final, &l.attentionNorm, &l.q, &l.k, &l.v, &l.o, &l.mlpNorm, &l.gateUp} {
		*v = autograd.NewParameter((*v).Value, nil)
	}
	launches := 0
	stop, err := m.p.b.Stream.Device().Runtime().Observe(func(c acl.Call) {
		if c.Name == "aclnnFlashAttentionScoreGrad" || c.Name == "aclnnEmbeddingDenseBackward" {
			launches++
		}
	})
	require.NoError(t, err)
	defer stop()
	m.step(autograd.Options{}, (*autograd.Tape).Block)()
	assert.Equal(t, want, m.p.b.Read(m.layers[0].down.Grad))
	assert.Zero(t, launches)
}

// TestErrors: what cannot be meant is refused by name, and stays on the tape.
func TestErrors(t *testing.T) {
	b := opstest.New(t)
	p := &problem{b: b}
	x, w := p.param(3, 8), p.param(8)
	other := autograd.New(t.Context(), b.Stream, b.Registry, autograd.Options{})
	foreign := other.RMSNorm(x, w, 1e-6)
	loss := func(t *autograd.Tape) *autograd.Var { return t.Reshape(t.Narrow(t.RMSNorm(x, w, 1e-6), 0, 0, 1), 8) }
	for name, c := range map[string]struct {
		options autograd.Options
		run     func(t *autograd.Tape) error
		says    string
	}{
		"operator": {run: func(t *autograd.Tape) error {
			y := t.Block("layer 3", func() *autograd.Var { return t.Block("mlp", func() *autograd.Var { return t.Linear(x, w, nil) }) })
			t.Add(y, y)
			return t.Err()
		}, says: "layer 3: mlp: linear: "},
		"nil":     {run: func(t *autograd.Tape) error { t.Add(x, nil); return t.Err() }, says: "input 1 is nil"},
		"foreign": {run: func(t *autograd.Tape) error { t.Add(x, foreign); return t.Err() }, says: "another tape"},
		"freed": {run: func(t *autograd.Tape) error {
			var inner *autograd.Var
			t.Block("layer", func() *autograd.Var { inner = t.Scale(x, 2); return t.Scale(inner, 2) })
			t.Scale(inner, 3)
			return t.Err()
		}, says: "its block has ended"},
		"loss of several": {run: func(t *autograd.Tape) error { return t.Backward(loss(t)) }, says: "one element"},
		"leaf":            {run: func(t *autograd.Tape) error { return t.Backward(x) }, says: "no operator"},
		"constant":        {run: func(t *autograd.Tape) error { return t.Backward(t.Scale(t.Input(x.Value), 2)) }, says: "depends on no parameter"},
		"no grad":         {options: autograd.Options{NoGrad: true}, run: func(t *autograd.Tape) error { return t.Backward(loss(t)) }, says: "NoGrad"},
		"twice": {run: func(t *autograd.Tape) error {
			y := t.CrossEntropy(x, t.Input(opstest.Data(b, aclnn.Int32, []int32{1, 2, 3}, 3)), -100)
			return errors.Join(t.Backward(y), t.Backward(y))
		}, says: "backward pass is over"},
		"an output twice": {run: func(t *autograd.Tape) error {
			y := loss(t)
			return t.BackwardFrom(autograd.Output{Var: y, Factor: 1}, autograd.Output{Var: y, Factor: 2})
		}, says: "is there twice"},
		"derived from a result": {run: func(t *autograd.Tape) error {
			t.Derive(t.Scale(x, 2), func(_ *aclnn.Scope, v *aclnn.Tensor) *aclnn.Tensor { return v }, func(v *aclnn.Tensor) *aclnn.Tensor { return v })
			return t.Err()
		}, says: "only parameters"},
		"no gradient tensor": {run: func(t *autograd.Tape) error {
			v := autograd.NewOpenedParameter(true)
			v.Value = w.Value
			return t.BackwardFrom(autograd.Output{Var: t.RMSNorm(x, v, 1e-6), Factor: 1})
		}, says: "has no Grad now"},
		"tensors in arguments": {run: func(t *autograd.Tape) error {
			t.Attention(x, x, x, nil, ops.AttentionArgs{Query: x.Value})
			return t.Err()
		}, says: "are the tape's"},
		"no gradient": {run: func(t *autograd.Tape) error {
			t.Record("mine", []*autograd.Var{x}, func(c *autograd.Call) { c.Output(aclnn.Float32, 1) })
			return t.Err()
		}, says: "mine: "},
		"shapes": {run: func(t *autograd.Tape) error { t.Add(x, w); return t.Err() }, says: "one shape and dtype"},
		"bytes of a chunk": {run: func(t *autograd.Tape) error {
			t.LinearCrossEntropy(x, x, t.Input(w.Value), -100, autograd.LinearLoss{Bytes: -1})
			return t.Err()
		}, says: "Bytes is -1"},
		"probability": {run: func(t *autograd.Tape) error { t.Dropout(x, 1); return t.Err() }, says: "the probability is 1"},
		"the program's own": {run: func(t *autograd.Tape) error {
			t.Block("layer 1", func() *autograd.Var { t.Fail(acl.ErrBusy); return nil })
			return t.Err()
		}, says: "layer 1: "},
	} {
		t.Run(name, func(t *testing.T) {
			tape := autograd.New(t.Context(), b.Stream, b.Registry, c.options)
			err := c.run(tape)
			require.ErrorContains(t, err, c.says)
			var class bool
			for _, k := range []error{acl.ErrInvalidArgument, acl.ErrBusy} {
				class = class || errors.Is(err, k)
			}
			assert.True(t, class, "%v", err)
			assert.Equal(t, tape.Err(), tape.Close())
		})
	}
	require.NoError(t, other.Close())
	other.Scale(x, 2)
	require.ErrorIs(t, other.Err(), acl.ErrClosed)
	var none context.Context
	for _, t2 := range []*autograd.Tape{autograd.New(none, b.Stream, b.Registry, autograd.Options{}), autograd.New(t.Context(), nil, b.Registry, autograd.Options{}), autograd.New(t.Context(), b.Stream, nil, autograd.Options{})} {
		t2.Scale(x, 2)
		require.ErrorIs(t, t2.Close(), acl.ErrInvalidArgument)
	}
}

// TestRecord: an operator of the program's own.
func TestRecord(t *testing.T) {
	p := &problem{b: opstest.New(t)}
	x := p.param(3, 4)
	p.check(func(t *autograd.Tape) []*autograd.Var {
		return t.Record("square", []*autograd.Var{t.Scale(x, 2)}, func(c *autograd.Call) {
			in := c.Input(0)
			y := c.Output(aclnn.Float32, in.Shape()...)
			c.Do(func() error { return aclnn.Mul(t.Stream(), aclnn.MulParams{Self: in.Value, Other: in.Value, Out: y}) })
			c.Keep(in)
			c.Backward(func(g *autograd.Gradients) {
				g.Do(func() error {
					return aclnn.Mul(t.Stream(), aclnn.MulParams{Self: g.Output(0), Other: in.Value, Out: g.Input(0)})
				})
				g.Do(func() error {
					return aclnn.InplaceMuls(t.Stream(), aclnn.InplaceMulsParams{Self: g.Input(0), Other: aclnn.Float(2)})
				})
			})
		})
	})
}

// TestLinearCrossEntropy: it is the loss of the logits, with their gradients, and its memory does not depend on rows or classes.
func TestLinearCrossEntropy(t *testing.T) {
	for _, dt := range opstest.FloatTypes {
		t.Run(dt.String(), func(t *testing.T) {
			b := opstest.New(t)
			const rows, classes, width = 37, 53, 16
			x, _ := b.Input(dt, 1, rows, width)
			w, _ := b.Input(dt, 2, classes, width)
			ids := make([]int64, rows)
			for i := range ids {
				ids[i] = int64(i*i) % classes
				if i%5 == 0 || i > 30 {
					ids[i] = -1
				}
			}
			labels := opstest.Data(b, aclnn.Int64, ids, rows)
			run := func(loss func(t *autograd.Tape, x, w, labels *autograd.Var) *autograd.Var) (value, dx, dw []float32) {
				vx, vw := autograd.NewParameter(x, b.Empty(dt, rows, width)), autograd.NewParameter(w, b.Empty(aclnn.Float32, classes, width))
				tape := autograd.New(t.Context(), b.Stream, b.Registry, autograd.Options{})
				l := loss(tape, vx, vw, tape.Input(labels))
				require.NoError(t, tape.Err())
				value = b.Read(l.Value)
				require.NoError(t, tape.Backward(l))
				require.NoError(t, tape.Close())
				return value, b.Read(vx.Grad), b.Read(vw.Grad)
			}
			value, dx, dw := run(func(t *autograd.Tape, x, w, labels *autograd.Var) *autograd.Var {
				return t.CrossEntropy(t.Linear(x, w, nil), labels, -1)
			})
			for _, bytes := range []int64{0, 1, 10 * classes * int64(dt.Size())} {
				gotValue, gotDX, gotDW := run(func(t *autograd.Tape, x, w, labels *autograd.Var) *autograd.Var {
					return t.LinearCrossEntropy(x, w, labels, -1, autograd.LinearLoss{Bytes: bytes})
				})
				limit := opstest.Tolerance(dt)
				assert.InDeltaSlice(t, value, gotValue, 1e-5)
				assert.InDeltaSlice(t, dx, gotDX, limit)
				assert.InDeltaSlice(t, dw, gotDW, limit)
			}
		})
	}
	m := newTransformer(t, 1, 8)
	b := m.p.b
	broken := autograd.NewParameter(b.Floats(aclnn.Float32, []float32{1, 2, float32(math.NaN()), 4}, 4, 1), b.Empty(aclnn.Float32, 4, 1))
	tape := autograd.New(t.Context(), b.Stream, b.Registry, autograd.Options{})
	loss := tape.LinearCrossEntropy(broken, autograd.NewParameter(b.Floats(aclnn.Float32, []float32{1, 2}, 2, 1), nil), tape.Input(opstest.Data(b, aclnn.Int32, []int32{0, 1, 1, -1}, 4)), -1, autograd.LinearLoss{Bytes: 8})
	assert.True(t, math.IsNaN(float64(b.Read(loss.Value)[0])), "a number that is none is hidden")
	require.NoError(t, tape.Close())
	peak := func(rows, classes int64) int {
		x, w := autograd.NewParameter(b.Empty(aclnn.Float32, rows, 8), b.Empty(aclnn.Float32, rows, 8)), autograd.NewParameter(b.Empty(aclnn.Float32, classes, 8), b.Empty(aclnn.Float32, classes, 8))
		labels := opstest.Data(b, aclnn.Int32, make([]int32, rows), rows)
		return m.peak(func() {
			tape := autograd.New(t.Context(), b.Stream, b.Registry, autograd.Options{})
			require.NoError(t, tape.Backward(tape.LinearCrossEntropy(x, w, tape.Input(labels), -100, autograd.LinearLoss{Bytes: 1 << 18})))
			require.NoError(t, tape.Close())
		})
	}
	few, many, wide := peak(64, 1<<12), peak(512, 1<<12), peak(64, 1<<15)
	t.Logf("64 rows of 4096 classes %d, 512 rows %d, 32768 classes %d", few, many, wide)
	assert.LessOrEqual(t, many, few*110/100)
	assert.LessOrEqual(t, wide, few*110/100)
}

// TestGraph: a step is captured and replayed.
func TestGraph(t *testing.T) {
	m := newTransformer(t, 2, 8)
	step := m.step(autograd.Options{}, (*autograd.Tape).Checkpoint)
	step()
	want := m.gradients()
	g, err := m.p.b.Stream.Capture(t.Context(), acl.CaptureThreadLocal, func() error { step(); return nil })
	require.NoError(t, err)
	for _, w := range m.p.weights {
		require.NoError(t, aclnn.InplaceZero(m.p.b.Stream, aclnn.InplaceZeroParams{Self: w.v.Grad}))
	}
	require.NoError(t, g.Replay(m.p.b.Stream))
	assert.Equal(t, want, m.gradients())
	require.NoError(t, g.Close())
}

// TestDeferWeights: the gradients of weights that are computed later, after the backward passes of other micro-batches, equal those of one backward pass, bit by
// bit, also of layers that are recomputed. Until then the gradient of a weight stays as it was.
func TestDeferWeights(t *testing.T) {
	m := newTransformer(t, 2, 8)
	b := m.p.b
	blocks := func(t *autograd.Tape, name string, body func() *autograd.Var) *autograd.Var {
		return t.Block(name, body)
	}
	checkpoints := func(t *autograd.Tape, name string, body func() *autograd.Var) *autograd.Var {
		return t.Checkpoint(name, body)
	}
	for name, around := range map[string]func(t *autograd.Tape, name string, body func() *autograd.Var) *autograd.Var{"blocks": blocks, "checkpoints": checkpoints} {
		t.Run(name, func(t *testing.T) {
			micro := func(i int, later bool) (*autograd.Tape, *autograd.Var) {
				tape := autograd.New(t.Context(), b.Stream, b.Registry, autograd.Options{Accumulate: i > 0, DeferWeights: later, Seed: int64(i)})
				return tape, m.loss(tape, around)
			}
			for i := range 3 {
				tape, loss := micro(i, false)
				require.NoError(t, tape.Backward(loss))
				require.NoError(t, tape.Close())
			}
			want := m.gradients()
			require.NoError(t, aclnn.InplaceFillScalar(b.Stream, aclnn.InplaceFillScalarParams{Self: m.head.Grad, Value: aclnn.Float(7)}))
			var tapes []*autograd.Tape
			for i := range 3 { // norms are not deferred, so the first passes are in order
				tape, loss := micro(i, true)
				require.NoError(t, tape.Backward(loss))
				tapes = append(tapes, tape)
			}
			assert.Equal(t, slices.Repeat([]float32{7}, int(m.head.Grad.Len())), b.Read(m.head.Grad))
			for _, tape := range tapes {
				require.NoError(t, tape.BackwardWeights())
				require.NoError(t, tape.Close())
			}
			assert.Equal(t, want, m.gradients())

			tape, loss := micro(0, true)
			require.NoError(t, tape.Backward(loss))
			require.ErrorContains(t, tape.Close(), "BackwardWeights has not run")
			tape, loss = micro(0, false)
			require.NoError(t, tape.Backward(loss))
			require.ErrorIs(t, tape.BackwardWeights(), acl.ErrInvalidArgument)
			require.Error(t, tape.Close())
		})
	}
}

package acl_test

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
)

// capture makes a graph that is closed with the test.
func capture(t testing.TB, st *acl.Stream, f func() error) *acl.Graph {
	t.Helper()
	g, err := st.Capture(background, acl.CaptureThreadLocal, f)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, g.Close()) })
	return g
}

// values reads a tensor of float32.
func values(t testing.TB, st *acl.Stream, x *aclnn.Tensor) []float32 {
	t.Helper()
	got := make([]float32, x.Len())
	require.NoError(t, aclnn.CopyFromDevice(background, st, got, x))
	return got
}

// chain computes out = (x + y) + (x + y)·…, with scratch tensors that it closes.
func chain(st *acl.Stream, steps int, x, y, out *aclnn.Tensor) error {
	from := x
	for range steps {
		to, err := aclnn.New(st, aclnn.Float32, x.Shape()...)
		if err != nil {
			return err
		}
		if err := add(st, from, y, to); err != nil {
			return errors.Join(err, to.Close())
		}
		if from != x {
			if err := from.Close(); err != nil {
				return err
			}
		}
		from = to
	}
	return errors.Join(aclnn.Copy(st, out, from), from.Close())
}

func attentionGrad(st *acl.Stream, x, stats []*aclnn.Tensor) error {
	return errors.Join(aclnn.FlashAttentionScore(st, aclnn.FlashAttentionScoreParams{
		Query: x[0], Key: x[1], Value: x[2], ScaleValue: 0.3, KeepProb: 1, PreTokens: math.MaxInt32, NextTokens: math.MaxInt32,
		HeadNum: 2, InputLayout: "BSH", SoftmaxMaxOut: stats[0], SoftmaxSumOut: stats[1], AttentionOut: x[3],
	}), aclnn.FlashAttentionScoreGrad(st, aclnn.FlashAttentionScoreGradParams{
		Query: x[0], KeyIn: x[1], Value: x[2], Dy: x[4], SoftmaxMax: stats[0], SoftmaxSum: stats[1],
		AttentionIn: x[3], ScaleValue: 0.3, KeepProb: 1, PreTokens: math.MaxInt32, NextTokens: math.MaxInt32,
		HeadNum: 2, InputLayout: "BSH", DqOut: x[5], DkOut: x[6], DvOut: x[7],
	}))
}

// TestGraphReplaysAreEqual: replays give the bits of the same calls made one by one, also when
// other work uses the stream, its workspace and the cache of memory between them.
func TestGraphReplaysAreEqual(t *testing.T) {
	const sequence = 64
	st := openStream(t)
	x, stats := tensors(t, st, 8, 1, sequence, 16), tensors(t, st, 2, 1, 2, sequence, 8)
	host := hostBuffer(t, st.Device(), x[4].Bytes())
	step := func() error {
		return errors.Join(st.Copy(x[4].Buffer(), host, x[4].Bytes()), attentionGrad(st, x, stats), chain(st, 5, x[5], x[6], x[7]))
	}
	in := acl.Slice[float32](host)
	fill := func(i int) {
		for j := range in {
			in[j] = float32(math.Sin(float64(i*31 + j)))
		}
	}
	fill(0)
	require.NoError(t, step())
	g := capture(t, st, step)
	assert.Positive(t, g.Memory().Workspace)
	replays := 1000
	if testing.Short() {
		replays = 50
	}
	other := acltest.Stream(t, st.Device())
	for i := range replays {
		fill(i % 7)
		require.NoError(t, step())
		want := values(t, st, x[7])
		if i%100 == 3 { // the workspace of the stream grows, and the cache is given back
			attend(t, st, 128+int64(i))
			require.NoError(t, st.Device().Allocator().EmptyCache(background))
		}
		on := st
		if i%3 == 0 {
			on = other
		}
		require.NoError(t, st.Synchronize(background))
		require.NoError(t, g.Replay(on))
		require.Equal(t, want, values(t, on, x[7]), "replay %d", i)
	}
}

// TestCaptureRunsNothing: what is captured runs at the replay, with what memory then holds.
func TestCaptureRunsNothing(t *testing.T) {
	st := openStream(t)
	x := tensors(t, st, 3, 5)
	before := values(t, st, x[2])
	g := capture(t, st, func() error {
		assert.True(t, st.Capturing())
		return add(st, x[0], x[1], x[2])
	})
	assert.False(t, st.Capturing())
	assert.Equal(t, 1, acl.Live()[acl.KindGraph])
	assert.Equal(t, st.Device(), g.Device())
	assert.NotZero(t, g.Handle())
	assert.Equal(t, acl.GraphMemory{Buffers: 3 * 5 * 4}, g.Memory())
	require.Equal(t, before, values(t, st, x[2]))
	require.NoError(t, aclnn.CopyToDevice(background, st, x[0], []float32{1, 2, 3, 4, 5}))
	require.NoError(t, aclnn.CopyToDevice(background, st, x[1], []float32{1, 1, 1, 1, 1}))
	require.NoError(t, g.Replay(st))
	require.Equal(t, []float32{2, 3, 4, 5, 6}, values(t, st, x[2]))
	assert.Contains(t, st.Recent(), "aclmdlRIExecuteAsync")
}

// TestCaptureRefuses: what a graph cannot contain is refused with a reason, and the capture goes on.
func TestCaptureRefuses(t *testing.T) {
	st := openStream(t)
	dev := st.Device()
	x := tensors(t, st, 3, 5)
	host := hostBuffer(t, dev, 64)
	arena, err := st.NewArena(1 << 10)
	require.NoError(t, err)
	defer func() { require.NoError(t, arena.Close()) }()
	carved, err := arena.Malloc(64)
	require.NoError(t, err)
	prepared, err := aclnn.Prepare(st, &aclnn.AddParams{Self: x[0], Other: x[1], Alpha: aclnn.Float(1), Out: x[2]})
	require.NoError(t, err)
	defer func() { require.NoError(t, prepared.Close()) }()
	empty := capture(t, st, func() error { return add(st, x[0], x[1], x[2]) })
	g, err := st.Capture(background, acl.CaptureThreadLocal, func() error {
		ev, err := st.Record()
		require.NoError(t, err)
		defer func() { require.NoError(t, ev.Close()) }()
		require.NoError(t, st.Memset(carved, 1, 64))
		for name, call := range map[string]func() error{
			"synchronize":        func() error { return st.Synchronize(background) },
			"query":              func() error { _, err := st.Query(); return err },
			"close":              st.Close,
			"device synchronize": func() error { return dev.Synchronize(background) },
			"empty cache":        func() error { return dev.Allocator().EmptyCache(background) },
			"event query":        func() error { _, err := ev.Query(); return err },
			"event synchronize":  func() error { return ev.Synchronize(background) },
			"to the device":      func() error { return aclnn.CopyToDevice(background, st, x[0], make([]float32, 5)) },
			"from the device":    func() error { return aclnn.CopyFromDevice(background, st, make([]float32, 5), x[0]) },
			"copy now":           func() error { return dev.Copy(background, x[0].Buffer(), host, 20) },
			"memset now":         func() error { return dev.Memset(background, x[0].Buffer(), 0, 20) },
			"host function":      func() error { return st.HostFunc(func() {}) },
			"executor":           prepared.Run,
			"arena":              func() error { _, err := arena.Malloc(8); return err },
			"arena reset":        arena.Reset,
			"new arena":          func() error { _, err := st.NewArena(64); return err },
			"another capture": func() error {
				_, err := st.Capture(background, acl.CaptureRelaxed, func() error { return nil })
				return err
			},
			"a replay": func() error { return empty.Replay(st) },
		} {
			assert.ErrorIs(t, call(), acl.ErrCapture, name)
		}
		return add(st, x[0], x[1], x[2])
	})
	require.NoError(t, err)
	require.NoError(t, g.Replay(st))
	require.NoError(t, arena.Reset())
	require.ErrorIs(t, g.Replay(st), acl.ErrClosed, "the arena gives the memory to others")
	require.NoError(t, g.Close())

	fallback, err := dev.DefaultStream()
	require.NoError(t, err)
	_, err = fallback.Capture(background, acl.CaptureRelaxed, func() error { return nil })
	require.ErrorIs(t, err, acl.ErrInvalidArgument)
	_, err = st.Capture(background, 9, func() error { return nil })
	requireError(t, err, acl.ErrInvalidArgument, 107000)
	require.NoError(t, st.Synchronize(background), "the stream still works")
}

// TestCaptureThatFails leaves no graph, and a stream that works.
func TestCaptureThatFails(t *testing.T) {
	st := openStream(t)
	other := acltest.Stream(t, st.Device())
	x := tensors(t, st, 3, 5)
	failure := errors.New("no")
	for name, c := range map[string]struct {
		f    func() error
		want error
	}{
		"the function fails": {func() error { return errors.Join(add(st, x[0], x[1], x[2]), failure) }, failure},
		"a stream does not come back": {func() error {
			ev, err := st.Record()
			return errors.Join(err, other.Wait(ev), add(other, x[0], x[1], x[2]), ev.Close())
		}, acl.ErrCapture},
		"aborted": {st.Abort, acl.ErrCapture},
	} {
		t.Run(name, func(t *testing.T) {
			g, err := st.Capture(background, acl.CaptureThreadLocal, c.f)
			require.ErrorIs(t, err, c.want)
			require.Nil(t, g)
			require.False(t, st.Capturing())
			require.False(t, other.Capturing())
			require.NoError(t, add(st, x[0], x[1], x[2]))
			require.NoError(t, st.Synchronize(background))
			require.NoError(t, other.Synchronize(background))
		})
	}
	require.Panics(t, func() { _, _ = st.Capture(background, acl.CaptureThreadLocal, func() error { panic("no") }) })
	require.NoError(t, st.Synchronize(background))
	require.Zero(t, acl.Live()[acl.KindGraph])

	release := hold(t, st)
	ctx, cancel := context.WithCancel(background)
	cancel()
	_, err := st.Capture(ctx, acl.CaptureThreadLocal, func() error { return nil })
	require.ErrorIs(t, err, context.Canceled)
	release()
}

// TestGraphKeepsItsMemory: memory that a graph uses is given to no other work while the graph
// exists, and a graph is not replayed on memory that its program has closed.
func TestGraphKeepsItsMemory(t *testing.T) {
	st := openStream(t)
	dev := st.Device()
	y := tensors(t, st, 2, 1000)
	x, err := aclnn.New(st, aclnn.Float32, 1000)
	require.NoError(t, err)
	require.NoError(t, aclnn.Copy(st, x, y[1]))
	direct, err := dev.MallocDirect(4000, acl.HugeFirst)
	require.NoError(t, err)
	var out *aclnn.Tensor
	g := capture(t, st, func() (err error) {
		if out, err = aclnn.New(st, aclnn.Float32, 1000); err != nil {
			return err
		}
		return errors.Join(chain(st, 9, x, y[0], out), st.Copy(direct, out.Buffer(), 4000))
	})
	m := g.Memory()
	assert.Equal(t, 4*4000, m.Buffers)
	assert.Less(t, m.Scratch, 4<<20, "scratch tensors share memory")
	stats := dev.Allocator().Stats()
	assert.Equal(t, m.Scratch, stats.Kept)
	require.NoError(t, g.Replay(st))
	want := values(t, st, out)

	// Others get none of the scratch memory, whatever is given back.
	require.NoError(t, dev.Allocator().EmptyCache(background))
	var taken []*acl.Buffer
	for range 200 {
		b, err := st.Malloc(4000)
		require.NoError(t, err)
		require.NoError(t, st.Memset(b, 0xff, 4000))
		taken = append(taken, b)
	}
	require.NoError(t, g.Replay(st))
	require.Equal(t, want, values(t, st, out))
	for _, b := range taken {
		host := make([]byte, 4000)
		require.NoError(t, acl.CopyFromDevice(background, st, host, b))
		require.NotContains(t, host, byte(0), "the graph wrote to memory of others")
		require.NoError(t, b.Close())
	}

	used := stats.InUse
	require.NoError(t, x.Close())
	require.NoError(t, out.Close())
	require.NoError(t, direct.Close())
	assert.Equal(t, used, dev.Allocator().Stats().InUse, "the graph holds what was closed")
	err = g.Replay(st)
	require.ErrorIs(t, err, acl.ErrClosed)
	assert.ErrorContains(t, err, "12000 bytes")
	require.NoError(t, g.Close())
	after := dev.Allocator().Stats()
	assert.Less(t, after.InUse, used)
	assert.Zero(t, after.Kept)
	require.ErrorIs(t, g.Replay(st), acl.ErrClosed)
}

// TestGraphOfSeveralStreams: streams that join by events have memory and a workspace of their own.
func TestGraphOfSeveralStreams(t *testing.T) {
	st := openStream(t)
	side := acltest.Stream(t, st.Device())
	x := tensors(t, st, 4, 3000)
	step := func() error {
		fork, err := st.Record()
		if err != nil {
			return err
		}
		if err := errors.Join(side.Wait(fork), chain(side, 4, x[0], x[1], x[2]), chain(st, 4, x[1], x[0], x[3])); err != nil {
			return err
		}
		join, err := side.Record()
		if err != nil {
			return err
		}
		return errors.Join(st.Wait(join), add(st, x[2], x[3], x[3]), fork.Close(), join.Close())
	}
	require.NoError(t, step())
	want := values(t, st, x[3])
	g := capture(t, st, func() error {
		err := step()
		assert.True(t, side.Capturing())
		return err
	})
	assert.False(t, side.Capturing())
	for range 20 {
		require.NoError(t, st.Memset(x[3].Buffer(), 0, x[3].Bytes()))
		require.NoError(t, g.Replay(st))
		require.Equal(t, want, values(t, st, x[3]))
	}
}

// closeUsed lets another goroutine close buffers of a stream that a second one has used, and so marks the end of that use.
func closeUsed(t testing.TB, of, user *acl.Stream) (closed <-chan error) {
	t.Helper()
	var used []*acl.Buffer
	for range 500 {
		b, err := of.Malloc(64)
		require.NoError(t, err)
		require.NoError(t, user.Memset(b, 0, 64))
		used = append(used, b)
	}
	done := make(chan error)
	go func() {
		var errs []error
		for _, b := range used {
			errs = append(errs, b.Close())
		}
		done <- errors.Join(errs...)
	}()
	return done
}

// TestMarksWhileStreamJoins: what the stream has used before is closed by another goroutine, which marks the end of
// that use. The mark is no part of the capture that the stream joins.
func TestMarksWhileStreamJoins(t *testing.T) {
	st := openStream(t)
	side, other := acltest.Stream(t, st.Device()), acltest.Stream(t, st.Device())
	x := tensors(t, st, 3, 5)
	for range 20 {
		closed := closeUsed(t, other, side)
		for range 50 {
			g, err := st.Capture(background, acl.CaptureThreadLocal, func() error {
				fork, err := st.Record()
				if err != nil {
					return err
				}
				if err := errors.Join(side.Wait(fork), add(side, x[0], x[1], x[2])); err != nil {
					return err
				}
				join, err := side.Record()
				if err != nil {
					return err
				}
				return errors.Join(st.Wait(join), fork.Close(), join.Close())
			})
			require.NoError(t, err)
			require.NoError(t, g.Close())
		}
		require.NoError(t, <-closed)
	}
	for range 2 { // marks are set when they are first asked after a capture, and have passed the second time
		require.NoError(t, side.Synchronize(background))
		malloc(t, other, 16<<20) // no block is free, so that the cache asks them
	}
	require.Zero(t, st.Device().Allocator().Stats().Waiting)
}

// TestMemoryFreedDuringCapture: memory that the stream used before waits for the end of the
// capture, which could not be asked.
func TestMemoryFreedDuringCapture(t *testing.T) {
	st := openStream(t)
	dev := st.Device()
	x := tensors(t, st, 3, 5)
	b, err := dev.Malloc(1 << 20)
	require.NoError(t, err)
	require.NoError(t, st.Memset(b, 1, 1<<20))
	capture(t, st, func() error {
		require.NoError(t, b.Close())
		assert.Positive(t, dev.Allocator().Stats().Waiting)
		c, err := dev.Malloc(1 << 20)
		require.NoError(t, err)
		assert.NotEqual(t, b.Address(), c.Address())
		return errors.Join(c.Close(), add(st, x[0], x[1], x[2]))
	})
	require.NoError(t, st.Synchronize(background))
	require.NoError(t, dev.Allocator().EmptyCache(background))
	assert.Zero(t, dev.Allocator().Stats().Waiting)
}

// TestGraphClose waits for the replays, but only as long as it may.
func TestGraphClose(t *testing.T) {
	st := openStream(t)
	x := tensors(t, st, 3, 5)
	g, err := st.Capture(background, acl.CaptureThreadLocal, func() error { return add(st, x[0], x[1], x[2]) })
	require.NoError(t, err)
	release := hold(t, st)
	require.NoError(t, g.Replay(st))
	ctx, cancel := context.WithCancel(background)
	cancel()
	require.ErrorIs(t, g.CloseContext(ctx), context.Canceled)
	require.Equal(t, 1, acl.Live()[acl.KindGraph])
	release()
	require.NoError(t, g.Close())
	require.NoError(t, g.Close())
	require.Zero(t, acl.Live()[acl.KindGraph])

	far := acltest.Stream(t, acltest.Device(t, acltest.Open(t), 1))
	g = capture(t, st, func() error { return add(st, x[0], x[1], x[2]) })
	require.ErrorIs(t, g.Replay(far), acl.ErrWrongDevice)
}

// TestGraphHasItsOwnWorkspace: a replay on one stream and the same operators on another share no
// memory but what they read, which the sanitizer would report.
func TestGraphHasItsOwnWorkspace(t *testing.T) {
	acltest.Rerun(t, func(t *testing.T) {
		const sequence = 64
		st := openStream(t)
		side := acltest.Stream(t, st.Device())
		x, stats := tensors(t, st, 8, 1, sequence, 16), tensors(t, st, 2, 1, 2, sequence, 8)
		y, others := tensors(t, side, 8, 1, sequence, 16), tensors(t, side, 2, 1, 2, sequence, 8)
		require.NoError(t, side.Synchronize(background))
		require.NoError(t, attentionGrad(st, x, stats))
		want := values(t, st, x[5])
		g := capture(t, st, func() error { return attentionGrad(st, x, stats) })
		for range 10 {
			require.NoError(t, g.Replay(side))
			require.NoError(t, attentionGrad(st, y, others))
			require.NoError(t, errors.Join(side.Synchronize(background), st.Synchronize(background)))
			require.Equal(t, want, values(t, st, x[5]))
			require.Equal(t, want, values(t, st, y[5]))
		}
	}, "CANN_EMU_SANITIZE=race,memory")
}

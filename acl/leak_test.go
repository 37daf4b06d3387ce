package acl_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap/exp/zapslog"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
)

// observed opens a runtime with a logger that the test looks at, for as long as the test runs.
func observed(t *testing.T, cfg acl.Config) (*acl.Runtime, *observer.ObservedLogs) {
	t.Helper()
	acltest.Need(t)
	core, logs := observer.New(zapcore.WarnLevel)
	rt, err := acl.Open(cfg, acl.WithLogger(slog.New(zapslog.NewHandler(core))))
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, rt.Close())
		acl.WithLogger(nil)()
	})
	return rt, logs
}

// collect runs the garbage collector until something has happened.
func collect(t *testing.T, happened func() bool, what string) {
	t.Helper()
	require.Eventually(t, func() bool { runtime.GC(); return happened() }, time.Minute, time.Millisecond, what)
}

// forget makes an object and drops it.
//
//go:noinline
func forget[T any](t *testing.T, make func() (T, error), use ...func(T)) {
	t.Helper()
	x, err := make()
	require.NoError(t, err)
	for _, f := range use {
		f(x)
	}
}

// TestLeaksAreReported: an object that is forgotten is reported with its kind, its size and the
// stack that made it, and stays counted.
func TestLeaksAreReported(t *testing.T) {
	rt, logs := observed(t, acl.Config{LeakStacks: true})
	dev := acltest.Device(t, rt, 0)
	st := acltest.Stream(t, dev)
	before := acl.Live()
	closed, err := st.Record()
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	arena, err := st.NewArena(1 << 10)
	require.NoError(t, err)
	require.NoError(t, arena.Close())
	for _, leaked := range []struct {
		kind   acl.Kind
		bytes  any
		forget func()
	}{
		{acl.KindEvent, nil, func() { forget(t, func() (*acl.Event, error) { return st.Record() }) }},
		{acl.KindBuffer, uint64(100), func() { forget(t, func() (*acl.Buffer, error) { return st.Malloc(100) }) }},
		{acl.KindBuffer, uint64(24), func() {
			forget(t, func() (*aclnn.Tensor, error) { return aclnn.New(st, aclnn.Float32, 6) })
		}},
		{acl.KindHostBuffer, uint64(50), func() { forget(t, func() (*acl.HostBuffer, error) { return dev.MallocHost(50) }) }},
		{acl.KindArena, uint64(600), func() { forget(t, func() (*acl.Arena, error) { return st.NewArena(600) }) }},
		{acl.KindGraph, nil, func() {
			forget(t, func() (*acl.Graph, error) {
				return st.Capture(background, acl.CaptureThreadLocal, func() error { return nil })
			})
		}},
		{acl.KindStream, nil, func() { forget(t, func() (*acl.Stream, error) { return dev.NewStream() }) }},
		{acl.KindContext, nil, func() { forget(t, dev.NewContext) }},
	} {
		t.Run(leaked.kind.String(), func(t *testing.T) {
			leaked.forget()
			collect(t, func() bool { return logs.Len() > 0 }, "the report")
			entries := logs.TakeAll()
			require.Len(t, entries, 1, "only what was not closed is reported")
			assert.Equal(t, zapcore.ErrorLevel, entries[0].Level)
			fields := entries[0].ContextMap()
			assert.Equal(t, leaked.kind.String(), fields["kind"])
			assert.Equal(t, leaked.bytes, fields["bytes"])
			assert.Equal(t, false, fields["released"])
			assert.Contains(t, fields["made"], "leak_test.go")
		})
	}
	runtime.GC()
	assert.Zero(t, logs.Len())
	after := acl.Live()
	for kind, n := range map[acl.Kind]int{acl.KindEvent: 1, acl.KindBuffer: 3, acl.KindHostBuffer: 1, acl.KindArena: 1, acl.KindGraph: 1, acl.KindStream: 1, acl.KindContext: 1} {
		assert.Equal(t, before[kind]+n, after[kind], "%v", kind)
		for range n {
			acl.ForgiveLeak(dev, kind)
		}
	}
}

// TestLeaksAreReleased: collected objects are released when the work that uses them has ended,
// and not before.
func TestLeaksAreReleased(t *testing.T) {
	rt, logs := observed(t, acl.Config{ReleaseLeaks: true})
	dev := acltest.Device(t, rt, 0)
	st, other := acltest.Stream(t, dev), acltest.Stream(t, dev)
	before := acl.Live()
	released := func() bool { return assert.ObjectsAreEqual(before, acl.Live()) }
	reported := func() bool { return logs.Len() > 0 }
	t.Run("buffer of the cache", func(t *testing.T) {
		waiting := func() int { return dev.Allocator().Stats().Waiting }
		already := waiting()
		release := hold(t, other)
		forget(t, func() (*acl.Buffer, error) { return st.Malloc(1 << 20) }, func(b *acl.Buffer) {
			require.NoError(t, other.Memset(b, 1, b.Size()))
		})
		collect(t, released, "the buffer is closed")
		assert.Equal(t, true, logs.TakeAll()[0].ContextMap()["released"])
		assert.GreaterOrEqual(t, waiting(), already+1<<20, "its memory waits for the stream")
		release()
		require.NoError(t, dev.Allocator().EmptyCache(background))
		assert.Equal(t, already, waiting())
	})
	t.Run("tensor", func(t *testing.T) {
		forget(t, func() (*aclnn.Tensor, error) { return aclnn.New(st, aclnn.Float32, 6) })
		collect(t, released, "the release")
		logs.TakeAll()
	})
	t.Run("event", func(t *testing.T) {
		forget(t, func() (*acl.Event, error) { return st.Record() })
		collect(t, released, "the release")
		logs.TakeAll()
	})
	t.Run("stream", func(t *testing.T) {
		var release func()
		forget(t, func() (*acl.Stream, error) { return dev.NewStream() }, func(s *acl.Stream) { release = hold(t, s) })
		collect(t, reported, "the report")
		logs.TakeAll()
		assert.False(t, released(), "work is queued")
		release()
		collect(t, released, "the release")
	})
	t.Run("stream with a fault", func(t *testing.T) {
		forget(t, func() (*acl.Stream, error) { return dev.NewStream() }, func(s *acl.Stream) {
			require.NoError(t, launchAtNothing(t, s))
		})
		collect(t, func() bool { return released() && logs.Len() == 2 }, "the release and its error")
		assert.Contains(t, logs.TakeAll()[1].ContextMap()["error"], "aclnnAdd")
	})
	t.Run("a view keeps it", func(t *testing.T) {
		var view *acl.Buffer
		forget(t, func() (*acl.Buffer, error) { return st.Malloc(64) }, func(b *acl.Buffer) {
			part, err := b.View(8, 16)
			require.NoError(t, err)
			view, err = part.View(0, 8)
			require.NoError(t, err)
		})
		for range 5 {
			runtime.GC()
		}
		require.NoError(t, st.Memset(view, 1, 8))
		assert.Zero(t, logs.Len())
		view = nil
		collect(t, released, "the release")
		logs.TakeAll()
	})
	for kind, stays := range map[acl.Kind]func(){
		acl.KindHostBuffer: func() { forget(t, func() (*acl.HostBuffer, error) { return dev.MallocHost(64) }) },
		acl.KindBuffer: func() {
			forget(t, func() (*acl.Buffer, error) { return dev.MallocDirect(64, acl.HugeFirst) })
		},
	} {
		t.Run(kind.String()+" that stays", func(t *testing.T) {
			stays()
			collect(t, reported, "the report")
			assert.Equal(t, false, logs.TakeAll()[0].ContextMap()["released"])
			assert.False(t, released())
			acl.ForgiveLeak(dev, kind)
		})
	}
}

// TestLaunchesKeepTheirTensors: with leaks released, an operator works on the tensors it was
// given although nothing but the launch leads to them.
func TestLaunchesKeepTheirTensors(t *testing.T) {
	rt, _ := observed(t, acl.Config{ReleaseLeaks: true})
	dev := acltest.Device(t, rt, 0)
	st := acltest.Stream(t, dev)
	stop, collected := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(collected)
		for {
			select {
			case <-stop:
				return
			default:
				runtime.GC()
			}
		}
	}()
	before := acl.Live()[acl.KindBuffer]
	out := tensors(t, st, 1, 64)[0]
	one := func(v float32) *aclnn.Tensor {
		x, err := aclnn.Full(st, aclnn.Float32, aclnn.Float(float64(v)), 64)
		require.NoError(t, err)
		return x
	}
	for i := range 300 {
		require.NoError(t, add(st, one(float32(i)), one(1), out))
		ex, err := aclnn.Prepare(st, &aclnn.AddParams{Self: out, Other: one(2), Alpha: aclnn.Float(1), Out: out})
		require.NoError(t, err)
		require.NoError(t, ex.Run())
		require.NoError(t, ex.Close())
		got := make([]float32, 64)
		require.NoError(t, aclnn.CopyFromDevice(background, st, got, out))
		for _, v := range got {
			require.EqualValues(t, i+3, v)
		}
	}
	close(stop)
	<-collected
	collect(t, func() bool { return acl.Live()[acl.KindBuffer] == before+1 }, "all but out are released")
}

type contextCloser interface {
	Close() error
	CloseContext(context.Context) error
}

// waitIdle waits for the stream's work without synchronising, which would report its failure.
func waitIdle(t testing.TB, st *acl.Stream) {
	t.Helper()
	for idle := false; !idle; {
		var err error
		idle, err = st.Query()
		require.NoError(t, err)
	}
}

// TestCloseContext: Close that waits ends with its context, and can be called again.
func TestCloseContext(t *testing.T) {
	rt := acltest.Open(t)
	dev := acltest.Device(t, rt, 0)
	for name, open := range map[string]func(t *testing.T) (c contextCloser, release func()){
		"stream": func(t *testing.T) (contextCloser, func()) {
			st, err := dev.NewStream()
			require.NoError(t, err)
			return st, hold(t, st)
		},
		"device buffer": func(t *testing.T) (contextCloser, func()) {
			b, err := dev.MallocDirect(64, acl.HugeFirst)
			require.NoError(t, err)
			st := acltest.Stream(t, dev)
			release := hold(t, st)
			require.NoError(t, st.Memset(b, 0, 64))
			return b, release
		},
		"host buffer": func(t *testing.T) (contextCloser, func()) {
			h, err := dev.MallocHost(64)
			require.NoError(t, err)
			st := acltest.Stream(t, dev)
			release := hold(t, st)
			require.NoError(t, st.Copy(malloc(t, dev, 64), h, 64))
			return h, release
		},
		"context": func(t *testing.T) (contextCloser, func()) {
			x, err := dev.NewContext()
			require.NoError(t, err)
			st, err := x.DefaultStream()
			require.NoError(t, err)
			return x, hold(t, st)
		},
		"device": func(t *testing.T) (contextCloser, func()) {
			d, err := rt.Device(1)
			require.NoError(t, err)
			st, err := d.DefaultStream()
			require.NoError(t, err)
			return d, hold(t, st)
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := acl.Live()
			c, release := open(t)
			for range 2 {
				ctx, cancel := context.WithTimeout(background, 20*time.Millisecond)
				err := c.CloseContext(ctx)
				cancel()
				require.ErrorIs(t, err, context.DeadlineExceeded)
				e := requireError(t, err, acl.ErrTimeout, 0)
				assert.Contains(t, e.Op, "CloseContext")
				require.NotEqual(t, before, acl.Live(), "it is still open")
			}
			release()
			ctx, cancel := context.WithTimeout(background, time.Minute)
			defer cancel()
			require.NoError(t, c.CloseContext(ctx))
			require.NoError(t, c.CloseContext(ctx))
			require.NoError(t, c.Close())
		})
	}
	for name, open := range map[string]func(t *testing.T, failing, held *acl.Stream) contextCloser{
		"device buffer": func(t *testing.T, failing, held *acl.Stream) contextCloser {
			b, err := dev.MallocDirect(64, acl.HugeFirst)
			require.NoError(t, err)
			require.NoError(t, errors.Join(failing.Memset(b, 0, 64), held.Memset(b, 0, 64)))
			return b
		},
		"graph": func(t *testing.T, failing, held *acl.Stream) contextCloser {
			x := tensors(t, failing, 3, 5)
			g, err := failing.Capture(background, acl.CaptureThreadLocal, func() error { return add(failing, x[0], x[1], x[2]) })
			require.NoError(t, err)
			require.NoError(t, errors.Join(g.Replay(failing), g.Replay(held)))
			return g
		},
	} {
		t.Run(name+" of work that failed", func(t *testing.T) {
			failing, held := acltest.Stream(t, dev), acltest.Stream(t, dev)
			release := hold(t, held)
			c := open(t, failing, held)
			require.NoError(t, launchAtNothing(t, failing))
			waitIdle(t, failing)
			ctx, cancel := context.WithCancel(background)
			cancel()
			err := c.CloseContext(ctx)
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, acl.ErrKernel, "CANN reports it once")
			release()
			require.NoError(t, c.Close())
		})
	}
	t.Run("device of work that failed", func(t *testing.T) {
		d, err := rt.Device(1)
		require.NoError(t, err)
		st, err := d.DefaultStream()
		require.NoError(t, err)
		require.NoError(t, launchAtNothing(t, st))
		waitIdle(t, st)
		ctx, cancel := context.WithCancel(background)
		cancel()
		require.ErrorIs(t, d.CloseContext(ctx), acl.ErrKernel)
		require.NoError(t, d.Close())
	})
	t.Run("two devices at once", func(t *testing.T) {
		devs := make([]*acl.Device, 2)
		for i := range devs {
			var err error
			devs[i], err = rt.Device(1)
			require.NoError(t, err)
		}
		st, err := devs[0].DefaultStream()
		require.NoError(t, err)
		release := hold(t, st)
		ctx, cancel := context.WithCancel(background)
		cancel()
		for range 20000 {
			var closing sync.WaitGroup
			begin, errs := make(chan struct{}), make([]error, len(devs))
			for i, d := range devs {
				closing.Go(func() {
					<-begin
					errs[i] = d.CloseContext(ctx)
				})
			}
			close(begin)
			late := time.AfterFunc(10*time.Second, release)
			closing.Wait()
			require.True(t, late.Stop(), "both have left the wait to the end")
			closed := slices.Index(errs, nil)
			require.GreaterOrEqual(t, closed, 0)
			require.ErrorIs(t, errs[1-closed], context.Canceled)
			devs[closed], err = rt.Device(1)
			require.NoError(t, err)
		}
		release()
		for _, d := range devs {
			require.NoError(t, d.CloseContext(t.Context()))
		}
	})
	t.Run("one device twice at once", func(t *testing.T) {
		kept, err := rt.Device(1)
		require.NoError(t, err)
		for range 50000 {
			d, err := rt.Device(1)
			require.NoError(t, err)
			var closing sync.WaitGroup
			begin := make(chan struct{})
			for range 2 {
				closing.Go(func() {
					<-begin
					assert.NoError(t, d.Close())
				})
			}
			close(begin)
			closing.Wait()
			require.NoError(t, kept.Synchronize(t.Context()), "the other handle keeps the device")
		}
		require.NoError(t, kept.Close())
	})
	t.Run("what does not wait", func(t *testing.T) {
		st := acltest.Stream(t, dev)
		release := hold(t, st)
		defer release()
		b, err := st.Malloc(64)
		require.NoError(t, err)
		require.NoError(t, st.Memset(b, 0, 64))
		ctx, cancel := context.WithCancel(background)
		cancel()
		require.NoError(t, b.CloseContext(ctx), "memory of the cache goes back when the work has ended")
	})
	t.Run("a fault comes back", func(t *testing.T) {
		st, err := dev.NewStream()
		require.NoError(t, err)
		require.NoError(t, launchAtNothing(t, st))
		ctx, cancel := context.WithTimeout(background, time.Minute)
		defer cancel()
		err = st.CloseContext(ctx)
		require.ErrorIs(t, err, acl.ErrKernel)
		require.Equal(t, 1, strings.Count(err.Error(), "most likely aclnnAdd"), "once: %v", err)
		require.NoError(t, st.Close())
	})
}

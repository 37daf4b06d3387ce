package acl_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
)

func TestStreamOptions(t *testing.T) {
	dev := acltest.Device(t, acltest.Open(t), 0)
	ids := make(map[int]bool)
	for name, options := range map[string][]acl.StreamOption{
		"plain":    nil,
		"fast":     {acl.StreamFast()},
		"priority": {acl.StreamPriority(7), acl.StreamFast()},
		"stop":     {acl.StreamStopOnFailure()},
	} {
		st, err := dev.NewStream(options...)
		require.NoError(t, err, name)
		assert.NotZero(t, st.Handle(), name)
		assert.Same(t, dev, st.Device(), name)
		assert.False(t, ids[st.ID()], "%s: number %d came twice", name, st.ID())
		ids[st.ID()] = true
		require.NoError(t, st.Synchronize(background), name)
		require.NoError(t, st.Close(), name)
	}
}

func TestClosedStream(t *testing.T) {
	dev := acltest.Device(t, acltest.Open(t), 0)
	st, err := dev.NewStream()
	require.NoError(t, err)
	buf, host := malloc(t, dev, 8), hostBuffer(t, dev, 8)
	ev, err := dev.NewEvent()
	require.NoError(t, err)
	defer func() { require.NoError(t, ev.Close()) }()
	require.NoError(t, st.Close())
	require.NoError(t, st.Close())
	for name, call := range map[string]func() error{
		"Synchronize":  func() error { return st.Synchronize(background) },
		"Query":        func() error { _, err := st.Query(); return err },
		"Abort":        st.Abort,
		"Stop":         st.Stop,
		"HostFunc":     func() error { return st.HostFunc(func() {}) },
		"Record":       func() error { _, err := st.Record(); return err },
		"EventRecord":  func() error { return ev.Record(st) },
		"Wait":         func() error { return st.Wait(ev) },
		"Malloc":       func() error { _, err := st.Malloc(8); return err },
		"NewArena":     func() error { _, err := st.NewArena(8); return err },
		"Copy":         func() error { return st.Copy(buf, host, 8) },
		"Copy2D":       func() error { return st.Copy2D(buf, 8, host, 8, 8, 1) },
		"Memset":       func() error { return st.Memset(buf, 0, 8) },
		"RecordStream": func() error { return buf.RecordStream(st) },
		"To":           func() error { return acl.CopyToDevice(background, st, buf, []byte{1}) },
		"From":         func() error { return acl.CopyFromDevice(background, st, []byte{1}, buf) },
		"Launch":       func() error { return lent(t, st).Launch(nil) },
		"Run":          func() error { return lent(t, st).Run(nil) },
		"Prepare":      func() error { _, err := lent(t, st).Prepare(nil); return err },
	} {
		e := requireError(t, call(), acl.ErrClosed, 0)
		assert.Zero(t, e.Device, name)
		assert.Equal(t, st.ID(), e.Stream, name)
	}
	assert.Zero(t, st.Device().ID())
}

func TestQuery(t *testing.T) {
	st := openStream(t)
	done, err := st.Query()
	require.NoError(t, err)
	assert.True(t, done)
	release := hold(t, st)
	done, err = st.Query()
	require.NoError(t, err)
	assert.False(t, done)
	release()
	require.NoError(t, st.Synchronize(background))
	done, err = st.Query()
	require.NoError(t, err)
	assert.True(t, done)
}

// TestInterruptedSynchronize: a context ends the waits of stream, event and device, and all
// three can be waited for again.
func TestInterruptedSynchronize(t *testing.T) {
	dev := acltest.Device(t, acltest.Open(t), 0)
	st := acltest.Stream(t, dev)
	release := hold(t, st)
	ev, err := st.Record()
	require.NoError(t, err)
	defer func() { require.NoError(t, ev.Close()) }()
	for name, wait := range map[string]func(context.Context) error{
		"stream": st.Synchronize, "event": ev.Synchronize, "device": dev.Synchronize,
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			ctx, cancel := context.WithTimeout(background, 30*time.Millisecond)
			defer cancel()
			err := wait(ctx)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			requireError(t, err, acl.ErrTimeout, 0)
			assert.GreaterOrEqual(t, time.Since(start), 30*time.Millisecond)

			ctx, cancel = context.WithCancel(background)
			stop := context.AfterFunc(ctx, func() {})
			defer stop()
			done := make(chan error)
			go func() { done <- wait(ctx) }()
			cancel()
			err = <-done
			require.ErrorIs(t, err, context.Canceled)
			require.NotErrorIs(t, err, acl.ErrTimeout)
		})
	}
	release()
	ctx, cancel := context.WithTimeout(background, time.Minute)
	defer cancel()
	require.NoError(t, ev.Synchronize(ctx))
	require.NoError(t, st.Synchronize(ctx))
	require.NoError(t, dev.Synchronize(ctx))
}

func TestHostFuncRunsInOrder(t *testing.T) {
	dev := acltest.Device(t, acltest.Open(t), 0)
	st := acltest.Stream(t, dev)
	release := hold(t, st)
	var order []int // written by the stream's functions, which run one after the other
	var ran atomic.Int32
	for i := range 100 {
		require.NoError(t, st.HostFunc(func() { order = append(order, i); ran.Add(1) }))
	}
	assert.Zero(t, ran.Load())
	release()
	require.NoError(t, st.Synchronize(background))
	require.Len(t, order, 100)
	for i, got := range order {
		require.Equal(t, i, got)
	}
	requireError(t, st.HostFunc(nil), acl.ErrInvalidArgument, 0)
}

// TestAbort drops what is queued, and the stream can be used again.
func TestAbort(t *testing.T) {
	dev := acltest.Device(t, acltest.Open(t), 0)
	st := acltest.Stream(t, dev)
	release := hold(t, st)
	var ran atomic.Bool
	require.NoError(t, st.HostFunc(func() { ran.Store(true) }))
	waiting := make(chan error)
	go func() { waiting <- st.Synchronize(background) }()
	require.NoError(t, st.Abort())
	release()
	if err := <-waiting; err != nil { // it may have come too late to be interrupted
		requireError(t, err, acl.ErrAborted, 107023)
	}
	require.NoError(t, st.Synchronize(background))
	assert.False(t, ran.Load(), "an aborted function ran")
	buf := malloc(t, st, 8)
	require.NoError(t, acl.CopyToDevice(background, st, buf, []int64{42}))
	got := make([]int64, 1)
	require.NoError(t, acl.CopyFromDevice(background, st, got, buf))
	assert.EqualValues(t, 42, got[0])
}

// TestDeviceAbort drops the work of all streams.
func TestDeviceAbort(t *testing.T) {
	dev := acltest.Device(t, acltest.Open(t), 0)
	st, other := acltest.Stream(t, dev), acltest.Stream(t, dev)
	var releases []func()
	for _, s := range []*acl.Stream{st, other} {
		releases = append(releases, hold(t, s))
	}
	aborted := make(chan error)
	limit, cancel := context.WithTimeout(background, time.Minute)
	defer cancel()
	go func() { aborted <- dev.Abort(limit) }()
	for _, release := range releases {
		release()
	}
	require.NoError(t, <-aborted)
	for _, s := range []*acl.Stream{st, other} {
		if err := s.Synchronize(background); err != nil {
			require.ErrorIs(t, err, acl.ErrAborted)
		}
	}
}

func TestStopIsOfNewerVersions(t *testing.T) {
	st := openStream(t)
	if err := st.Stop(); err != nil {
		require.ErrorIs(t, err, acl.ErrNotSupported)
	}
}

// TestStreamsAreScarce: a device that has no stream left says so.
func TestStreamsAreScarce(t *testing.T) {
	if testing.Short() {
		t.Skip("makes 2000 streams")
	}
	dev := acltest.Device(t, acltest.Open(t), 0)
	var streams []*acl.Stream
	defer func() {
		for _, st := range streams {
			require.NoError(t, st.Close())
		}
	}()
	for range 40000 {
		st, err := dev.NewStream()
		if err != nil {
			e := requireError(t, err, acl.ErrExhausted, 207008)
			assert.Contains(t, e.Hint, "1984")
			return
		}
		streams = append(streams, st)
	}
	t.Fatal("40000 streams were made")
}

func hostBuffer(t testing.TB, dev *acl.Device, n int) *acl.HostBuffer {
	t.Helper()
	h, err := dev.MallocHost(n)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, h.Close()) })
	return h
}

package acl_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
)

// TestObserve: every kind of call reaches the observer with its name, place, size and error, and none
// does when it has been removed.
func TestObserve(t *testing.T) {
	dev := acltest.Device(t, acltest.Open(t), 0)
	st := acltest.Stream(t, dev)
	x := tensors(t, st, 3, 5)
	wrong := tensors(t, st, 1, 4)[0]
	from, to := malloc(t, dev, 64), malloc(t, dev, 64)
	ev, err := st.Record()
	require.NoError(t, err)
	defer func() { require.NoError(t, ev.Close()) }()
	fresh, err := dev.NewEvent()
	require.NoError(t, err)
	defer func() { require.NoError(t, fresh.Close()) }()
	ex, err := aclnn.Prepare(st, &aclnn.AddParams{Self: x[0], Other: x[1], Alpha: aclnn.Float(1), Out: x[2]})
	require.NoError(t, err)
	defer func() { require.NoError(t, ex.Close()) }()
	g := capture(t, st, func() error { return add(st, x[0], x[1], x[2]) })
	ended, cancel := context.WithCancel(background)
	cancel()

	var got acl.Call
	calls := 0
	stop, err := dev.Runtime().Observe(func(c acl.Call) { got, calls = c, calls+1 })
	require.NoError(t, err)
	host := make([]byte, 64)
	for _, c := range []struct {
		kind   acl.CallKind
		name   string
		stream int
		bytes  int
		call   func() error
		class  error
	}{
		{acl.CallLaunch, "aclnnAdd", st.ID(), 0, func() error { return add(st, x[0], x[1], x[2]) }, nil},
		{acl.CallLaunch, "aclnnAdd", st.ID(), 0, func() error { return add(st, x[0], wrong, x[2]) }, acl.ErrInvalidArgument},
		{acl.CallLaunch, "aclnnAdd", st.ID(), 0, ex.Run, nil},
		{acl.CallLaunch, "Graph.Replay", st.ID(), 0, func() error { return g.Replay(st) }, nil},
		{acl.CallCopy, "Stream.Copy", st.ID(), 32, func() error { return st.Copy(to, from, 32) }, nil},
		{acl.CallCopy, "Stream.Copy2D", st.ID(), 12, func() error { return st.Copy2D(to, 8, from, 16, 4, 3) }, nil},
		{acl.CallCopy, "acl.CopyToDevice", st.ID(), 64, func() error { return acl.CopyToDevice(background, st, to, host) }, nil},
		{acl.CallCopy, "acl.CopyFromDevice", st.ID(), 64, func() error { return acl.CopyFromDevice(background, st, host, to) }, nil},
		{acl.CallCopy, "Context.Copy", -1, 16, func() error { return dev.Copy(background, to, from, 16) }, nil},
		{acl.CallCopy, "Context.Copy2D", -1, 12, func() error { return dev.Copy2D(background, to, 8, from, 16, 4, 3) }, nil},
		{acl.CallCopy, "Stream.Copy", st.ID(), 65, func() error { return st.Copy(to, from, 65) }, acl.ErrInvalidArgument},
		{acl.CallWait, "Stream.Synchronize", st.ID(), 0, func() error { return st.Synchronize(background) }, nil},
		{acl.CallWait, "Context.Synchronize", -1, 0, func() error { return dev.Synchronize(background) }, nil},
		{acl.CallWait, "Event.Synchronize", st.ID(), 0, func() error { return ev.Synchronize(background) }, nil},
		{acl.CallWait, "Event.Synchronize", -1, 0, func() error { return fresh.Synchronize(background) }, nil},
	} {
		before := calls
		err := c.call()
		require.ErrorIs(t, err, c.class, c.name)
		require.Equal(t, before+1, calls, c.name)
		require.False(t, got.Began.IsZero())
		require.Positive(t, got.Took)
		require.ErrorIs(t, got.Err, c.class)
		got.Began, got.Took, got.Err = acl.Call{}.Began, 0, nil
		require.Equal(t, acl.Call{Kind: c.kind, Name: c.name, Device: 0, Stream: c.stream, Bytes: c.bytes}, got)
	}
	before := calls
	require.ErrorIs(t, (*acl.Stream)(nil).Synchronize(ended), acl.ErrInvalidArgument)
	require.ErrorIs(t, (*acl.Event)(nil).Synchronize(ended), acl.ErrInvalidArgument)
	require.Equal(t, before+2, calls)
	require.Equal(t, -1, got.Device)
	stop()
	stop()
	require.NoError(t, st.Synchronize(background))
	require.Equal(t, before+2, calls)
	_, err = dev.Runtime().Observe(nil)
	require.ErrorIs(t, err, acl.ErrInvalidArgument)
}

// TestObserveWhileRunning: observers come and go while goroutines launch, and one that stays gets
// every call.
func TestObserveWhileRunning(t *testing.T) {
	dev := acltest.Device(t, acltest.Open(t), 0)
	const goroutines, launches = 4, 50
	var heard atomic.Int64
	stop, err := dev.Runtime().Observe(func(c acl.Call) {
		if c.Name == "aclnnAdd" {
			heard.Add(1)
		}
	})
	require.NoError(t, err)
	defer stop()
	quit := make(chan struct{})
	var others, all sync.WaitGroup
	for range 2 {
		others.Go(func() {
			for {
				select {
				case <-quit:
					return
				default:
					stop, err := dev.Runtime().Observe(func(acl.Call) {})
					if err != nil {
						t.Error(err)
						return
					}
					stop()
				}
			}
		})
	}
	for range goroutines {
		st := acltest.Stream(t, dev)
		x := tensors(t, st, 3, 5)
		all.Go(func() {
			for range launches {
				if err := add(st, x[0], x[1], x[2]); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	close(quit)
	others.Wait()
	require.Equal(t, int64(goroutines*launches), heard.Load())
}

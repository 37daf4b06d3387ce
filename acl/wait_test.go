package acl_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
)

// TestWaitsOfFedStream: a wait ends though others queue work all the time, and reports what failed
// before it.
func TestWaitsOfFedStream(t *testing.T) {
	dev := acltest.Device(t, acltest.Open(t), 0)
	st := acltest.Stream(t, dev)
	ctx, cancel := context.WithTimeout(background, time.Minute)
	defer cancel()
	for name, wait := range map[string]func(context.Context) error{"stream": st.Synchronize, "device": dev.Synchronize} {
		t.Run(name, func(t *testing.T) {
			release := hold(t, st)
			stop, stopped := make(chan struct{}), make(chan error, 1)
			started := make(chan struct{})
			go func() { // a function is queued before the one before it ends: the stream is never idle
				for first := true; ; first = false {
					gate := make(chan struct{})
					if err := st.HostFunc(func() { <-gate }); err != nil {
						stopped <- err
						return
					}
					release()
					release = func() { close(gate) }
					if first {
						close(started)
					}
					select {
					case <-stop:
						release()
						stopped <- nil
						return
					default:
					}
				}
			}()
			<-started
			require.NoError(t, wait(ctx))
			close(stop)
			require.NoError(t, <-stopped)
			require.NoError(t, st.Synchronize(background))
		})
	}
}

// TestAbandonedWait: the failure that a wait would have reported, had its context not ended, is reported by
// the next.
func TestAbandonedWait(t *testing.T) {
	dev := acltest.Device(t, acltest.Open(t), 0)
	st := acltest.Stream(t, dev)
	release := hold(t, st)
	require.NoError(t, launchAtNothing(t, st))
	ctx, cancel := context.WithCancel(background)
	left := make(chan error)
	go func() { left <- st.Synchronize(ctx) }()
	for range 3 { // it sees that others queue work
		require.NoError(t, st.HostFunc(func() {}))
	}
	cancel()
	require.ErrorIs(t, <-left, context.Canceled)
	release()
	require.ErrorIs(t, st.Synchronize(background), acl.ErrKernel)
	require.NoError(t, st.Synchronize(background))
}

package acl_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
)

func TestEventOrdersStreams(t *testing.T) {
	dev := acltest.Device(t, acltest.Open(t), 0)
	first, second := acltest.Stream(t, dev), acltest.Stream(t, dev)
	release := hold(t, first)
	var order []string
	require.NoError(t, first.HostFunc(func() { order = append(order, "first") }))
	ev, err := first.Record()
	require.NoError(t, err)
	defer func() { require.NoError(t, ev.Close()) }()
	require.NoError(t, second.Wait(ev))
	require.NoError(t, second.HostFunc(func() { order = append(order, "second") }))
	done, err := ev.Query()
	require.NoError(t, err)
	assert.False(t, done)
	release()
	require.NoError(t, second.Synchronize(background))
	assert.Equal(t, []string{"first", "second"}, order)
	done, err = ev.Query()
	require.NoError(t, err)
	assert.True(t, done)
}

// TestWaitStream: a stream goes on when what was queued on another one before has ended, and refuses one that is closed or nil.
func TestWaitStream(t *testing.T) {
	dev := acltest.Device(t, acltest.Open(t), 0)
	first, second := acltest.Stream(t, dev), acltest.Stream(t, dev)
	release := hold(t, first)
	var order []string
	require.NoError(t, first.HostFunc(func() { order = append(order, "first") }))
	require.NoError(t, second.WaitStream(first))
	require.NoError(t, second.HostFunc(func() { order = append(order, "second") }))
	release()
	require.NoError(t, second.Synchronize(background))
	assert.Equal(t, []string{"first", "second"}, order)
	closed, err := dev.NewStream()
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	require.ErrorIs(t, second.WaitStream(closed), acl.ErrClosed)
	require.ErrorIs(t, closed.WaitStream(second), acl.ErrClosed)
	require.Error(t, second.WaitStream(nil))
}

// TestEventIsRecordedAgain: a wait is for the record before it, not for later ones.
func TestEventIsRecordedAgain(t *testing.T) {
	dev := acltest.Device(t, acltest.Open(t), 0)
	free, held, waiter := acltest.Stream(t, dev), acltest.Stream(t, dev), acltest.Stream(t, dev)
	ev, err := dev.NewEvent()
	require.NoError(t, err)
	done, err := ev.Query()
	require.NoError(t, err)
	assert.True(t, done, "an event that was never recorded counts as done")
	require.NoError(t, ev.Synchronize(background))
	require.NoError(t, ev.Record(free))
	require.NoError(t, waiter.Wait(ev))
	release := hold(t, held)
	require.NoError(t, ev.Record(held))
	require.NoError(t, waiter.Synchronize(background))
	done, err = ev.Query()
	require.NoError(t, err)
	assert.False(t, done)
	require.NoError(t, waiter.Wait(ev))
	require.NoError(t, ev.Close(), "an event may be closed while a wait for it is queued")
	release()
	require.NoError(t, waiter.Synchronize(background))
}

func TestElapsed(t *testing.T) {
	dev := acltest.Device(t, acltest.Open(t), 0)
	st := acltest.Stream(t, dev)
	before := time.Now()
	start, err := st.Record(acl.EventTiming())
	require.NoError(t, err)
	defer func() { require.NoError(t, start.Close()) }()
	release := hold(t, st)
	end, err := st.Record(acl.EventTiming())
	require.NoError(t, err)
	defer func() { require.NoError(t, end.Close()) }()
	require.NoError(t, start.Synchronize(background))
	for held := time.Now(); time.Since(held) < 5*time.Millisecond; {
	}
	release()
	require.NoError(t, st.Synchronize(background))
	d, err := end.Elapsed(start)
	require.NoError(t, err)
	assert.Greater(t, d, 4*time.Millisecond)
	assert.Less(t, d, time.Since(before)+time.Millisecond)
	back, err := start.Elapsed(end)
	if err == nil { // CANN answers a negative time or refuses
		assert.Negative(t, back)
	}
	a, err := start.Timestamp()
	require.NoError(t, err)
	b, err := end.Timestamp()
	require.NoError(t, err)
	assert.InDelta(t, float64(d), float64(b-a), float64(time.Millisecond))
}

func TestElapsedNeedsTimes(t *testing.T) {
	dev := acltest.Device(t, acltest.Open(t), 0)
	st := acltest.Stream(t, dev)
	plain, err := st.Record()
	require.NoError(t, err)
	defer func() { require.NoError(t, plain.Close()) }()
	require.NoError(t, st.Synchronize(background))
	_, err = plain.Elapsed(plain)
	e := requireError(t, err, acl.ErrInvalidArgument, 107006)
	assert.Contains(t, e.Hint, "EventTiming")
	never, err := dev.NewEvent(acl.EventTiming())
	require.NoError(t, err)
	defer func() { require.NoError(t, never.Close()) }()
	_, err = never.Elapsed(never)
	var failed *acl.Error
	require.ErrorAs(t, err, &failed)
	assert.EqualValues(t, 507000, failed.Code)
}

func TestEventMisuse(t *testing.T) {
	rt := acltest.Open(t)
	dev := acltest.Device(t, rt, 0)
	st := acltest.Stream(t, dev)
	ev, err := dev.NewEvent()
	require.NoError(t, err)
	require.NoError(t, ev.Close())
	require.NoError(t, ev.Close())
	for _, err := range []error{ev.Record(st), st.Wait(ev), ev.Synchronize(background)} {
		requireError(t, err, acl.ErrClosed, 0)
	}
	_, err = ev.Query()
	requireError(t, err, acl.ErrClosed, 0)
	_, err = ev.Elapsed(ev)
	requireError(t, err, acl.ErrClosed, 0)
	_, err = ev.Timestamp()
	requireError(t, err, acl.ErrClosed, 0)
	_, err = dev.NewEvent(acl.EventFlags(1 << 30))
	requireError(t, err, acl.ErrInvalidArgument, 107000)

	elsewhere := acltest.Stream(t, acltest.Device(t, rt, 1))
	ev, err = dev.NewEvent()
	require.NoError(t, err)
	defer func() { require.NoError(t, ev.Close()) }()
	e := requireError(t, ev.Record(elsewhere), acl.ErrWrongDevice, 0)
	assert.Equal(t, 1, e.Device)
	require.NoError(t, ev.Record(st))
	require.NoError(t, elsewhere.Wait(ev), "waits reach across devices")
	require.NoError(t, elsewhere.Synchronize(background))
}

// TestRecordOnTwoStreams: of two records at once, a wait for the event asks the stream of the one that CANN has as the
// last.
func TestRecordOnTwoStreams(t *testing.T) {
	dev := acltest.Device(t, acltest.Open(t), 0)
	a, b := acltest.Stream(t, dev), acltest.Stream(t, dev)
	ev, err := dev.NewEvent()
	require.NoError(t, err)
	defer func() { require.NoError(t, ev.Close()) }()
	for range 1000 {
		release := hold(t, b)
		recorded := make(chan error)
		for _, st := range []*acl.Stream{a, b} {
			go func() {
				var err error
				for range 20 {
					err = errors.Join(err, ev.Record(st))
				}
				recorded <- err
			}()
		}
		require.NoError(t, errors.Join(<-recorded, <-recorded))
		require.NoError(t, a.Synchronize(background))
		ofA, err := ev.Query()
		require.NoError(t, err)
		last := b
		if ofA {
			last = a
		}
		require.Equal(t, last.ID(), acl.LastStream(ev))
		release()
		require.NoError(t, b.Synchronize(background))
	}
}

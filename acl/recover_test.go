package acl_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
)

// TestEachWaitReports: each of a thousand faults is reported once, with its operator and stream, by the wait
// that comes first, and every copy after it is right.
func TestEachWaitReports(t *testing.T) {
	faults := 1000
	if testing.Short() {
		faults = 100
	}
	dev := acltest.Device(t, acltest.Open(t), 0)
	streams := []*acl.Stream{acltest.Stream(t, dev), acltest.Stream(t, dev), acltest.Stream(t, dev)}
	buf, err := dev.Malloc(64)
	require.NoError(t, err)
	defer func() { require.NoError(t, buf.Close()) }()
	download := func(st *acl.Stream) error {
		return acl.CopyFromDevice(t.Context(), st, make([]byte, 64), buf)
	}
	waits := []func(st *acl.Stream) error{
		func(st *acl.Stream) error { return st.Synchronize(t.Context()) },
		func(st *acl.Stream) error { return st.Synchronize(background) },
		download,
		func(st *acl.Stream) error {
			ev, err := st.Record()
			require.NoError(t, err)
			defer func() { require.NoError(t, ev.Close()) }()
			return ev.Synchronize(t.Context())
		},
		func(st *acl.Stream) error {
			others, err := dev.Recover(t.Context())
			require.NoError(t, err)
			require.Len(t, others, 1)
			return others[0]
		},
		func(*acl.Stream) error {
			others, err := dev.Recover(background)
			require.NoError(t, err)
			require.Len(t, others, 1)
			return others[0]
		},
	}
	for n := range faults {
		st := streams[n%len(streams)]
		require.NoError(t, launchAtNothing(t, st))
		var e *acl.Error
		require.ErrorAs(t, waits[n%len(waits)](st), &e, "fault %d", n)
		require.ErrorIs(t, e, acl.ErrKernel)
		require.Equal(t, []string{"aclnnAdd"}, e.Suspects)
		require.Equal(t, st.ID(), e.Stream)
		require.Equal(t, acl.DamageWork, e.Damage())
		if n%7 == 0 {
			others, err := dev.Recover(t.Context())
			require.NoError(t, err)
			require.Empty(t, others, "it is reported once")
		}
		for k, other := range streams {
			sent, got := []byte{byte(n), byte(n >> 8), byte(k), 1}, make([]byte, 4)
			require.NoError(t, acl.CopyToDevice(t.Context(), other, buf, sent))
			require.NoError(t, acl.CopyFromDevice(t.Context(), other, got, buf))
			require.Equal(t, sent, got)
		}
	}
}

// TestRecoverAll: several streams and contexts have failed.
func TestRecoverAll(t *testing.T) {
	dev := acltest.Device(t, acltest.Open(t), 0)
	x, err := dev.NewContext()
	require.NoError(t, err)
	side, err := x.NewStream()
	require.NoError(t, err)
	streams := []*acl.Stream{acltest.Stream(t, dev), side, acltest.Stream(t, dev)}
	want := map[int]bool{}
	// One address for all: another allocation could have it before the work at it has run.
	nothing := nowhere(t, dev)
	for _, st := range streams {
		require.NoError(t, launchAt(t, st, nothing))
		want[st.ID()] = true
	}
	others, err := dev.Recover(t.Context())
	require.NoError(t, err)
	got := map[int]bool{}
	for _, e := range others {
		got[e.Stream] = true
		assert.Equal(t, []string{"aclnnAdd"}, e.Suspects)
	}
	assert.Equal(t, want, got)
	for _, st := range streams {
		require.NoError(t, st.Synchronize(t.Context()))
	}
	require.NoError(t, side.Close())
	require.NoError(t, x.Close())

	st := streams[0]
	release := hold(t, st)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = dev.Recover(ctx)
	require.ErrorIs(t, err, context.Canceled)
	release()
	var none context.Context
	_, err = dev.Recover(none)
	require.ErrorIs(t, err, acl.ErrInvalidArgument)
	_, err = (*acl.Device)(nil).Recover(t.Context())
	require.ErrorIs(t, err, acl.ErrInvalidArgument)
}

// TestRecoverWhileStreamsClose: streams that are closed while Recover waits for another one are not asked any more.
func TestRecoverWhileStreamsClose(t *testing.T) {
	dev := acltest.Device(t, acltest.Open(t), 0)
	for round := range 100 {
		ctx, waiting := background, make(chan struct{})
		if round%2 == 0 {
			ctx = &asked{Context: t.Context(), f: func() { close(waiting) }}
		} else {
			close(waiting)
		}
		var busy, idle []*acl.Stream
		for range 4 {
			st, err := dev.NewStream()
			require.NoError(t, err)
			idle = append(idle, st)
			st, err = dev.NewStream()
			require.NoError(t, err)
			busy = append(busy, st)
		}
		var release []func()
		for _, st := range busy {
			release = append(release, hold(t, st))
		}
		recovered := make(chan error)
		go func() {
			_, err := dev.Recover(ctx)
			recovered <- err
		}()
		<-waiting
		for _, st := range idle {
			require.NoError(t, st.Close())
		}
		for _, f := range release {
			f()
		}
		require.NoError(t, <-recovered)
		for _, st := range busy {
			require.NoError(t, st.Close())
		}
	}
}

// TestRecoverFromStop: a context that has stopped cannot be recovered, and the error says what has to
// be made again. Another one works.
func TestRecoverFromStop(t *testing.T) {
	dev := acltest.Device(t, acltest.Open(t), 0)
	for range 3 {
		x, err := dev.NewContext()
		require.NoError(t, err)
		st, err := x.NewStream(acl.StreamStopOnFailure())
		require.NoError(t, err)
		require.NoError(t, launchAtNothing(t, st))
		err = st.Synchronize(t.Context())
		var e *acl.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, acl.DamageContext, e.Damage())
		require.ErrorContains(t, err, "has stopped its context")
		others, err := dev.Recover(t.Context())
		require.Empty(t, others)
		require.True(t, errors.As(err, &e))
		require.Equal(t, acl.DamageContext, e.Damage())
		require.ErrorIs(t, st.Close(), acl.ErrKernel)
		require.NoError(t, x.Close())
	}
	others, err := dev.Recover(t.Context())
	require.NoError(t, err)
	require.Empty(t, others)
}

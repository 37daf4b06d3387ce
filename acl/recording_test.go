package acl

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl/internal/pool"
)

// TestJoinWhileCaptureEnds: a stream whose wait for an event of a capture meets the end of the capture keeps no seat.
func TestJoinWhileCaptureEnds(t *testing.T) {
	c := new(chip)
	c.pool = pool.New(c)
	sc := &scope{chip: c}
	begun := func() (*recording, *queue) {
		r := &recording{scope: sc}
		r.active.Store(true)
		return r, &queue{scope: sc}
	}
	r, q := begun()
	require.NoError(t, r.join(q, func() error { return nil }))
	require.Equal(t, r, q.recording())
	r.rise()
	require.Nil(t, q.seat.Load())
	require.NoError(t, r.join(q, func() error { return nil }))
	require.Nil(t, q.seat.Load(), "the capture had ended")

	r, q = begun()
	require.NoError(t, r.join(q, func() error { r.rise(); return nil }))
	require.Nil(t, q.seat.Load(), "it ended during the wait")

	r, q = begun()
	failure := errors.New("refused")
	require.Equal(t, failure, r.join(q, func() error { return failure }))
	require.Nil(t, q.seat.Load(), "the wait failed")
}

package acl

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl/internal/pool"
)

// TestJoinWhileCaptureEnds: a stream that waits for an event of a capture while the capture ends is no member of it afterwards.
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
	r.finish()
	require.Nil(t, q.member.Load())
	require.NoError(t, r.join(q, func() error { return nil }))
	require.Nil(t, q.member.Load(), "the capture had ended")

	r, q = begun()
	require.NoError(t, r.join(q, func() error { r.finish(); return nil }))
	require.Nil(t, q.member.Load(), "it ended during the wait")

	r, q = begun()
	failure := errors.New("refused")
	require.Equal(t, failure, r.join(q, func() error { return failure }))
	require.Nil(t, q.member.Load(), "the wait failed")
}

package replicas_test

import (
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/examples/serve/api/apitest"
	"github.com/goascend/cann/examples/serve/engine"
)

// TestSuspend: the requests of a replica that is taken out of service go on with the other one, and those of the
// last one end with the reason. When it is back it serves again.
func TestSuspend(t *testing.T) {
	want := alone(t, 2)
	s := open(t, apitest.Load, 0, 1)
	alarm := errors.New("alarm")
	all := submit(t, s, 2) // one on each
	first, err := all[1].Next()
	require.NoError(t, err)
	s.Suspend(1, alarm)
	require.NoError(t, s.Ready())
	require.ErrorIs(t, s.Status()[1].Err, alarm)
	rest, err := collect(all[1])
	require.NoError(t, err)
	require.Equal(t, want[1], append([]int32{first.ID}, rest...))
	text, err := collect(all[0])
	require.NoError(t, err)
	require.Equal(t, want[0], text)

	g := submit(t, s, 1)[0]
	_, err = g.Next()
	require.NoError(t, err)
	s.Suspend(0, alarm)
	for err == nil {
		_, err = g.Next()
	}
	if err != io.EOF { // the text may have been whole
		require.ErrorIs(t, err, engine.ErrDevice)
		require.ErrorIs(t, err, alarm)
	}
	_, err = s.Submit(t.Context(), request(0))
	require.ErrorIs(t, err, alarm)
	_, err = s.Embed(t.Context(), ids("a"))
	require.ErrorIs(t, err, alarm)

	s.Suspend(0, nil)
	s.Suspend(1, nil)
	for i, g := range submit(t, s, 2) {
		text, err := collect(g)
		require.NoError(t, err)
		require.Equal(t, want[i], text)
	}
	require.NoError(t, s.Close())
	require.Zero(t, s.Stats().Used)
}

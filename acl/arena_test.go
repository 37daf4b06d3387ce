package acl_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
)

func TestArena(t *testing.T) {
	dev := acltest.Device(t, acltest.Open(t), 0)
	st, other := acltest.Stream(t, dev), acltest.Stream(t, dev)
	a, err := st.NewArena(2048)
	require.NoError(t, err)
	one, err := a.Malloc(480)
	require.NoError(t, err)
	two, err := a.Malloc(481)
	require.NoError(t, err)
	three, err := a.Malloc(512)
	require.NoError(t, err)
	assert.Equal(t, one.Address()+512, two.Address())
	assert.Equal(t, two.Address()+1024, three.Address(), "32 bytes behind a buffer are its own")
	assert.Equal(t, 512, three.Size())
	assert.Equal(t, 2048, a.Peak())
	_, err = a.Malloc(1)
	requireError(t, err, acl.ErrOutOfMemory, 0)
	_, err = a.Malloc(0)
	requireError(t, err, acl.ErrInvalidArgument, 0)
	require.NoError(t, one.Close())
	require.NoError(t, st.Memset(one, 1, 480), "a buffer of an arena lives until Reset")

	// Another stream that still uses the memory goes first.
	release := hold(t, other)
	require.NoError(t, other.Memset(two, 2, 1))
	require.NoError(t, a.Reset())
	requireError(t, st.Memset(two, 0, 1), acl.ErrClosed, 0)
	again, err := a.Malloc(2048)
	require.NoError(t, err)
	assert.Equal(t, one.Address(), again.Address())
	require.NoError(t, st.Memset(again, 3, 2048))
	done, err := st.Query()
	require.NoError(t, err)
	assert.False(t, done, "the arena's stream waits for the other one")
	release()
	got := make([]byte, 2048)
	require.NoError(t, acl.CopyFromDevice(background, st, got, again))
	assert.EqualValues(t, 3, got[512])

	require.NoError(t, a.Close())
	require.NoError(t, a.Close())
	_, err = a.Malloc(1)
	requireError(t, err, acl.ErrClosed, 0)
	requireError(t, a.Reset(), acl.ErrClosed, 0)
	requireError(t, st.Memset(again, 0, 1), acl.ErrClosed, 0)
}

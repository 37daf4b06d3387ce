package acl_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
)

// TestMemoryPool checks that a cache with Config.MemoryPool holds no more than the pool, gets back what it has given
// back, and serves several streams.
func TestMemoryPool(t *testing.T) {
	acltest.Need(t)
	const mib = 1 << 20
	rt, err := acl.Open(acl.Config{MemoryPool: 60*mib - 1})
	require.NoError(t, err)
	dev, err := rt.Device(0)
	if os.Getenv("CANN_EMU_API") != "" {
		require.ErrorIs(t, err, acl.ErrNotSupported)
		require.ErrorContains(t, err, "aclrtMemPool")
		require.NoError(t, rt.Close())
		return
	}
	require.NoError(t, err)
	free, _, err := dev.MemInfo()
	require.NoError(t, err)
	var streams [2]*acl.Stream
	for i := range streams {
		streams[i], err = dev.NewStream()
		require.NoError(t, err)
	}
	for range 3 { // the second time what the first has given back
		for _, st := range streams {
			buf, err := st.Malloc(4 * mib)
			require.NoError(t, err)
			want, got := make([]float32, mib), make([]float32, mib)
			for i := range want {
				want[i] = float32(i)
			}
			require.NoError(t, acl.CopyToDevice(t.Context(), st, buf, want))
			require.NoError(t, acl.CopyFromDevice(t.Context(), st, got, buf))
			require.Equal(t, want, got)
			require.NoError(t, buf.Close())
		}
		big, err := streams[0].Malloc(40*mib - 32)
		require.NoError(t, err)
		_, err = streams[1].Malloc(40*mib - 32)
		require.ErrorIs(t, err, acl.ErrOutOfMemory)
		assert.ErrorContains(t, err, "the memory pool of the device is full")
		assert.LessOrEqual(t, dev.Allocator().Stats().Reserved, 60*mib)
		require.NoError(t, big.Close())
		require.NoError(t, dev.Allocator().EmptyCache(t.Context()))
	}
	now, _, err := dev.MemInfo()
	require.NoError(t, err)
	assert.Equal(t, free, now, "bytes of the device")
	_, err = acl.Open(acl.Config{Expandable: true})
	require.ErrorIs(t, err, acl.ErrInvalidArgument, "beside the open one")
	for _, c := range []interface{ Close() error }{streams[0], streams[1], dev, rt} {
		require.NoError(t, c.Close())
	}
	require.Empty(t, acl.Live())

	_, err = acl.Open(acl.Config{MemoryPool: -1})
	require.ErrorIs(t, err, acl.ErrInvalidArgument)
	_, err = acl.Open(acl.Config{MemoryPool: mib, Expandable: true})
	require.ErrorIs(t, err, acl.ErrInvalidArgument)
	rt, err = acl.Open(acl.Config{MemoryPool: 1 << 50})
	require.NoError(t, err)
	_, err = rt.Device(0)
	require.ErrorIs(t, err, acl.ErrOutOfMemory)
	require.NoError(t, rt.Close())
}

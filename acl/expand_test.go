package acl_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
)

// TestExpandable: a cache that grows in place serves operators and copies, takes little more than its
// largest block, and leaves nothing behind.
func TestExpandable(t *testing.T) {
	acltest.Need(t)
	const mib = 1 << 20
	rt, err := acl.Open(acl.Config{Expandable: true})
	require.NoError(t, err)
	dev, err := rt.Device(0)
	require.NoError(t, err)
	st, err := dev.NewStream()
	require.NoError(t, err)
	for n := int64(16); n <= 48; n += 4 {
		x, err := aclnn.New(st, aclnn.Float32, n, 256<<10)
		require.NoError(t, err)
		require.NoError(t, aclnn.InplaceOne(st, aclnn.InplaceOneParams{Self: x}))
		require.NoError(t, aclnn.InplaceAdds(st, aclnn.InplaceAddsParams{Self: x, Other: aclnn.Float(1), Alpha: aclnn.Float(2)}))
		got := make([]float32, x.Len())
		require.NoError(t, aclnn.CopyFromDevice(t.Context(), st, got, x))
		require.Equal(t, float32(3), got[0])
		require.Equal(t, float32(3), got[len(got)-1])
		require.NoError(t, x.Close())
	}
	s := dev.Allocator().Stats()
	assert.LessOrEqual(t, s.Reserved, 68*mib, "the largest block had 48 MiB, and small ones have 2")
	hole, err := st.Malloc(30 * mib)
	require.NoError(t, err)
	tail, err := st.Malloc(30 * mib)
	require.NoError(t, err)
	require.NoError(t, hole.Close())
	require.NoError(t, dev.Allocator().EmptyCache(t.Context()))
	states := map[acl.BlockState]int{}
	for _, segment := range dev.Allocator().Snapshot().Segments {
		for _, b := range segment.Blocks {
			states[b.State] += b.Bytes
		}
	}
	assert.Positive(t, states[acl.BlockUnmapped])
	assert.Equal(t, dev.Allocator().Stats().Reserved, states[acl.BlockUsed]+states[acl.BlockFree])
	require.NoError(t, tail.Close())
	for _, c := range []interface{ Close() error }{st, dev, rt} {
		require.NoError(t, c.Close())
	}
	require.Empty(t, acl.Live())

	dev = acltest.Device(t, acltest.Open(t), 0)
	malloc(t, dev, 30*mib)
	for _, segment := range dev.Allocator().Snapshot().Segments {
		assert.LessOrEqual(t, segment.Bytes, 64*mib, "another runtime has ordinary segments")
	}
}

package acl_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
)

func TestCacheFollowsTheStream(t *testing.T) {
	dev := acltest.Device(t, acltest.Open(t), 0)
	st, other := acltest.Stream(t, dev), acltest.Stream(t, dev)
	a := dev.Allocator()
	buf, err := st.Malloc(1000)
	require.NoError(t, err)
	at := buf.Address()
	assert.EqualValues(t, 1000, a.Stats().Allocated)
	assert.Equal(t, dev.ID(), buf.Device())

	release := hold(t, st)
	require.NoError(t, st.Memset(buf, 1, 1000))
	require.NoError(t, buf.Close(), "memory is closed while work is queued")
	next := malloc(t, st, 1000)
	assert.Equal(t, at, next.Address(), "the same stream gets it at once")
	elsewhere := malloc(t, other, 1000)
	assert.NotEqual(t, at, elsewhere.Address())
	release()
}

// TestCacheWaitsForUsers: memory that a second stream uses comes back when that has passed,
// whether it was noted by a copy or by RecordStream.
func TestCacheWaitsForUsers(t *testing.T) {
	dev := acltest.Device(t, acltest.Open(t), 0)
	owner := acltest.Stream(t, dev)
	for name, use := range map[string]func(*acl.Stream, *acl.Buffer) error{
		"memset": func(st *acl.Stream, b *acl.Buffer) error { return st.Memset(b, 1, b.Size()) },
		"record": func(st *acl.Stream, b *acl.Buffer) error { return b.RecordStream(st) },
		"view": func(st *acl.Stream, b *acl.Buffer) error {
			v, err := b.View(4, 4)
			require.NoError(t, err)
			return st.Memset(v, 1, 4)
		},
	} {
		for from, alloc := range map[string]func(int) (*acl.Buffer, error){"stream": owner.Malloc, "device": dev.Malloc} {
			t.Run(name+" "+from, func(t *testing.T) {
				user := acltest.Stream(t, dev)
				release := hold(t, user)
				buf, err := alloc(24 << 20)
				require.NoError(t, err)
				require.NoError(t, use(user, buf))
				require.NoError(t, buf.Close())
				assert.NotZero(t, dev.Allocator().Stats().Waiting)
				release()
				require.NoError(t, dev.Allocator().EmptyCache(background))
				s := dev.Allocator().Stats()
				assert.Zero(t, s.Waiting)
				assert.Zero(t, s.Reserved)
			})
		}
	}
}

// TestCacheTakesBackWithoutWaiting: once the second stream has passed, the memory is used
// again without another call to the device's allocator.
func TestCacheTakesBackWithoutWaiting(t *testing.T) {
	dev := acltest.Device(t, acltest.Open(t), 0)
	owner, user := acltest.Stream(t, dev), acltest.Stream(t, dev)
	require.NoError(t, dev.Allocator().EmptyCache(background))
	buf, err := owner.Malloc(24 << 20)
	require.NoError(t, err)
	at := buf.Address()
	release := hold(t, user)
	require.NoError(t, user.Memset(buf, 1, 1))
	require.NoError(t, buf.Close())
	assert.NotEqual(t, at, malloc(t, owner, 24<<20).Address())
	release()
	require.NoError(t, user.Synchronize(background))
	before := dev.Allocator().Stats()
	assert.Equal(t, at, malloc(t, owner, 24<<20).Address())
	assert.Equal(t, before.DeviceMallocs, dev.Allocator().Stats().DeviceMallocs)
}

func TestEmptyCacheWaitsNoLongerThanAsked(t *testing.T) {
	dev := acltest.Device(t, acltest.Open(t), 0)
	st := acltest.Stream(t, dev)
	release := hold(t, st)
	buf, err := st.Malloc(1 << 20)
	require.NoError(t, err)
	require.NoError(t, buf.Close())
	ctx, cancel := context.WithTimeout(background, 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, dev.Allocator().EmptyCache(ctx), context.DeadlineExceeded)
	assert.NotZero(t, dev.Allocator().Stats().Cached())
	release()
	require.NoError(t, dev.Allocator().EmptyCache(background))
	assert.Zero(t, dev.Allocator().Stats().Reserved)
	assert.NotZero(t, dev.Allocator().Stats().PeakReserved)
	dev.Allocator().ResetPeaks()
	assert.Zero(t, dev.Allocator().Stats().PeakReserved)
	assert.NotZero(t, dev.Allocator().TakePeak())
	assert.Zero(t, dev.Allocator().TakePeak(), "nothing is in use")
}

// TestOutOfMemory: the cache is given back before the device is said to be full, and the
// error reports what is held.
func TestOutOfMemory(t *testing.T) {
	dev := acltest.Device(t, acltest.Open(t), 0)
	st, other := acltest.Stream(t, dev), acltest.Stream(t, dev)
	free, _, err := dev.MemInfo()
	require.NoError(t, err)
	if free > 1<<30 {
		t.Skip("the device is too large to be filled")
	}
	most := int(free/4*3) &^ (2<<20 - 1)
	buf, err := st.Malloc(most)
	require.NoError(t, err)
	for name, alloc := range map[string]func(int) (*acl.Buffer, error){"stream": other.Malloc, "device": dev.Malloc} {
		_, err = alloc(most)
		e := requireError(t, err, acl.ErrOutOfMemory, 207001)
		assert.Contains(t, e.Message, "this process holds", name)
		assert.Equal(t, acl.DamageNone, e.Damage())
	}
	// The block is in use by a busy stream: it comes after a wait.
	release := hold(t, st)
	require.NoError(t, st.Memset(buf, 1, 10))
	require.NoError(t, buf.Close())
	got := make(chan *acl.Buffer)
	go func() {
		b, err := other.Malloc(most)
		assert.NoError(t, err)
		got <- b
	}()
	release()
	b := <-got
	require.NotNil(t, b)
	assert.NotZero(t, dev.Allocator().Stats().Retries)
	require.NoError(t, b.Close())
}

func TestClosedAllocator(t *testing.T) {
	dev, err := acltest.Open(t).Device(0)
	require.NoError(t, err)
	require.NoError(t, dev.Close())
	requireError(t, dev.Allocator().EmptyCache(background), acl.ErrClosed, 0)
	_, err = dev.Malloc(1)
	requireError(t, err, acl.ErrClosed, 0)
}

// TestSegmentsFillPages: the device gives no more than the cache asks for. Segments are multiples
// of 2 MiB, which take a huge page more when CANN adds its 32 bytes.
func TestSegmentsFillPages(t *testing.T) {
	dev := acltest.Device(t, acltest.Open(t), 0)
	require.NoError(t, dev.Allocator().EmptyCache(background))
	free := func() int {
		n, _, err := dev.MemInfo()
		require.NoError(t, err)
		return n
	}
	before, reserved := free(), dev.Allocator().Stats().Reserved
	for _, n := range []int{1000, 3 << 20, 12 << 20} {
		buf, err := dev.Malloc(n)
		require.NoError(t, err)
		defer buf.Close()
		assert.Equal(t, dev.Allocator().Stats().Reserved-reserved, before-free(), "%d bytes", n)
	}
}

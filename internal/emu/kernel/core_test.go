package kernel

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestJoin: of two threads on one core the second moves, and both may run everywhere afterwards.
func TestJoin(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all, now unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(0, &all))
	first := current()
	if all.Count() < 2 || first >= 64 {
		t.Skip("this process may use one core only, or not the first 64")
	}
	var c crew
	c.cores.Store(1 << first)
	c.join()
	require.NoError(t, unix.SchedGetaffinity(0, &now))
	assert.Equal(t, all, now)
	assert.NotEqual(t, uint64(1)<<first, c.cores.Load(), "it stayed on core %d", first)

	c.cores.Store(^uint64(0))
	c.join()
	require.NoError(t, unix.SchedGetaffinity(0, &now))
	assert.Equal(t, all, now, "with no free core it stays")
	assert.EqualValues(t, 2, c.started.Load())
}

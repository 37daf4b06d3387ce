package hccl_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/cshim"
	"github.com/goascend/cann/hccl"
)

// TestMemoryOfCollectives: memory that a collective of another stream uses is not given out again
// before the collective has ended, and closed memory is refused. The emulator's sanitizer agrees.
func TestMemoryOfCollectives(t *testing.T) {
	t.Run("as it is", testMemoryOfCollectives)
	if cshim.Emulated {
		t.Run("sanitized", func(t *testing.T) { acltest.Rerun(t, testMemoryOfCollectives, "CANN_EMU_SANITIZE=race") })
	}
}

func testMemoryOfCollectives(t *testing.T) {
	joined(t, 1, func(st *acl.Stream, c *hccl.Comm) {
		dev := st.Device()
		home := acltest.Stream(t, dev)
		waiting := func() int { return dev.Allocator().Stats().Waiting }
		gate := make(chan struct{})
		open := sync.OnceFunc(func() { close(gate) })
		defer open()
		require.NoError(t, st.HostFunc(func() { <-gate }))
		for name, collective := range map[string]func(x, y *aclnn.Tensor) error{
			"AllReduce": func(x, y *aclnn.Tensor) error { return c.AllReduce(st, x, y, hccl.Sum) },
			"Broadcast": func(x, _ *aclnn.Tensor) error { return c.Broadcast(st, x, 0) },
			"AllGatherV": func(x, y *aclnn.Tensor) error {
				return c.AllGatherV(st, x, y, hccl.Packed(x.Len()))
			},
			"Exchange": func(x, y *aclnn.Tensor) error {
				return c.Exchange(st, hccl.SendTo(0, x), hccl.RecvFrom(0, y))
			},
		} {
			x, err := aclnn.New(home, aclnn.Float32, 1000)
			require.NoError(t, err)
			y, err := aclnn.New(home, aclnn.Float32, 1000)
			require.NoError(t, err)
			require.NoError(t, collective(x, y), name)
			before := waiting()
			require.NoError(t, x.Close())
			require.GreaterOrEqual(t, waiting(), before+4000, name)
			require.ErrorIs(t, collective(x, y), acl.ErrClosed, name)
			require.NoError(t, y.Close())
		}
		open()
		require.NoError(t, st.Synchronize(t.Context()))
		require.NoError(t, dev.Allocator().EmptyCache(t.Context()), "the device takes back what no work uses")
	})
}

package hccl_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/hccl"
)

// joined runs f on n ranks of this process, each with a device, a stream and a communicator.
func joined(t *testing.T, n int, f func(st *acl.Stream, c *hccl.Comm)) {
	streams := devices(t, n)
	info, err := hccl.NewRootInfo(streams[0])
	require.NoError(t, err)
	var wg sync.WaitGroup
	for i, st := range streams {
		wg.Go(func() {
			c, err := hccl.Join(t.Context(), st, hccl.RootInfo{ID: info.ID, Rank: i, Size: n}, hccl.Config{})
			if !assert.NoError(t, err) {
				return
			}
			f(st, c)
			assert.NoError(t, st.Synchronize(context.Background()))
			assert.NoError(t, c.AsyncError())
			assert.NoError(t, c.Close())
			assert.NoError(t, c.Close(), "closing twice")
			assert.ErrorIs(t, c.Barrier(st), acl.ErrClosed)
		})
	}
	wg.Wait()
}

// The collectives of tensors give the right results, and refuse tensors that do not fit before HCCL
// is called.
func TestComm(t *testing.T) {
	ctx := context.Background()
	joined(t, 4, func(st *acl.Stream, c *hccl.Comm) {
		r := float32(c.Rank())
		tensor := func(values ...float32) *aclnn.Tensor {
			x, err := aclnn.New(st, aclnn.Float32, int64(len(values)))
			if assert.NoError(t, err) {
				assert.NoError(t, aclnn.CopyToDevice(ctx, st, x, values))
			}
			return x
		}
		equal := func(x *aclnn.Tensor, want ...float32) {
			got := make([]float32, len(want))
			assert.NoError(t, aclnn.CopyFromDevice(ctx, st, got, x))
			assert.Equal(t, want, got)
		}
		one, four, out := tensor(r), tensor(r, r+10, r+20, r+30), tensor(0, 0, 0, 0)
		short, err := aclnn.New(st, aclnn.Float16, 4)
		assert.NoError(t, err)
		all := []*aclnn.Tensor{one, four, out, short}

		assert.NoError(t, c.AllGather(st, one, out))
		equal(out, 0, 1, 2, 3)
		assert.NoError(t, c.AllReduce(st, out, out, hccl.Sum))
		equal(out, 0, 4, 8, 12)
		assert.NoError(t, c.AllToAll(st, four, out))
		equal(out, 10*r, 10*r+1, 10*r+2, 10*r+3)
		assert.NoError(t, c.ReduceScatter(st, four, one, hccl.Max))
		equal(one, 10*r+3)
		assert.NoError(t, c.Broadcast(st, one, 2))
		equal(one, 23)
		if c.Rank() == 0 {
			assert.NoError(t, c.Send(st, four, 3))
		}
		if c.Rank() == 3 {
			assert.NoError(t, c.Recv(st, four, 0))
			equal(four, 0, 10, 20, 30)
		}
		assert.NoError(t, c.Barrier(st))

		assert.ErrorIs(t, c.AllReduce(st, four, one, hccl.Sum), acl.ErrInvalidArgument, "sizes")
		assert.ErrorIs(t, c.AllReduce(st, four, short, hccl.Sum), acl.ErrInvalidArgument, "dtypes")
		assert.ErrorIs(t, c.AllReduce(st, nil, one, hccl.Sum), acl.ErrInvalidArgument, "nil")
		assert.ErrorIs(t, c.Broadcast(st, one, 4), acl.ErrInvalidArgument, "root")
		assert.ErrorIs(t, c.AllReduce(st, one, one, 9), acl.ErrNotSupported, "operation")
		var e *hccl.Error
		if assert.ErrorAs(t, c.AllToAll(st, one, one), &e) {
			assert.Equal(t, "HcclAlltoAll", e.Op)
			assert.Equal(t, c.Rank(), e.Rank)
		}
		for _, x := range all {
			assert.NoError(t, x.Close())
		}
	})
}

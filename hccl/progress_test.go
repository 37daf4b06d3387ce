package hccl_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/hccl"
	"github.com/goascend/cann/hccl/world"
)

// A watchdog names the rank that has not queued the collective for which the others wait, and names
// the collective. When the rank queues it, all continue.
func TestWatchdogOfComm(t *testing.T) {
	const ranks, late = 3, 1
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	groups, err := world.LocalGroups(ctx, ranks, world.GroupConfig{})
	require.NoError(t, err)
	stalls := make(chan *world.StallError, ranks)
	joined(t, ranks, func(st *acl.Stream, c *hccl.Comm) {
		if !assert.Zero(t, c.Progress()) || !assert.NoError(t, c.Track(st.Device())) {
			return
		}
		w := world.StartWatchdog(groups[c.Rank()], world.WatchdogConfig{
			Interval: 10 * time.Millisecond, Stall: time.Second,
			OnFault: func(err error) {
				var stall *world.StallError
				if assert.ErrorAs(t, err, &stall) {
					stalls <- stall
				}
			},
		})
		defer func() { assert.NoError(t, w.Close()) }()
		forget := w.Watch(c)
		defer forget()
		x, err := aclnn.Zeros(st, aclnn.Float32, 5)
		if !assert.NoError(t, err) {
			return
		}
		defer x.Close()
		for range 40 { // more than there are events at first
			assert.NoError(t, c.AllReduce(st, x, x, hccl.Sum))
		}
		assert.NoError(t, st.Synchronize(ctx))
		p := c.Progress()
		assert.EqualValues(t, 40, p.Done)
		assert.Equal(t, "HcclAllReduce float32[5] sum", p.Op)
		if c.Rank() == late {
			for range ranks { // until every rank has reported it
				stall := <-stalls
				assert.ErrorIs(t, stall, world.ErrStalled)
				assert.Equal(t, []int{late}, stall.Ranks)
				assert.EqualValues(t, 41, stall.Seq)
			}
		}
		assert.NoError(t, c.Broadcast(st, x, 2))
		assert.NoError(t, st.Synchronize(ctx))
		p = c.Progress()
		assert.EqualValues(t, 41, p.Done)
		assert.Zero(t, p.Since)
		assert.Equal(t, "HcclBroadcast float32[5] root 2", p.Op)
	})
	require.False(t, errors.Is(ctx.Err(), context.DeadlineExceeded))
	counts := map[int]uint64{}
	for _, q := range hccl.LastQueued(ranks * 41) {
		counts[q.Rank]++
		assert.Equal(t, counts[q.Rank], q.Number)
		call := "HcclAllReduce float32[5] sum"
		if q.Number > 40 {
			call = "HcclBroadcast float32[5] root 2"
		}
		assert.Equal(t, call, q.Call)
		assert.NotEmpty(t, q.Comm)
		assert.Equal(t, q.Rank, q.Device)
		assert.Equal(t, ranks, q.Size)
		assert.False(t, q.Exchange)
	}
	assert.Equal(t, map[int]uint64{0: 41, 1: 41, 2: 41}, counts)
}

// TestProgressFarAhead: what has ended counts on a rank that has queued many collectives and exchanges more.
func TestProgressFarAhead(t *testing.T) {
	const all, first = 200, 70
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	seen := make(chan struct{})
	joined(t, 2, func(st *acl.Stream, c *hccl.Comm) {
		if !assert.NoError(t, c.Track(st.Device())) {
			return
		}
		x, err := aclnn.Zeros(st, aclnn.Float32, 5)
		if !assert.NoError(t, err) {
			return
		}
		defer x.Close()
		for i := range all {
			if c.Rank() == 1 && i == first {
				select { // until rank 0 has seen that the first ones have ended
				case <-seen:
				case <-ctx.Done():
				}
			}
			assert.NoError(t, c.AllReduce(st, x, x, hccl.Sum))
			if c.Rank() == 0 {
				assert.NoError(t, c.Send(st, x, 1))
			} else {
				assert.NoError(t, c.Recv(st, x, 0))
			}
		}
		if c.Rank() == 0 {
			for p := c.Progress(); assert.NoError(t, ctx.Err()) && (p.Done < first || p.Exchanged < first); p = c.Progress() {
				time.Sleep(time.Millisecond)
			}
			p := c.Progress()
			assert.EqualValues(t, all, p.Seq)
			assert.EqualValues(t, first, p.Done)
			assert.EqualValues(t, all, p.Exchanges)
			assert.EqualValues(t, first, p.Exchanged)
			close(seen)
		}
		assert.NoError(t, st.Synchronize(ctx))
		p := c.Progress()
		assert.EqualValues(t, all, p.Done)
		assert.EqualValues(t, all, p.Exchanged)
		assert.Zero(t, p.Since)
	})
}

// TestProgressOfExchanges: barriers count as collectives; sends, receives and batches are counted
// apart, with their peers, and a watchdog names the rank that has not come to an exchange.
func TestProgressOfExchanges(t *testing.T) {
	const ranks, late = 3, 2
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	groups, err := world.LocalGroups(ctx, ranks, world.GroupConfig{})
	require.NoError(t, err)
	stalls := make(chan *world.StallError, ranks)
	joined(t, ranks, func(st *acl.Stream, c *hccl.Comm) {
		if !assert.NoError(t, c.Track(st.Device())) {
			return
		}
		w := world.StartWatchdog(groups[c.Rank()], world.WatchdogConfig{
			Interval: 10 * time.Millisecond, Stall: time.Second,
			OnFault: func(err error) {
				var stall *world.StallError
				if assert.ErrorAs(t, err, &stall) {
					stalls <- stall
				}
			},
		})
		defer func() { assert.NoError(t, w.Close()) }()
		defer w.Watch(c)()
		x, err := aclnn.FromSlice(ctx, st, aclnn.Float32, []float32{1, 2}, 2)
		if !assert.NoError(t, err) {
			return
		}
		defer x.Close()
		assert.NoError(t, c.Barrier(st))
		if c.Rank() == 0 {
			assert.NoError(t, c.Send(st, x, 1))
		} else if c.Rank() == 1 {
			assert.NoError(t, c.Recv(st, x, 0))
		}
		assert.NoError(t, st.Synchronize(ctx))
		p := c.Progress()
		assert.Equal(t, "HcclBarrier", p.Op)
		assert.EqualValues(t, 1, p.Done)
		assert.EqualValues(t, min(1, 2-c.Rank()), p.Exchanged)
		assert.Equal(t, c.Rank(), p.Rank)

		exchange := func() error {
			return c.Exchange(st, hccl.SendTo((c.Rank()+1)%ranks, x), hccl.RecvFrom((c.Rank()+2)%ranks, x))
		}
		if c.Rank() == late {
			for range ranks { // until every rank has reported it
				stall := <-stalls
				assert.ErrorIs(t, stall, world.ErrStalled)
				assert.Equal(t, []int{late}, stall.Ranks)
				assert.ErrorContains(t, stall, "is in exchange 2 (HcclBatchSendRecv with ranks [0 2])")
			}
		}
		assert.NoError(t, exchange())
		assert.NoError(t, st.Synchronize(ctx))
		p = c.Progress()
		assert.Equal(t, p.Exchanges, p.Exchanged)
		assert.Empty(t, p.Exchange)
		assert.Zero(t, p.Since)
	})
	require.False(t, errors.Is(ctx.Err(), context.DeadlineExceeded))
}

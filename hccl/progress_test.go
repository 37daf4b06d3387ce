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
		x, err := aclnn.New(st, aclnn.Float32, 5)
		if !assert.NoError(t, err) {
			return
		}
		defer x.Close()
		for range 40 { // more than there are events
			assert.NoError(t, c.AllReduce(st, x, x, hccl.Sum))
		}
		assert.NoError(t, st.Synchronize(ctx))
		p := c.Progress()
		assert.EqualValues(t, 40, p.Done)
		assert.Equal(t, "HcclAllReduce float32[5] sum", p.Op)
		if c.Rank() == late {
			for range ranks { // until every rank has said so
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
}

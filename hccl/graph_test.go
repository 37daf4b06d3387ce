package hccl_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/hccl"
)

// TestGraphOfCollectives: a graph contains collectives and messages. Every rank replays its own
// graph, and the tracker, which could not ask for the events of a capture, leaves them out.
func TestGraphOfCollectives(t *testing.T) {
	ctx := context.Background()
	joined(t, 2, func(st *acl.Stream, c *hccl.Comm) {
		x, err := aclnn.New(st, aclnn.Float32, 3)
		assert.NoError(t, err)
		y, err := aclnn.New(st, aclnn.Float32, 3)
		assert.NoError(t, err)
		defer func() { assert.NoError(t, x.Close()); assert.NoError(t, y.Close()) }()
		assert.NoError(t, c.Track(st.Device()))
		assert.NoError(t, aclnn.CopyToDevice(ctx, st, x, []float32{1, 2, float32(c.Rank())}))
		g, err := st.Capture(ctx, acl.CaptureThreadLocal, func() error {
			if err := c.AllReduce(st, x, x, hccl.Sum); err != nil {
				return err
			}
			return c.Exchange(st, hccl.SendTo(1-c.Rank(), x), hccl.RecvFrom(1-c.Rank(), y))
		})
		if !assert.NoError(t, err) {
			return
		}
		assert.Equal(t, 24, g.Memory().Buffers, "the graph holds the memory of its collectives")
		for range 10 {
			assert.NoError(t, g.Replay(st))
		}
		got := make([]float32, 3)
		assert.NoError(t, aclnn.CopyFromDevice(ctx, st, got, y))
		assert.Equal(t, []float32{1024, 2048, 512}, got)
		assert.Zero(t, c.Progress().Seq)
		assert.NoError(t, c.AllReduce(st, x, x, hccl.Sum))
		assert.NoError(t, st.Synchronize(ctx))
		assert.EqualValues(t, 1, c.Progress().Done)
		assert.NoError(t, g.Close())
	})
}

// TestGraphOutlivesCommunicator: a communicator whose collectives are in a graph cannot be closed
// before the graph. A capture that fails leaves nothing behind.
func TestGraphOutlivesCommunicator(t *testing.T) {
	ctx := context.Background()
	joined(t, 2, func(st *acl.Stream, c *hccl.Comm) {
		x, err := aclnn.New(st, aclnn.Float32, 3)
		assert.NoError(t, err)
		defer func() { assert.NoError(t, x.Close()) }()
		assert.NoError(t, c.AllReduce(st, x, x, hccl.Sum)) // as a capture needs
		var graphs []*acl.Graph
		for range 2 {
			g, err := st.Capture(ctx, acl.CaptureThreadLocal, func() error {
				for range 2 {
					if err := c.AllReduce(st, x, x, hccl.Sum); err != nil {
						return err
					}
				}
				return c.Barrier(st)
			})
			if !assert.NoError(t, err) {
				return
			}
			graphs = append(graphs, g)
		}
		wrong := errors.New("wrong")
		_, err = st.Capture(ctx, acl.CaptureThreadLocal, func() error {
			return errors.Join(c.AllReduce(st, x, x, hccl.Sum), wrong)
		})
		assert.ErrorIs(t, err, wrong)
		for i, g := range graphs {
			err := c.Close()
			assert.ErrorIs(t, err, acl.ErrBusy)
			assert.ErrorContains(t, err, fmt.Sprintf("%d graphs contain collectives", len(graphs)-i))
			assert.NoError(t, g.Replay(st), "a communicator that was not closed works on")
			assert.NoError(t, st.Synchronize(ctx))
			assert.NoError(t, g.Close())
		}
	})
}

package hccl_test

import (
	"context"
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
		assert.Equal(t, uint64(24), g.Memory().Buffers, "the graph holds the memory of its collectives")
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

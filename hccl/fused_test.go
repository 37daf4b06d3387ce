package hccl_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/aclnn/half"
	"github.com/goascend/cann/hccl"
)

// Operators that compute and communicate find their ranks by the communicator's name.
func TestFusedProducts(t *testing.T) {
	const ranks, rows, depth, columns = 2, 2, 256, 3
	ctx := context.Background()
	joined(t, ranks, func(st *acl.Stream, c *hccl.Comm) {
		name, err := c.Name()
		assert.NoError(t, err)
		var all []*aclnn.Tensor
		tensor := func(value float32, shape ...int64) *aclnn.Tensor {
			x, err := aclnn.New(st, aclnn.Float16, shape...)
			if assert.NoError(t, err) {
				values := make([]half.Float16, shape[0]*shape[1])
				for i := range values {
					values[i] = half.Float16FromFloat32(value)
				}
				assert.NoError(t, aclnn.CopyToDevice(ctx, st, x, values))
			}
			all = append(all, x)
			return x
		}
		first := func(x *aclnn.Tensor, n int) []float32 {
			got, wide := make([]half.Float16, n), make([]float32, n)
			assert.NoError(t, aclnn.CopyFromDevice(ctx, st, got, x))
			for i, v := range got {
				wide[i] = v.Float32()
			}
			return wide
		}
		// Rank r multiplies by r + 1.
		x, w := tensor(1, rows, depth), tensor(float32(c.Rank()+1)/depth, depth, columns)

		sum := tensor(0, rows, columns)
		assert.NoError(t, aclnn.MatmulAllReduce(st, aclnn.MatmulAllReduceParams{X1: x, X2: w, Group: name, ReduceOp: "sum", StreamMode: 1, Output: sum}))
		assert.Equal(t, []float32{3, 3, 3, 3, 3, 3}, first(sum, rows*columns))

		block := tensor(0, rows/ranks, columns)
		assert.NoError(t, aclnn.MatmulReduceScatter(st, aclnn.MatmulReduceScatterParams{X1: x, X2: w, Group: name, ReduceOp: "sum", StreamMode: 1, Output: block}))
		assert.Equal(t, []float32{3, 3, 3}, first(block, columns))

		mine := tensor(float32(10*c.Rank()), rows, depth)
		product, gathered := tensor(0, ranks*rows, columns), tensor(0, ranks*rows, depth)
		assert.NoError(t, aclnn.AllGatherMatmul(st, aclnn.AllGatherMatmulParams{X1: mine, X2: w, Group: name, StreamMode: 1, Output: product, GatherOut: gathered}))
		k := float32(10 * (c.Rank() + 1))
		assert.Equal(t, []float32{0, 0, 0, 0, 0, 0, k, k, k, k, k, k}, first(product, ranks*rows*columns))
		assert.Equal(t, float32(10), first(gathered, ranks*rows*depth)[rows*depth])

		err = aclnn.MatmulAllReduce(st, aclnn.MatmulAllReduceParams{X1: x, X2: w, Group: "strangers", ReduceOp: "sum", StreamMode: 1, Output: sum})
		assert.ErrorContains(t, err, `no communicator named "strangers"`)
		for _, x := range all {
			assert.NoError(t, x.Close())
		}
	})
}

// TestFusedOperatorsKeepTheirCommunicator: a communicator cannot be closed while an operator that
// names it is queued, or before a graph that has captured one.
func TestFusedOperatorsKeepTheirCommunicator(t *testing.T) {
	ctx := context.Background()
	tried := make(chan struct{})
	joined(t, 2, func(st *acl.Stream, c *hccl.Comm) {
		name, err := c.Name()
		assert.NoError(t, err)
		var x [3]*aclnn.Tensor
		for i, shape := range [][]int64{{2, 256}, {256, 3}, {2, 3}} {
			x[i], err = aclnn.New(st, aclnn.Float16, shape...)
			assert.NoError(t, err)
			assert.NoError(t, aclnn.InplaceZero(st, aclnn.InplaceZeroParams{Self: x[i]}))
			defer func() { assert.NoError(t, x[i].Close()) }()
		}
		product := func() error {
			return aclnn.MatmulAllReduce(st, aclnn.MatmulAllReduceParams{X1: x[0], X2: x[1], Group: name, ReduceOp: "sum", StreamMode: 1, Output: x[2]})
		}
		if c.Rank() == 0 {
			assert.NoError(t, product())
			assert.ErrorIs(t, c.Close(), acl.ErrBusy, "the other rank has not queued its part")
			close(tried)
		} else {
			<-tried
			assert.NoError(t, product())
		}
		assert.NoError(t, st.Synchronize(ctx))

		g, err := st.Capture(ctx, acl.CaptureThreadLocal, func() error { return errors.Join(product(), product()) })
		if !assert.NoError(t, err) {
			return
		}
		assert.NoError(t, g.Replay(st))
		assert.NoError(t, st.Synchronize(ctx))
		assert.ErrorContains(t, c.Close(), "1 graphs contain collectives of the communicator, or operators that use it")
		assert.NoError(t, g.Replay(st))
		assert.NoError(t, g.Close())
	})
}

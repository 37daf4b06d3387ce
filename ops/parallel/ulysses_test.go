package parallel_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/internal/testing/opstest"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/mask"
	"github.com/goascend/cann/ops/parallel"
)

// block is part r of n of an axis.
func block(values []float32, shape []int64, axis int, r, n int) []float32 {
	k := shape[axis] / int64(n)
	return chunksOf(values, shape, axis, []mask.Range{{From: int64(r) * k, To: int64(r+1) * k}})
}

func TestUlysses(t *testing.T) {
	shape := []int64{2, 8, 4, 3} // [B, S, N, D]
	for _, n := range []int{1, 2, 4} {
		for _, dt := range opstest.FloatTypes {
			for _, split := range []mask.Split{mask.Contiguous, mask.ZigZag} {
				t.Run(fmt.Sprintf("%d ranks/%v/split %d", n, dt, split), func(t *testing.T) {
					values := opstest.Random(dt, 1, opstest.Size(shape))
					onRanks(t, n, func(r *rank) {
						u, k, ranks := parallel.NewUlysses(r.comm, split), r.comm.Rank(), int64(n)
						chunks, err := split.Chunks(8, k, n)
						require.NoError(r.T, err)
						x := r.Floats(dt, chunksOf(values, shape, 1, chunks), 2, 8/ranks, 4, 3)
						heads := r.Empty(dt, 2, 8, 4/ranks, 3)
						require.NoError(r.T, u.ToHeads(r.Stream, x, heads))
						require.Equal(r.T, block(values, shape, 2, k, n), r.Read(heads))
						// Back, into a tensor with gaps.
						back := r.Empty(dt, 2, 4, 8/ranks, 3).Transpose(1, 2)
						require.NoError(r.T, u.ToSequence(r.Stream, heads, back))
						require.Equal(r.T, r.Read(x), r.Read(back))
					})
				})
			}
		}
	}
}

// TestUlyssesGroups: groups of heads that are exchanged one after another on a stream of their own, beside what the other stream does, bring the bits of one exchange.
func TestUlyssesGroups(t *testing.T) {
	const n, groups = 2, 2
	for _, split := range []mask.Split{mask.Contiguous, mask.ZigZag} {
		onRanks(t, n, func(r *rank) {
			side, err := r.Stream.Device().NewStream()
			require.NoError(r.T, err)
			defer func() { require.NoError(r.T, side.Close()) }()
			u := parallel.NewUlysses(r.comm, split)
			x := r.Floats(aclnn.Float32, opstest.Random(aclnn.Float32, uint64(r.comm.Rank()), 2*4*8*3), 2, 4, 8, 3)
			whole, back := r.Empty(aclnn.Float32, 2, 8, 4, 3), r.Empty(aclnn.Float32, 2, 4, 8, 3)
			require.NoError(r.T, u.ToHeads(r.Stream, x, whole))
			var begun, home []*parallel.UlyssesExchange
			var parts []*aclnn.Tensor
			for g := range int64(groups) { // of each rank's four heads two
				h, err := u.BeginToHeads(r.Stream, side, x.Unflatten(2, n, 4).Narrow(3, 2*g, 2))
				require.NoError(r.T, err)
				begun, parts = append(begun, h), append(parts, r.Empty(aclnn.Float32, 2, 8, 2, 3))
			}
			for g, h := range begun {
				require.NoError(r.T, h.End(parts[g]))
				require.Equal(r.T, r.Read(whole.Narrow(2, 2*int64(g), 2)), r.Read(parts[g]))
				require.ErrorContains(r.T, h.End(parts[g]), "has ended")
				h, err := u.BeginToSequence(r.Stream, side, parts[g])
				require.NoError(r.T, err)
				home = append(home, h)
			}
			for g, h := range home {
				require.NoError(r.T, h.End(back.Unflatten(2, n, 4).Narrow(3, 2*int64(g), 2)))
			}
			require.Equal(r.T, r.Read(x), r.Read(back))

			// What is not ended is closed, and a refused result closes too.
			h, err := u.BeginToHeads(r.Stream, side, x)
			require.NoError(r.T, err)
			require.NoError(r.T, h.Close())
			h, err = u.BeginToHeads(r.Stream, side, x)
			require.NoError(r.T, err)
			require.ErrorContains(r.T, h.End(back), "its shape must be [2 8 4 3]")
			require.NoError(r.T, h.Close())
			_, err = u.BeginToHeads(r.Stream, side, r.Empty(aclnn.Float32, 2, 4, 4, 2, 3))
			require.ErrorIs(r.T, err, ops.ErrInvalid)
			_, err = u.BeginToSequence(r.Stream, side, r.Empty(aclnn.Float32, 2, 8, 2, 2, 3))
			require.ErrorIs(r.T, err, ops.ErrInvalid)
			require.NoError(r.T, r.Stream.Synchronize(t.Context()))
		})
	}
}

func TestUlyssesRefusals(t *testing.T) {
	onRanks(t, 2, func(r *rank) {
		u := parallel.NewUlysses(r.comm, mask.ZigZag)
		f := func(shape ...int64) *aclnn.Tensor { return r.Empty(aclnn.Float32, shape...) }
		for text, tensors := range map[string][2]*aclnn.Tensor{
			"dimension 2 must be a multiple of the 2 ranks": {f(1, 4, 3, 2), f(1, 8, 1, 2)},
			"must be [batch, sequence":                      {f(4, 3, 2), f(1, 8, 1, 2)},
			"its shape must be [1 8 2 2]":                   {f(1, 4, 4, 2), f(1, 4, 2, 2)},
			"Out is nil":                                    {f(1, 4, 4, 2), nil},
			"6 positions do not divide into 4 parts":        {f(1, 3, 4, 2), f(1, 6, 2, 2)},
		} {
			err := u.ToHeads(r.Stream, tensors[0], tensors[1])
			require.ErrorIs(r.T, err, ops.ErrInvalid)
			assert.ErrorContains(r.T, err, text)
		}
	})
}

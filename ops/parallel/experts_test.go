package parallel_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/internal/testing/opstest"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/parallel"
)

// Rows reach the rank of their expert, sorted by expert and source rank, and return to their
// places.
func TestExpertParallel(t *testing.T) {
	const experts, width = 8, 3
	type row struct{ rank, expert, number int }
	for _, group := range []struct{ ranks, shards int }{{1, 1}, {2, 1}, {4, 1}, {8, 1}, {2, 2}, {4, 2}, {8, 4}} {
		ranks, shards := group.ranks, group.shards
		for name, most := range map[string]int{"rows": 5, "no rows": 0} {
			t.Run(fmt.Sprintf("%d ranks, %d shards/%s", ranks, shards, name), func(t *testing.T) {
				// How many rows each rank has for each expert; rank 0 has none for the first half.
				counts := make([][]int, ranks)
				rng := rand.New(rand.NewPCG(1, uint64(ranks)))
				for r := range counts {
					for e := range experts {
						n := 0
						if most > 0 && (r > 0 || e >= experts/2) {
							n = rng.IntN(most)
						}
						counts[r] = append(counts[r], n)
					}
				}
				value := func(x row) float32 { return float32(x.rank*10000 + x.expert*100 + x.number) }
				onRanks(t, ranks, func(r *rank) {
					rank := r.comm.Rank()
					var values []float32
					var ends []int32
					for e, n := range counts[rank] {
						for i := range n {
							values = append(values, value(row{rank, e, i}), 1, 2)
						}
						ends = append(ends, int32(len(values)/width))
					}
					var want []float32
					var groups []int64
					block := experts * shards / ranks
					for e := rank / shards * block; e < (rank/shards+1)*block; e++ {
						n := 0
						for source := range ranks {
							for i := range counts[source][e] {
								want = append(want, value(row{source, e, i}), 1, 2)
							}
							n += counts[source][e]
						}
						groups = append(groups, int64(n))
					}
					ctx := r.T.Context()
					p, err := parallel.NewExpertParallel(r.comm, shards)
					require.NoError(r.T, err)
					plan, err := p.Plan(ctx, r.Stream, opstest.Data(r.Bench, aclnn.Int32, ends, experts))
					require.NoError(r.T, err)
					defer func() { assert.NoError(r.T, plan.Close()) }()
					assert.Equal(r.T, groups, plan.Groups().Host)
					require.EqualValues(r.T, len(want)/width, plan.Rows())

					n := int64(len(values) / width)
					mine, back := r.Empty(aclnn.Float32, plan.Rows(), width), r.Empty(aclnn.Float32, n, width)
					require.NoError(r.T, plan.Dispatch(r.Stream, r.Floats(aclnn.Float32, values, n, width), mine))
					assert.Equal(r.T, len(want), len(r.Read(mine)))
					r.Near("rows of this rank's experts", mine, want, 0)
					require.NoError(r.T, plan.Combine(r.Stream, mine, back))
					for i := range values {
						values[i] *= float32(shards) // the sum of what came back
					}
					r.Near("rows that came back", back, values, 0)
				})
			})
		}
	}
}

func TestExpertParallelRefusals(t *testing.T) {
	b := opstest.New(t)
	for _, shards := range []int{-1, 0, 2} {
		_, err := parallel.NewExpertParallel(nil, shards)
		require.ErrorIs(t, err, ops.ErrInvalid)
	}
	p, err := parallel.NewExpertParallel(nil, 1)
	require.NoError(t, err)
	_, err = p.Plan(t.Context(), b.Stream, b.Floats(aclnn.Float32, []float32{1}, 1))
	require.ErrorIs(t, err, ops.ErrInvalid)
	plan, err := p.Plan(t.Context(), b.Stream, opstest.Data(b, aclnn.Int32, []int32{1, 3}, 2))
	require.NoError(t, err)
	defer func() { require.NoError(t, plan.Close()) }()
	require.ErrorContains(t, plan.Dispatch(b.Stream, b.Empty(aclnn.Float32, 2, 4), b.Empty(aclnn.Float32, 3, 4)), "dispatch to experts")
	require.ErrorIs(t, plan.Combine(b.Stream, b.Empty(aclnn.Float32, 3, 4), b.Empty(aclnn.Float16, 3, 4)), ops.ErrInvalid)
}

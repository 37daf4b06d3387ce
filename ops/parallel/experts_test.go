package parallel_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/parallel"
)

// Rows reach the rank of their expert, sorted by expert and source rank, and return to their
// places.
func TestExpertParallel(t *testing.T) {
	const experts, width = 8, 3
	type row struct{ rank, expert, number int }
	for _, ranks := range []int{1, 2, 4, 8} {
		for name, most := range map[string]int{"rows": 5, "no rows": 0} {
			t.Run(fmt.Sprintf("%d ranks/%s", ranks, name), func(t *testing.T) {
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
					for e := rank * experts / ranks; e < (rank+1)*experts/ranks; e++ {
						n := 0
						for source := range ranks {
							for i := range counts[source][e] {
								want = append(want, value(row{source, e, i}), 1, 2)
							}
							n += counts[source][e]
						}
						groups = append(groups, int64(n))
					}
					ctx := r.t.Context()
					plan, err := parallel.NewExperts(r.comm).Plan(ctx, r.st, data(r.bench, aclnn.Int32, ends, experts))
					require.NoError(r.t, err)
					defer func() { assert.NoError(r.t, plan.Close()) }()
					assert.Equal(r.t, groups, plan.Groups().Host)
					require.EqualValues(r.t, len(want)/width, plan.Rows())

					n := int64(len(values) / width)
					mine, back := r.empty(aclnn.Float32, plan.Rows(), width), r.empty(aclnn.Float32, n, width)
					require.NoError(r.t, plan.Dispatch(r.st, r.floats(aclnn.Float32, values, n, width), mine))
					assert.Equal(r.t, len(want), len(r.read(mine)))
					r.near("rows of this rank's experts", mine, want, 0)
					require.NoError(r.t, plan.Combine(r.st, mine, back))
					r.near("rows that came back", back, values, 0)
				})
			})
		}
	}
}

func TestExpertParallelRefusals(t *testing.T) {
	b := newBench(t)
	p := parallel.NewExperts(nil)
	_, err := p.Plan(t.Context(), b.st, b.floats(aclnn.Float32, []float32{1}, 1))
	require.ErrorIs(t, err, ops.ErrInvalid)
	plan, err := p.Plan(t.Context(), b.st, data(b, aclnn.Int32, []int32{1, 3}, 2))
	require.NoError(t, err)
	defer func() { require.NoError(t, plan.Close()) }()
	require.ErrorContains(t, plan.Dispatch(b.st, b.empty(aclnn.Float32, 2, 4), b.empty(aclnn.Float32, 3, 4)), "dispatch to experts")
	require.ErrorIs(t, plan.Combine(b.st, b.empty(aclnn.Float32, 3, 4), b.empty(aclnn.Float16, 3, 4)), ops.ErrInvalid)
}

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

// TestExpertParallelOwnRows compares the rows, places, ends and excess of each rank with the choices that they come from, with room for all rows and for few.
func TestExpertParallelOwnRows(t *testing.T) {
	const experts, k, tokens, width = 8, 3, 5, 2
	for _, group := range []struct{ ranks, shards int }{{1, 1}, {2, 1}, {4, 1}, {2, 2}, {4, 2}} {
		ranks, shards := group.ranks, group.shards
		for _, room := range []int{1, 9, tokens * k} {
			t.Run(fmt.Sprintf("%d ranks, %d shards, %d rows", ranks, shards, room), func(t *testing.T) {
				all := ranks * tokens
				rng := rand.New(rand.NewPCG(3, uint64(ranks)))
				var ids []int32
				for range all {
					for _, e := range rng.Perm(experts)[:k] {
						ids = append(ids, int32(e))
					}
				}
				onRanks(t, ranks, func(r *rank) {
					rank := r.comm.Rank()
					ctx := r.T.Context()
					p, err := parallel.NewExpertParallel(r.comm, shards)
					require.NoError(r.T, err)
					var own []float32
					for i := range tokens * width {
						own = append(own, float32(rank*100+i))
					}
					x, full := r.Floats(aclnn.Float32, own, tokens, width), r.Empty(aclnn.Float32, int64(all), width)
					if ranks == 1 {
						full = x
					}
					require.NoError(r.T, p.Gather(r.Stream, x, full))

					size, group := experts*shards/ranks, rank/shards
					var rows []float32
					var ends []float32
					places := make([]float32, len(ids))
					for i := range places {
						places[i] = float32(len(ids))
					}
					n := 0
					for e := group * size; e < (group+1)*size; e++ {
						for i, id := range ids {
							if int(id) != e {
								continue
							}
							if n < room {
								token := i / k
								for c := range width {
									rows = append(rows, float32(token/tokens*100+token%tokens*width+c))
								}
								places[i] = float32(n)
							}
							n++
						}
						ends = append(ends, float32(min(n, room)))
					}
					a := &parallel.OwnRowsArgs{
						X: full, Experts: opstest.Data(r.Bench, aclnn.Int32, ids, int64(all), k), Count: experts, Rows: r.Empty(aclnn.Float32, int64(room), width),
						Places: r.Empty(aclnn.Int32, int64(len(ids))), Ends: r.Empty(aclnn.Int32, int64(size)), Excess: opstest.Data(r.Bench, aclnn.Int32, []int32{2}, 1),
					}
					require.NoError(r.T, p.Own(ctx, r.Stream, r.Registry, a))
					assert.Equal(r.T, rows, r.Read(a.Rows)[:len(rows)])
					assert.Equal(r.T, places, r.Read(a.Places))
					assert.Equal(r.T, ends, r.Read(a.Ends))
					assert.Equal(r.T, []float32{float32(max(2, n-room))}, r.Read(a.Excess))

					if ranks > 1 {
						sum := r.Empty(aclnn.Float32, tokens, width)
						require.NoError(r.T, p.Reduce(r.Stream, full, sum))
						var times []float32
						for _, v := range own {
							times = append(times, float32(ranks)*v)
						}
						assert.Equal(r.T, times, r.Read(sum))
					}
				})
			})
		}
	}
}

func TestExpertParallelOwnRowsRefusals(t *testing.T) {
	b := opstest.New(t)
	p, err := parallel.NewExpertParallel(nil, 1)
	require.NoError(t, err)
	good := func() parallel.OwnRowsArgs {
		return parallel.OwnRowsArgs{
			X: b.Empty(aclnn.Float32, 4, 2), Experts: b.Empty(aclnn.Int32, 4, 2), Count: 3, Rows: b.Empty(aclnn.Float32, 8, 2), Places: b.Empty(aclnn.Int32, 8), Ends: b.Empty(aclnn.Int32, 3),
		}
	}
	for why, change := range map[string]func(a *parallel.OwnRowsArgs){
		"Excess must say":      func(a *parallel.OwnRowsArgs) { a.Rows = b.Empty(aclnn.Float32, 7, 2) },
		"of 1 to 8 rows":       func(a *parallel.OwnRowsArgs) { a.Rows = b.Empty(aclnn.Float32, 9, 2) },
		"Excess is":            func(a *parallel.OwnRowsArgs) { a.Excess = b.Empty(aclnn.Float32, 1) },
		"positive multiple":    func(a *parallel.OwnRowsArgs) { a.Count = 0 },
		"Ends":                 func(a *parallel.OwnRowsArgs) { a.Ends = b.Empty(aclnn.Int32, 4) },
		"Places":               func(a *parallel.OwnRowsArgs) { a.Places = nil },
		"[tokens, width] and ": func(a *parallel.OwnRowsArgs) { a.Experts = b.Empty(aclnn.Int32, 5, 2) },
	} {
		a := good()
		change(&a)
		err := p.Own(t.Context(), b.Stream, b.Registry, &a)
		require.ErrorIs(t, err, ops.ErrInvalid, why)
		require.ErrorContains(t, err, why)
	}
	a := good()
	require.ErrorIs(t, p.Own(t.Context(), b.Stream, nil, &a), ops.ErrInvalid)
	require.ErrorContains(t, p.Gather(b.Stream, b.Empty(aclnn.Float32, 2, 4), b.Empty(aclnn.Float32, 4, 4)), "gather of tokens")
	require.ErrorContains(t, p.Reduce(b.Stream, b.Empty(aclnn.Float32, 2, 4), b.Empty(aclnn.Float32, 2, 4)), "must be the same tensor")
}

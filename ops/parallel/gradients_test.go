package parallel_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/parallel"
)

// After Finish each gradient is the average over the ranks, regardless of the buckets and of the
// order in which the gradients become ready.
func TestGradients(t *testing.T) {
	shapes := [][]int64{{3, 4}, {5}, {1}, {0}, {2, 2, 2}, {7}}
	for _, c := range []struct {
		ranks, bucket, buckets int
		dt                     aclnn.DType
	}{
		{1, 0, 1, aclnn.Float32}, {2, 0, 1, aclnn.Float32}, {2, 1, 5, aclnn.Float32}, {3, 60, 3, aclnn.Float32}, {2, 30, 3, aclnn.BFloat16},
	} {
		t.Run(fmt.Sprintf("%d ranks/%d bytes/%v", c.ranks, c.bucket, c.dt), func(t *testing.T) {
			value := func(rank, param, step int) float32 { return float32(4 * (1 + rank + 3*param + step)) }
			onRanks(t, c.ranks, func(r *rank) {
				g, err := parallel.NewGradients(r.Stream, r.comm, c.dt, shapes, parallel.GradientsConfig{BucketBytes: c.bucket})
				require.NoError(r.T, err)
				defer func() { require.NoError(r.T, g.Close()) }()
				require.Equal(r.T, len(shapes), g.Len())
				require.Equal(r.T, c.buckets, g.Buckets())
				for step := range 3 {
					require.NoError(r.T, g.Zero())
					order := rand.New(rand.NewPCG(uint64(step), uint64(r.comm.Rank()))).Perm(len(shapes))
					for _, i := range order {
						require.Equal(r.T, shapes[i], g.Tensor(i).Shape())
						require.True(r.T, g.Tensor(i).Contiguous())
						if g.Tensor(i).Len() > 0 {
							require.Zero(r.T, g.Tensor(i).Address()%512, "gradient %d", i)
						}
						if g.Tensor(i).Len() > 0 {
							require.NoError(r.T, aclnn.InplaceAdds(r.Stream, aclnn.InplaceAddsParams{
								Self: g.Tensor(i), Other: aclnn.Float(float64(value(r.comm.Rank(), i, step))), Alpha: aclnn.Float(1),
							}))
						}
						require.NoError(r.T, g.Ready(i))
					}
					require.NoError(r.T, g.Finish())
					for i := range shapes {
						want := float32(0)
						for rank := range c.ranks {
							want += value(rank, i, step) / float32(c.ranks)
						}
						for _, v := range r.Read(g.Tensor(i)) {
							require.InDelta(r.T, want, v, 1e-4*float64(want))
						}
					}
				}
			})
		})
	}
}

func TestGradientsScale(t *testing.T) {
	for _, n := range []int{1, 2} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			onRanks(t, n, func(r *rank) {
				g, err := parallel.NewGradients(r.Stream, r.comm, aclnn.Float32, [][]int64{{2}}, parallel.GradientsConfig{Scale: 0.25})
				require.NoError(r.T, err)
				defer func() { require.NoError(r.T, g.Close()) }()
				require.NoError(r.T, aclnn.CopyToDevice(r.T.Context(), r.Stream, g.Tensor(0), []float32{4, 8}))
				require.NoError(r.T, g.Ready(0))
				require.NoError(r.T, g.Finish())
				assert.Equal(r.T, []float32{float32(n), 2 * float32(n)}, r.Read(g.Tensor(0)))
			})
		})
	}
}

func TestGradientsRefusals(t *testing.T) {
	onRanks(t, 2, func(r *rank) {
		g, err := parallel.NewGradients(r.Stream, r.comm, aclnn.Float32, [][]int64{{2}, {2}, {2}}, parallel.GradientsConfig{})
		require.NoError(r.T, err)
		defer func() { require.NoError(r.T, g.Close()) }()
		require.NoError(r.T, g.Ready(1))
		for text, err := range map[string]error{
			"no parameter 3":       g.Ready(3),
			"no parameter -1":      g.Ready(-1),
			"parameter 1 was":      g.Ready(1),
			"[0 2] are not ready":  g.Finish(),
			"cannot have dtype":    newGradients(r, aclnn.DType(100), []int64{1}),
			"a negative dimension": newGradients(r, aclnn.Float32, []int64{-1}),
		} {
			require.ErrorContains(r.T, err, text)
		}
	})
}

func newGradients(r *rank, dt aclnn.DType, shape []int64) error {
	_, err := parallel.NewGradients(r.Stream, r.comm, dt, [][]int64{shape}, parallel.GradientsConfig{})
	return err
}

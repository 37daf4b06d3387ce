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
				g, err := parallel.NewGradients(r.st, r.comm, c.dt, shapes, parallel.GradientsConfig{BucketBytes: c.bucket})
				require.NoError(r.t, err)
				defer func() { require.NoError(r.t, g.Close()) }()
				require.Equal(r.t, len(shapes), g.Len())
				require.Equal(r.t, c.buckets, g.Buckets())
				for step := range 3 {
					require.NoError(r.t, g.Zero())
					order := rand.New(rand.NewPCG(uint64(step), uint64(r.comm.Rank()))).Perm(len(shapes))
					for _, i := range order {
						require.Equal(r.t, shapes[i], g.Tensor(i).Shape())
						require.True(r.t, g.Tensor(i).Contiguous())
						if g.Tensor(i).Len() > 0 {
							require.Zero(r.t, g.Tensor(i).Address()%512, "gradient %d", i)
						}
						if g.Tensor(i).Len() > 0 {
							require.NoError(r.t, aclnn.InplaceAdds(r.st, aclnn.InplaceAddsParams{
								SelfRef: g.Tensor(i), Other: aclnn.Float(float64(value(r.comm.Rank(), i, step))), Alpha: aclnn.Float(1),
							}))
						}
						require.NoError(r.t, g.Ready(i))
					}
					require.NoError(r.t, g.Finish())
					for i := range shapes {
						want := float32(0)
						for rank := range c.ranks {
							want += value(rank, i, step) / float32(c.ranks)
						}
						for _, v := range r.read(g.Tensor(i)) {
							require.InDelta(r.t, want, v, 1e-4*float64(want))
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
				g, err := parallel.NewGradients(r.st, r.comm, aclnn.Float32, [][]int64{{2}}, parallel.GradientsConfig{Scale: 0.25})
				require.NoError(r.t, err)
				defer func() { require.NoError(r.t, g.Close()) }()
				require.NoError(r.t, aclnn.CopyToDevice(r.t.Context(), r.st, g.Tensor(0), []float32{4, 8}))
				require.NoError(r.t, g.Ready(0))
				require.NoError(r.t, g.Finish())
				assert.Equal(r.t, []float32{float32(n), 2 * float32(n)}, r.read(g.Tensor(0)))
			})
		})
	}
}

func TestGradientsRefusals(t *testing.T) {
	onRanks(t, 2, func(r *rank) {
		g, err := parallel.NewGradients(r.st, r.comm, aclnn.Float32, [][]int64{{2}, {2}, {2}}, parallel.GradientsConfig{})
		require.NoError(r.t, err)
		defer func() { require.NoError(r.t, g.Close()) }()
		require.NoError(r.t, g.Ready(1))
		for text, err := range map[string]error{
			"no parameter 3":       g.Ready(3),
			"no parameter -1":      g.Ready(-1),
			"parameter 1 was":      g.Ready(1),
			"[0 2] are not ready":  g.Finish(),
			"cannot have dtype":    newGradients(r, aclnn.DType(100), []int64{1}),
			"a negative dimension": newGradients(r, aclnn.Float32, []int64{-1}),
		} {
			require.ErrorContains(r.t, err, text)
		}
	})
}

func newGradients(r *rank, dt aclnn.DType, shape []int64) error {
	_, err := parallel.NewGradients(r.st, r.comm, dt, [][]int64{shape}, parallel.GradientsConfig{})
	return err
}

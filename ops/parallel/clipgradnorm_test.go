package parallel_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/internal/testing/opstest"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/parallel"
)

// A model over several ranks has one norm, in which a gradient held by several ranks counts once,
// and all ranks scale by the same factor.
func TestClipGradNormOverRanks(t *testing.T) {
	const ranks, max = 3, 0.5
	for _, kernel := range []string{"ForeachNorm", "LinalgVectorNorm"} {
		t.Run(kernel, func(t *testing.T) {
			own := func(rank int) []float32 { return opstest.Random(aclnn.Float32, uint64(rank), 7) }
			shared := opstest.Random(aclnn.Float32, 99, 6)
			square := 0.0
			for _, values := range [][]float32{own(0), own(1), own(2), shared} {
				for _, x := range values {
					square += float64(x) * float64(x)
				}
			}
			norm := math.Sqrt(square)
			onRanks(t, ranks, func(r *rank) {
				require.NoError(r.T, r.ClipGradNorm().Pin(kernel))
				a := &ops.ClipGradNormArgs{
					Grads: []*aclnn.Tensor{
						r.Floats(aclnn.Float32, own(r.comm.Rank()), 7), r.Empty(aclnn.Float32, 0),
						r.Floats(aclnn.Float32, shared[:4], 2, 2), r.Floats(aclnn.Float32, shared[4:], 2),
					},
					MaxNorm: max, Norm: r.Empty(aclnn.Float32), Sum: parallel.Sum(r.comm), Copies: []int{1, 1, ranks, ranks},
				}
				opstest.Run(r.Bench, r.ClipGradNorm(), a)
				assert.InDelta(r.T, norm, r.Read(a.Norm)[0], 1e-5*norm)
				scaled := opstest.Convert(shared[4:], func(x float32) float32 { return float32(float64(x) * max / (norm + 1e-6)) })
				r.Near("a shared gradient", a.Grads[3], scaled, 1e-6)
				a.Copies = a.Copies[1:]
				assert.ErrorContains(r.T, r.ClipGradNorm().Run(r.T.Context(), r.Stream, a), "3 Copies for 4 Grads")
			})
		})
	}
}

package ops_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/internal/testing/opstest"
	"github.com/goascend/cann/ops"
)

func TestCrossEntropy(t *testing.T) {
	for _, c := range []struct {
		name   string
		labels []int64
		ignore int64
		want   []int64 // labels that are not ignored
	}{
		{"all", []int64{0, 4, 2}, -100, []int64{0, 4, 2}},
		{"one ignored", []int64{0, -100, 2}, -100, []int64{0, -1, 2}},
		{"a class ignored", []int64{0, 4, 2}, 4, []int64{0, -1, 2}},
		{"all ignored", []int64{7, 7}, 7, []int64{-1, -1}},
		{"one row", []int64{1}, -1, []int64{1}},
		{"no rows", nil, -1, nil},
	} {
		for _, dt := range opstest.FloatTypes {
			for _, stored := range []aclnn.DType{aclnn.Float32, dt} {
				t.Run(c.name+"/"+dt.String()+"/"+stored.String(), func(t *testing.T) {
					everyKernel(t, func(r *ops.Registry) dispatched { return r.CrossEntropy() },
						func(r *ops.Registry) dispatched { return r.CrossEntropyGrad() },
						func(b *opstest.Bench) bool {
							const classes = 5
							n := int64(len(c.labels))
							x, xs := b.Input(dt, 1, n, classes)
							a := ops.CrossEntropyArgs{
								Logits: x, Labels: opstest.Data(b, aclnn.Int64, c.labels, n), IgnoreIndex: &c.ignore,
								Loss: b.Empty(aclnn.Float32, 1), LogProb: b.Empty(stored, n, classes), Count: b.Empty(aclnn.Float32, 1),
							}
							dloss := b.Floats(aclnn.Float32, []float32{0.5}, 1)
							g := &ops.CrossEntropyGradArgs{CrossEntropyArgs: a, DLoss: dloss, DLogits: b.Empty(dt, n, classes)}
							opstest.Run(b, b.CrossEntropy(), &a)
							opstest.Run(b, b.CrossEntropyGrad(), g)
							loss, count := 0.0, 0.0
							dx := make([]float32, len(xs))
							for _, l := range c.want {
								if l >= 0 {
									count++
								}
							}
							for r, l := range c.want {
								sum := 0.0
								for i := range classes {
									sum += math.Exp(float64(xs[r*classes+i]))
								}
								for i := range classes {
									p := math.Exp(float64(xs[r*classes+i])) / sum
									switch {
									case l < 0:
										continue
									case int64(i) == l:
										loss -= math.Log(p)
										p--
									}
									dx[r*classes+i] = float32(0.5 * p / count)
								}
							}
							require.Equal(t, []float32{float32(count)}, b.Read(a.Count))
							if count == 0 {
								require.True(t, math.IsNaN(float64(b.Read(a.Loss)[0])), "a mean of nothing")
							} else {
								require.InEpsilon(t, loss/count, b.Read(a.Loss)[0], 1e-5, "the loss is computed in float32")
							}
							b.Near("dlogits", g.DLogits, dx, opstest.Tolerance(dt))
							return true
						})
				})
			}
		}
	}
}

// TestCrossEntropyExtremes checks that a class with probability zero does not affect the loss of
// another.
func TestCrossEntropyExtremes(t *testing.T) {
	everyKernel(t, func(r *ops.Registry) dispatched { return r.CrossEntropy() },
		func(r *ops.Registry) dispatched { return r.CrossEntropyGrad() },
		func(b *opstest.Bench) bool {
			inf := float32(math.Inf(-1))
			x := b.Floats(aclnn.Float32, []float32{0, 0, inf, 3e4, -3e4, 0}, 2, 3)
			a := ops.CrossEntropyArgs{Logits: x, Labels: opstest.Data(b, aclnn.Int32, []int32{1, 0}, 2), Loss: b.Empty(aclnn.Float32, 1), LogProb: b.Empty(aclnn.Float32, 2, 3)}
			opstest.Run(b, b.CrossEntropy(), &a)
			require.InEpsilon(b.T, math.Ln2/2, b.Read(a.Loss)[0], 1e-6)
			g := &ops.CrossEntropyGradArgs{CrossEntropyArgs: a, DLogits: b.Empty(aclnn.Float32, 2, 3)}
			opstest.Run(b, b.CrossEntropyGrad(), g)
			b.Near("dlogits", g.DLogits, []float32{.25, -.25, 0, 0, 0, 0}, 1e-6)
			return true
		})
}

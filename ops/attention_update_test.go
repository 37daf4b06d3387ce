package ops_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/internal/testing/opstest"
	"github.com/goascend/cann/ops"
)

// Updates with the results of several parts of the keys give the softmax over all keys, as float64 computes it from
// the same scores. In one row of each head the first two parts hide all keys.
func TestRingAttentionUpdate(t *testing.T) {
	const b, n, s, d, keys = 2, 3, 5, 4, 7
	blind := func(query, key int) bool { return query == 1 && key < 5 }
	parts := [][2]int{{0, 2}, {2, 5}, {5, keys}}
	for _, dt := range []aclnn.DType{aclnn.Float32, aclnn.BFloat16} {
		for _, kernel := range []string{"RingAttentionUpdate", "composite"} {
			for name, order := range map[string][]int{"BNSD": {0, 1, 2, 3}, "BSND": {0, 2, 1, 3}, "SBND": {2, 0, 1, 3}} {
				t.Run(fmt.Sprint(dt, "/", kernel, "/", name), func(t *testing.T) {
					on := opstest.New(t)
					scores, v := opstest.Random(aclnn.Float32, 1, b*n*s*keys), opstest.Random(aclnn.Float32, 2, b*n*keys*d)
					// of returns what attention to some keys gives, [b,n,s,...] in row-major order.
					of := func(from, to int) (out, top, sum []float32) {
						for row := range b * n * s {
							most, total := float64(-math.MaxFloat32), 0.0
							for k := from; k < to; k++ {
								if !blind(row%s, k) {
									most = max(most, float64(scores[row*keys+k]))
								}
							}
							o := make([]float64, d)
							for k := from; k < to; k++ {
								if blind(row%s, k) {
									continue
								}
								p := math.Exp(float64(scores[row*keys+k]) - most)
								total += p
								for i := range o {
									o[i] += p * float64(v[(row/s*keys+k)*d+i])
								}
							}
							if total == 0 {
								total = math.MaxFloat32
							}
							for _, x := range o {
								out = append(out, float32(x/total))
							}
							for range ops.SoftmaxCopies {
								top, sum = append(top, float32(most)), append(sum, float32(total))
							}
						}
						return out, top, sum
					}
					// laid brings values of [b,n,s,d] to the device in an order of the axes, and views them as [b,n,s,d].
					laid := func(dt aclnn.DType, values []float32) *aclnn.Tensor {
						whole, shape, back := on.Floats(dt, values, b, n, s, d), []int64{b, n, s, d}, make([]int, 4)
						stored := make([]int64, 4)
						for i, axis := range order {
							stored[i], back[axis] = shape[axis], i
						}
						view := on.Empty(dt, stored...).Permute(back...)
						require.NoError(t, aclnn.InplaceCopy(on.Stream, aclnn.InplaceCopyParams{Self: view, Src: whole}))
						return view
					}
					stats := func(values []float32) *aclnn.Tensor {
						return on.Floats(aclnn.Float32, values, b, n, s, ops.SoftmaxCopies)
					}
					out, top, sum := of(parts[0][0], parts[0][1])
					a := &ops.RingAttentionUpdateArgs{Out: laid(aclnn.Float32, out), SoftmaxMax: stats(top), SoftmaxSum: stats(sum)}
					op := on.RingAttentionUpdate()
					if kernel == "RingAttentionUpdate" && name == "BNSD" {
						a.Part, a.PartMax, a.PartSum = laid(dt, out), stats(top), stats(sum)
						require.Contains(t, op.Explain(a).String(), "the heads of a token do not lie one after another")
						return
					}
					require.NoError(t, op.Pin(kernel))
					for _, p := range parts[1:] {
						out, top, sum := of(p[0], p[1])
						a.Part, a.PartMax, a.PartSum = laid(dt, out), stats(top), stats(sum)
						opstest.Run(on, op, a)
					}
					out, top, sum = of(0, keys)
					contiguous := on.Empty(aclnn.Float32, b, n, s, d)
					require.NoError(t, aclnn.InplaceCopy(on.Stream, aclnn.InplaceCopyParams{Self: contiguous, Src: a.Out}))
					on.Near("out", contiguous, out, opstest.Tolerance(dt))
					on.Near("max", a.SoftmaxMax, top, 1e-6)
					on.Near("sum", a.SoftmaxSum, sum, 1e-6)
				})
			}
		}
	}
}

func TestRingAttentionUpdateRefusals(t *testing.T) {
	b := opstest.New(t)
	f := func(shape ...int64) *aclnn.Tensor { return b.Empty(aclnn.Float32, shape...) }
	for text, change := range map[string]func(a *ops.RingAttentionUpdateArgs){
		"Out is float32[3,8]":       func(a *ops.RingAttentionUpdateArgs) { a.Out = f(3, 8) },
		"Part is float32[1,2,4,8]":  func(a *ops.RingAttentionUpdateArgs) { a.Part = f(1, 2, 4, 8) },
		"SoftmaxMax is nil":         func(a *ops.RingAttentionUpdateArgs) { a.SoftmaxMax = nil },
		"PartSum is float32[1,2,3,": func(a *ops.RingAttentionUpdateArgs) { a.PartSum = f(1, 2, 3, 1) },
	} {
		a := &ops.RingAttentionUpdateArgs{Out: f(1, 2, 3, 8), SoftmaxMax: f(1, 2, 3, 8), SoftmaxSum: f(1, 2, 3, 8), Part: f(1, 2, 3, 8), PartMax: f(1, 2, 3, 8), PartSum: f(1, 2, 3, 8)}
		change(a)
		err := b.RingAttentionUpdate().Run(t.Context(), b.Stream, a)
		require.ErrorIs(t, err, ops.ErrInvalid)
		require.ErrorContains(t, err, text)
	}
}

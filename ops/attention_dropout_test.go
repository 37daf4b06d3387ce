package ops_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/internal/testing/opstest"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/mask"
)

func TestDropMask(t *testing.T) {
	for _, keep := range []float64{0, 0.1, 0.5, 0.9, 1} {
		const n = 100003
		m := ops.DropMask(7, keep, n)
		require.Len(t, m, (n+7)/8)
		kept := 0
		for i := range int64(n) {
			if ops.Kept(m, i) {
				kept++
			}
		}
		require.InDelta(t, keep, float64(kept)/n, 0.01)
		require.Equal(t, m, ops.DropMask(7, keep, n))
		require.Equal(t, keep == 0 || keep == 1, string(m) == string(ops.DropMask(8, keep, n)))
		require.Zero(t, m[len(m)-1]>>(n%8), "bits after the last probability")
	}
	require.Empty(t, ops.DropMask(1, 0.5, 0))
	require.True(t, ops.Kept([]byte{0, 4}, 10), "least significant bit first")
}

// TestAttentionDropout compares output and gradients of every kernel under a seeded mask with the
// definition. Rows have 13 keys, so that they do not end at byte boundaries.
func TestAttentionDropout(t *testing.T) {
	const heads, sq, skv, d, dv, keep, scale = 2, 5, 13, 8, 6, 0.7, 0.4
	drop := ops.DropMask(3, keep, heads*sq*skv)
	dt := aclnn.Float32
	q, k, v := opstest.Random(dt, 1, heads*sq*d), opstest.Random(dt, 2, heads*skv*d), opstest.Random(dt, 3, heads*skv*dv)
	dOut := opstest.Random(dt, 4, heads*sq*dv)
	want := dropoutByDefinition{out: make([]float32, heads*sq*dv), dq: make([]float32, len(q)), dk: make([]float32, len(k)), dv: make([]float32, len(v))}
	for h := range heads {
		for i := range sq {
			qi := q[(h*sq+i)*d:][:d]
			p, dp := make([]float64, skv), make([]float64, skv)
			sum, dot := 0.0, 0.0
			for j := range skv {
				for c := range d {
					p[j] += float64(qi[c]) * float64(k[(h*skv+j)*d+c]) * scale
				}
				p[j] = math.Exp(p[j])
				sum += p[j]
			}
			for j := range skv {
				p[j] /= sum
				if !ops.Kept(drop, int64((h*sq+i)*skv+j)) {
					continue
				}
				for c := range dv {
					o, at := (h*sq+i)*dv+c, (h*skv+j)*dv+c
					want.out[o] += float32(p[j] / keep * float64(v[at]))
					want.dv[at] += float32(p[j] / keep * float64(dOut[o]))
					dp[j] += float64(dOut[o]) * float64(v[at]) / keep
				}
				dot += p[j] * dp[j]
			}
			for j := range skv {
				ds := p[j] * (dp[j] - dot) * scale
				for c := range d {
					want.dq[(h*sq+i)*d+c] += float32(ds * float64(k[(h*skv+j)*d+c]))
					want.dk[(h*skv+j)*d+c] += float32(ds * float64(qi[c]))
				}
			}
		}
	}
	for _, layout := range []ops.Layout{ops.BNSD, ops.TND} {
		t.Run(string(layout), func(t *testing.T) {
			everyKernel(t, attention, attentionGrad, func(b *opstest.Bench) bool {
				place := func(values []float32, s, d int64) *aclnn.Tensor {
					x := b.Floats(dt, values, 1, heads, s, d)
					if layout == ops.TND {
						return b.Copied(x.Select(0, 0).Transpose(0, 1))
					}
					return x
				}
				flat := func(x *aclnn.Tensor) *aclnn.Tensor {
					if layout == ops.TND {
						return x.Transpose(0, 1)
					}
					return x
				}
				a := ops.AttentionArgs{
					Query: place(q, sq, d), Key: place(k, skv, d), Value: place(v, skv, dv), Layout: layout, Scale: scale, KeepProb: keep,
					DropMask: opstest.Data(b, aclnn.Uint8, drop, int64(len(drop))), Out: place(make([]float32, len(dOut)), sq, dv),
					SoftmaxMax: b.Empty(dt, 1, heads, sq, 8), SoftmaxSum: b.Empty(dt, 1, heads, sq, 8),
				}
				if layout == ops.TND {
					a.Mask = mask.Varlen{CuQueries: []int64{sq}, CuKeys: []int64{skv}}
					a.SoftmaxMax, a.SoftmaxSum = b.Empty(dt, sq, heads, 8), b.Empty(dt, sq, heads, 8)
				}
				g := &ops.AttentionGradArgs{
					AttentionArgs: a, DOut: place(dOut, sq, dv), DQuery: b.Empty(dt, a.Query.Shape()...),
					DKey: b.Empty(dt, a.Key.Shape()...), DValue: b.Empty(dt, a.Value.Shape()...),
				}
				if !opstest.Takes(b.Attention(), &a) || !opstest.Takes(b.AttentionGrad(), g) {
					return false
				}
				opstest.Run(b, b.Attention(), &a)
				b.Near("out", flat(a.Out), want.out, 1e-5)
				opstest.Run(b, b.AttentionGrad(), g)
				b.Near("dq", flat(g.DQuery), want.dq, 1e-5)
				b.Near("dk", flat(g.DKey), want.dk, 1e-5)
				b.Near("dv", flat(g.DValue), want.dv, 1e-5)
				return true
			})
		})
	}
}

// dropoutByDefinition is attention with dropout, and its gradients.
type dropoutByDefinition struct{ out, dq, dk, dv []float32 }

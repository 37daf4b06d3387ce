package ops_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/internal/testing/opstest"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/mask"
)

// rowShapes are the shapes that operators on rows are tried with.
var rowShapes = [][]int64{{1, 1}, {1, 8}, {3, 17}, {2, 3, 40}, {5, 2, 2, 6}, {0, 8}, {64, 1024}, {7}}

func name(dt aclnn.DType, shape []int64, spaced bool) string {
	s := fmt.Sprint(dt, shape)
	if spaced {
		s += "spaced"
	}
	return s
}

// rows runs a test for every dtype and shape, with contiguous and strided tensors.
func rows(t *testing.T, test func(t *testing.T, dt aclnn.DType, shape []int64, spaced bool)) {
	for _, dt := range opstest.FloatTypes {
		for _, shape := range rowShapes {
			for _, spaced := range []bool{false, true} {
				t.Run(name(dt, shape, spaced), func(t *testing.T) { test(t, dt, shape, spaced) })
			}
		}
	}
}

// maybe puts gaps into a tensor.
func maybe(b *opstest.Bench, spaced bool, t *aclnn.Tensor) *aclnn.Tensor {
	if spaced {
		return gaps(b, t)
	}
	return t
}

func TestRMSNorm(t *testing.T) {
	const epsilon = 1e-5
	rows(t, func(t *testing.T, dt aclnn.DType, shape []int64, spaced bool) {
		everyKernel(t, func(r *ops.Registry) dispatched { return r.RMSNorm() },
			func(r *ops.Registry) dispatched { return r.RMSNormGrad() },
			func(b *opstest.Bench) bool {
				h := shape[len(shape)-1]
				n := opstest.Size(shape) / max(h, 1)
				x, xs := b.Input(dt, 1, shape...)
				dy, dys := b.Input(dt, 2, shape...)
				for _, wide := range []aclnn.DType{dt, aclnn.Float32} {
					w, ws := b.Input(wide, 3, h)
					y, dx, dw := b.Empty(dt, shape...), b.Empty(dt, shape...), b.Empty(wide, h)
					stat := append([]int64(nil), shape...)
					stat[len(stat)-1] = 1
					forward := &ops.RMSNormArgs{X: maybe(b, spaced, x), Weight: w, Epsilon: epsilon, Out: maybe(b, spaced, y), RStd: b.Empty(aclnn.Float32, stat...)}
					opstest.Run(b, b.RMSNorm(), forward)
					wantY, wantDX, wantDW := make([]float32, n*h), make([]float32, n*h), make([]float32, h)
					for r := range n {
						square, dot := 0.0, 0.0
						for i := range h {
							square += float64(xs[r*h+i]) * float64(xs[r*h+i])
							dot += float64(dys[r*h+i]) * float64(ws[i]) * float64(xs[r*h+i])
						}
						rstd := 1 / math.Sqrt(square/float64(h)+epsilon)
						for i := range h {
							normed := float64(xs[r*h+i]) * rstd
							wantY[r*h+i] = float32(normed * float64(ws[i]))
							wantDX[r*h+i] = float32(rstd * (float64(dys[r*h+i])*float64(ws[i]) - normed*dot*rstd/float64(h)))
							wantDW[i] += float32(float64(dys[r*h+i]) * normed)
						}
					}
					b.Near("y", forward.Out, wantY, opstest.Tolerance(dt))
					backward := &ops.RMSNormGradArgs{DOut: maybe(b, spaced, dy), X: forward.X, RStd: forward.RStd, Weight: w, DX: maybe(b, spaced, dx), DWeight: dw}
					opstest.Run(b, b.RMSNormGrad(), backward)
					if h > 1 { // a row of one has a gradient of rounding errors only
						b.Near("dx", backward.DX, wantDX, 2*opstest.Tolerance(dt))
					}
					b.Near("dw", dw, wantDW, opstest.Tolerance(wide))
					backward.Accumulate = true
					opstest.Run(b, b.RMSNormGrad(), backward)
					b.Near("twice dw", dw, opstest.Convert(wantDW, func(v float32) float32 { return 2 * v }), opstest.Tolerance(wide))
					// Without a gradient to come the statistics are not needed.
					forward.RStd = nil
					opstest.Run(b, b.RMSNorm(), forward)
					b.Near("y again", forward.Out, wantY, opstest.Tolerance(dt))
				}
				return true
			})
	})
}

func TestSwiGLU(t *testing.T) {
	sigmoid := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	rows(t, func(t *testing.T, dt aclnn.DType, half []int64, spaced bool) {
		everyKernel(t, func(r *ops.Registry) dispatched { return r.SwiGLU() },
			func(r *ops.Registry) dispatched { return r.SwiGLUGrad() },
			func(b *opstest.Bench) bool {
				i := half[len(half)-1]
				shape := append(append([]int64(nil), half[:len(half)-1]...), 2*i)
				x, xs := b.Input(dt, 1, shape...)
				dy, dys := b.Input(dt, 2, half...)
				y, dx := b.Empty(dt, half...), b.Empty(dt, shape...)
				forward := &ops.SwiGLUArgs{X: maybe(b, spaced, x), Out: maybe(b, spaced, y)}
				opstest.Run(b, b.SwiGLU(), forward)
				backward := &ops.SwiGLUGradArgs{DOut: maybe(b, spaced, dy), X: forward.X, DX: maybe(b, spaced, dx)}
				opstest.Run(b, b.SwiGLUGrad(), backward)
				wantY, wantDX := make([]float32, len(dys)), make([]float32, len(xs))
				for at, d := range dys {
					gate := int64(at)/i*2*i + int64(at)%i
					g, u := float64(xs[gate]), float64(xs[gate+i])
					s := sigmoid(g)
					wantY[at] = float32(g * s * u)
					wantDX[gate] = float32(float64(d) * u * s * (1 + g*(1-s)))
					wantDX[gate+i] = float32(float64(d) * g * s)
				}
				b.Near("y", forward.Out, wantY, opstest.Tolerance(dt))
				b.Near("dx", backward.DX, wantDX, opstest.Tolerance(dt))
				return true
			})
	})
}

func TestRoPE(t *testing.T) {
	for _, dt := range opstest.FloatTypes {
		for _, c := range []struct {
			shape, table [4]int64
			keys         int64 // of the third dimension; 0 without keys
		}{
			{[4]int64{2, 5, 3, 8}, [4]int64{1, 5, 1, 8}, 0},    // BSND
			{[4]int64{2, 3, 5, 8}, [4]int64{1, 1, 5, 8}, 5},    // BNSD
			{[4]int64{5, 2, 3, 8}, [4]int64{5, 1, 1, 8}, 1},    // SBND
			{[4]int64{2, 5, 3, 10}, [4]int64{2, 5, 1, 4}, 2},   // positions of each batch item, partial
			{[4]int64{3, 11, 4, 32}, [4]int64{1, 1, 4, 32}, 4}, // more repetitions than CANN takes
			{[4]int64{2, 3, 4, 8}, [4]int64{1, 1, 1, 8}, 2},    // one position
			{[4]int64{1, 1, 1, 2}, [4]int64{1, 1, 1, 2}, 0},
			{[4]int64{0, 5, 3, 8}, [4]int64{1, 5, 1, 8}, 2},
			{[4]int64{2, 3, 4, 128}, [4]int64{1, 3, 1, 128}, 2},
			{[4]int64{3, 1, 2, 128}, [4]int64{3, 1, 1, 128}, 1},
		} {
			for i := range 4 {
				spaced, interleaved := i%2 == 1, i > 1
				t.Run(fmt.Sprint(name(dt, c.shape[:], spaced), interleaved), func(t *testing.T) {
					everyKernel(t, func(r *ops.Registry) dispatched { return r.RoPE() },
						func(r *ops.Registry) dispatched { return r.RoPEGrad() },
						func(b *opstest.Bench) bool {
							// The halves of the tables differ, which a shortcut would miss.
							cos, cs := b.Input(dt, 3, c.table[:]...)
							sin, ss := b.Input(dt, 4, c.table[:]...)
							forward := &ops.RoPEArgs{Interleaved: interleaved, Cos: maybe(b, spaced, cos), Sin: maybe(b, spaced, sin)}
							backward := &ops.RoPEGradArgs{Interleaved: interleaved, Cos: forward.Cos, Sin: forward.Sin}
							var checks []func()
							rotated := func(heads int64, x, out **aclnn.Tensor, back bool) {
								shape := c.shape
								shape[2] = heads
								in, values := b.Input(dt, uint64(heads), shape[:]...)
								*x, *out = maybe(b, spaced, in), maybe(b, spaced, b.Empty(dt, shape[:]...))
								want := rotated(values, shape, cs, ss, c.table, back, interleaved)
								checks = append(checks, func() { b.Near(fmt.Sprint(heads, back), *out, want, opstest.Tolerance(dt)) })
							}
							rotated(c.shape[2], &forward.X, &forward.Out, false)
							rotated(c.shape[2], &backward.DOut, &backward.DX, true)
							if c.keys > 0 {
								rotated(c.keys, &forward.Key, &forward.KeyOut, false)
								rotated(c.keys, &backward.DKeyOut, &backward.DKey, true)
							}
							if !opstest.Takes(b.RoPE(), forward) || !opstest.Takes(b.RoPEGrad(), backward) {
								return false
							}
							opstest.Run(b, b.RoPE(), forward)
							opstest.Run(b, b.RoPEGrad(), backward)
							for _, check := range checks {
								check()
							}
							return true
						})
				})
			}
		}
	}
}

// rotated computes a rotation, or its inverse, by the definition.
func rotated(x []float32, shape [4]int64, cs, ss []float32, table [4]int64, back, interleaved bool) []float32 {
	out, d, r := append([]float32(nil), x...), shape[3], table[3]
	for row := range opstest.Size(shape[:3]) {
		i, j, k := row/(shape[1]*shape[2]), row/shape[2]%shape[1], row%shape[2]
		at := ((i%table[0]*table[1]+j%table[1])*table[2] + k%table[2]) * r
		for l := range r / 2 {
			first, second := l, l+r/2
			if interleaved {
				first, second = 2*l, 2*l+1
			}
			p, q := row*d+first, row*d+second
			c1, c2, s1, s2 := float64(cs[at+first]), float64(cs[at+second]), float64(ss[at+first]), float64(ss[at+second])
			if back {
				s1, s2 = -s2, -s1
			}
			out[p] = float32(float64(x[p])*c1 - float64(x[q])*s1)
			out[q] = float32(float64(x[q])*c2 + float64(x[p])*s2)
		}
	}
	return out
}

// TestAttentionKernelsAgree compares all kernels on sizes, layouts and masks that the golden
// data does not have.
func TestAttentionKernelsAgree(t *testing.T) {
	type problem struct {
		b, n, nkv, sq, skv, d, dv int64
	}
	cases := []struct {
		name   string
		p      problem
		layout ops.Layout
		mask   mask.Mask
		bias   ops.BiasKind
		biased []int64
		spaced bool
		dtype  aclnn.DType
	}{
		{name: "one", p: problem{1, 1, 1, 1, 1, 2, 2}, layout: ops.BNSD},
		{name: "odd", p: problem{2, 3, 1, 7, 5, 6, 5}, layout: ops.BSND, dtype: aclnn.BFloat16},
		{name: "spaced", p: problem{2, 4, 2, 6, 6, 8, 8}, layout: ops.BNSD, mask: mask.Causal{}, spaced: true},
		{name: "spaced BSH", p: problem{2, 4, 2, 6, 6, 8, 8}, layout: ops.BSH, mask: mask.Causal{}, spaced: true, dtype: aclnn.Float16},
		{name: "rows without keys", p: problem{1, 2, 2, 9, 4, 8, 8}, layout: ops.BSND, mask: mask.Causal{Anchor: mask.BottomRight}},
		{name: "items without keys", p: problem{3, 2, 1, 5, 5, 8, 8}, layout: ops.SBH, mask: mask.Padding{Lengths: []int64{0, 3, 5}}},
		{name: "left padding", p: problem{2, 2, 1, 4, 4, 8, 8}, layout: ops.BSND,
			mask: mask.Padding{Valid: []bool{false, false, true, true, true, true, true, true}, Causal: true}},
		{name: "window with a cache", p: problem{1, 2, 2, 3, 11, 8, 8}, layout: ops.BNSD, mask: mask.Band{Pre: 2, Next: 1, Anchor: mask.BottomRight}},
		{name: "prefix with a cache", p: problem{2, 2, 2, 3, 7, 8, 8}, layout: ops.BNSD, mask: mask.Prefix{Lengths: []int64{4, 7}}},
		{name: "bias after scale", p: problem{2, 2, 1, 5, 6, 8, 8}, layout: ops.BSND, bias: ops.BiasAfterScale, biased: []int64{1, 2, 5, 6}},
		{name: "bias before scale, one row", p: problem{2, 2, 1, 5, 6, 8, 8}, layout: ops.BSND, bias: ops.BiasBeforeScale, biased: []int64{2, 2, 1, 6}},
		{name: "no queries", p: problem{2, 2, 1, 0, 6, 8, 8}, layout: ops.BSND},
		{name: "no keys", p: problem{2, 2, 1, 5, 0, 8, 8}, layout: ops.BSND},
		{name: "wide heads", p: problem{1, 1, 1, 3, 3, 800, 8}, layout: ops.BSND, mask: mask.Causal{}},
		{name: "packed", p: problem{1, 4, 2, 11, 14, 8, 6}, layout: ops.TND,
			mask: mask.Varlen{CuQueries: []int64{0, 3, 3, 4, 11}, CuKeys: []int64{0, 5, 6, 7, 14}, Within: mask.Causal{Anchor: mask.BottomRight}}},
		{name: "packed window", p: problem{1, 2, 2, 8, 8, 8, 8}, layout: ops.TND, dtype: aclnn.Float16,
			mask: mask.Varlen{CuQueries: []int64{0, 5, 8}, Within: mask.Band{Pre: 1}}},
		{name: "packed prefix", p: problem{1, 2, 1, 8, 8, 8, 8}, layout: ops.TND,
			mask: mask.Varlen{CuQueries: []int64{5, 8}, Within: mask.Prefix{Lengths: []int64{2, 0}}}},
		{name: "packed sequence without keys", p: problem{1, 2, 1, 8, 5, 8, 8}, layout: ops.TND,
			mask: mask.Varlen{CuQueries: []int64{5, 8}, CuKeys: []int64{5, 5}}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var first []map[string][]float32
			everyKernel(t, attention, attentionGrad, func(b *opstest.Bench) bool {
				p := c.p
				make4 := func(seed uint64, n, s, d int64) *aclnn.Tensor {
					if c.layout == ops.TND {
						x, _ := b.Input(c.dtype, seed, s, n, d)
						return maybe(b, c.spaced, x)
					}
					x, _ := b.Input(c.dtype, seed, p.b, n, s, d)
					return maybe(b, c.spaced, in(b, c.layout, x))
				}
				a := ops.AttentionArgs{
					Query: make4(1, p.n, p.sq, p.d), Key: make4(2, p.nkv, p.skv, p.d), Value: make4(3, p.nkv, p.skv, p.dv),
					Layout: c.layout, Heads: int(p.n), Mask: c.mask, Scale: 0.4, Out: make4(4, p.n, p.sq, p.dv),
				}
				if c.biased != nil {
					a.Bias, _ = b.Input(c.dtype, 6, c.biased...)
					a.BiasKind = c.bias
				}
				if c.layout == ops.TND {
					a.SoftmaxMax, a.SoftmaxSum = b.Empty(aclnn.Float32, p.sq, p.n, 8), b.Empty(aclnn.Float32, p.sq, p.n, 8)
				} else {
					a.SoftmaxMax, a.SoftmaxSum = b.Empty(aclnn.Float32, p.b, p.n, p.sq, 8), b.Empty(aclnn.Float32, p.b, p.n, p.sq, 8)
				}
				g := &ops.AttentionGradArgs{
					AttentionArgs: a, DOut: make4(5, p.n, p.sq, p.dv),
					DQuery: make4(7, p.n, p.sq, p.d), DKey: make4(8, p.nkv, p.skv, p.d), DValue: make4(9, p.nkv, p.skv, p.dv),
				}
				if !opstest.Takes(b.Attention(), &a) || !opstest.Takes(b.AttentionGrad(), g) {
					return false
				}
				opstest.Run(b, b.Attention(), &a)
				opstest.Run(b, b.AttentionGrad(), g)
				got := map[string][]float32{"out": b.Read(a.Out), "max": b.Read(a.SoftmaxMax), "sum": b.Read(a.SoftmaxSum),
					"dq": b.Read(g.DQuery), "dk": b.Read(g.DKey), "dv": b.Read(g.DValue)}
				if first == nil {
					first = append(first, got)
				}
				for what, want := range first[0] {
					for _, v := range want {
						require.Falsef(t, math.IsNaN(float64(v)), "NaN in %s", what)
					}
					checkAgree(t, what, got[what], want, 4*opstest.Tolerance(c.dtype))
				}
				return true
			})
		})
	}
}

// checkAgree compares without the huge values that stand for rows without keys.
func checkAgree(t *testing.T, what string, got, want []float32, limit float64) {
	t.Helper()
	require.Len(t, got, len(want))
	diff, square := 0.0, 0.0
	for i, w := range want {
		if math.Abs(float64(w)) > 1e30 {
			require.Equalf(t, w, got[i], "%s[%d]", what, i)
			continue
		}
		d := float64(got[i]) - float64(w)
		diff += d * d
		square += float64(w) * float64(w)
	}
	require.LessOrEqualf(t, math.Sqrt(diff), limit*math.Sqrt(square)+1e-6, "%s: %v and %v", what, got, want)
}

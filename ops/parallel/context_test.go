package parallel_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/hccl"
	"github.com/goascend/cann/internal/testing/opstest"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/mask"
	"github.com/goascend/cann/ops/parallel"
)

// sequence is a tensor of a layout with b items, length tokens and heads of a dimension.
func sequence(layout ops.Layout, b, length, heads, d int64) (shape []int64, axis int) {
	switch layout {
	case ops.BSH:
		return []int64{b, length, heads * d}, 1
	case ops.SBH:
		return []int64{length, b, heads * d}, 0
	case ops.BSND:
		return []int64{b, length, heads, d}, 1
	}
	return []int64{b, heads, length, d}, 2
}

// contextParallel makes the context-parallel attention of a rank, which the test closes.
func contextParallel(r *rank, split mask.Split) *parallel.ContextParallel {
	p, err := parallel.NewContextParallel(r.Stream, r.Registry, r.comm, split)
	require.NoError(r.T, err)
	r.T.Cleanup(func() { assert.NoError(r.T, p.Close()) })
	return p
}

// chunksOf selects the chunks of an axis from a whole tensor's values.
func chunksOf(values []float32, shape []int64, axis int, chunks []mask.Range) []float32 {
	outer, inner := opstest.Size(shape[:axis]), opstest.Size(shape[axis+1:])
	var out []float32
	for o := range outer {
		row := values[o*shape[axis]*inner:][:shape[axis]*inner]
		for _, c := range chunks {
			out = append(out, row[c.From*inner:c.To*inner]...)
		}
	}
	return out
}

// Attention of a split sequence gives the same results and gradients as that of the whole one.
func TestContextParallel(t *testing.T) {
	const b, length, heads, kvHeads, d = 2, 16, 4, 2, 8
	rule := func(m mask.Mask) func(*opstest.Bench) mask.Mask { return func(*opstest.Bench) mask.Mask { return m } }
	// A query sees itself and about half of the other keys.
	cells := func(matrices int64) []byte {
		out := make([]byte, matrices*length*length)
		for i := range int64(len(out)) {
			if at := i % (length * length); at/length != at%length {
				out[i] = byte(i * 2654435761 >> 7 & 1)
			}
		}
		return out
	}
	dense := func(form string, shape ...int64) func(*opstest.Bench) mask.Mask {
		return func(b *opstest.Bench) mask.Mask {
			return opstest.DenseForms[form](b, cells(opstest.Size(shape)/(length*length)), shape...)
		}
	}
	masks := map[string]func(*opstest.Bench) mask.Mask{
		"none": rule(mask.None{}), "causal": rule(mask.Causal{}), "window": rule(mask.Band{Pre: 4}), "band": rule(mask.Band{Pre: 2, Next: 3}),
		"right padding":           rule(mask.Padding{Lengths: []int64{16, 11}, Causal: true}),
		"dense, shared":           dense("uint8", length, length),
		"dense, integers":         dense("visible int32", b, 1, length, length),
		"dense, additive by head": dense("additive", b, heads, length, length),
		"dense, of keys": func(on *opstest.Bench) mask.Mask {
			return opstest.DenseForms["int64"](on, append(make([]byte, length+5), 1, 1, 1, 0, 0, 0, 0, 0, 1, 1, 1), b, 1, 1, length)
		},
		"dense, replaced": func(on *opstest.Bench) mask.Mask {
			whole := make([]bool, length)
			for i := range whole {
				whole[i] = true
			}
			m := opstest.DenseForms["bool"](on, opstest.CausalCells([][]bool{whole, whole}, 1), b, 1, length, length)
			m.CausalRightPadded = true
			return m
		},
	}
	for _, layout := range []ops.Layout{ops.BSH, ops.SBH, ops.BSND, ops.BNSD} {
		for name, m := range masks {
			for _, dt := range []aclnn.DType{aclnn.Float32, aclnn.BFloat16} {
				if (layout != ops.BSND || strings.HasPrefix(name, "dense")) && dt != aclnn.Float32 || layout != ops.BSND && name == "window" {
					continue // the arithmetic does not depend on the layout, nor a mask on the dtype
				}
				if testing.Short() && (layout != ops.BSND || dt != aclnn.Float32) {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/%v", layout, name, dt), func(t *testing.T) {
					qShape, axis := sequence(layout, b, length, heads, d)
					kShape, _ := sequence(layout, b, length, kvHeads, d)
					q, k, v, dy := opstest.Random(dt, 1, opstest.Size(qShape)), opstest.Random(dt, 2, opstest.Size(kShape)), opstest.Random(dt, 3, opstest.Size(kShape)), opstest.Random(dt, 4, opstest.Size(qShape))
					if name == "right padding" {
						// The gradient of padding rows is zero.
						padding(dy, layout, qShape, axis, 1, 11)
					}
					arguments := func(b *opstest.Bench, part func([]float32, []int64) []float32, n int64) *ops.AttentionGradArgs {
						local := func(shape []int64) []int64 {
							shape = slices.Clone(shape)
							shape[axis] = n
							return shape
						}
						in := func(values []float32, shape []int64) *aclnn.Tensor {
							return b.Floats(dt, part(values, shape), local(shape)...)
						}
						return &ops.AttentionGradArgs{
							AttentionArgs: ops.AttentionArgs{
								Query: in(q, qShape), Key: in(k, kShape), Value: in(v, kShape), Layout: layout, Heads: heads, Mask: m(b), Scale: 1 / math.Sqrt(d),
								Sinks: b.Floats(aclnn.Float32, []float32{-1, 0, 1, 3}, heads), Out: b.Empty(dt, local(qShape)...),
								SoftmaxMax: b.Empty(aclnn.Float32, 2, heads, n, 8), SoftmaxSum: b.Empty(aclnn.Float32, 2, heads, n, 8),
							},
							DOut: in(dy, qShape), DQuery: b.Empty(dt, local(qShape)...), DKey: b.Empty(dt, local(kShape)...), DValue: b.Empty(dt, local(kShape)...),
							DSinks: b.Empty(aclnn.Float32, heads),
						}
					}
					want := whole(t, func(b *opstest.Bench) []*aclnn.Tensor {
						g := arguments(b, func(v []float32, _ []int64) []float32 { return v }, length)
						opstest.Run(b, b.Attention(), &g.AttentionArgs)
						opstest.Run(b, b.AttentionGrad(), g)
						return []*aclnn.Tensor{g.Out, g.DQuery, g.DKey, g.DValue, g.DSinks}
					})
					if name == "right padding" {
						padding(want[0], layout, qShape, axis, 1, 11) // rows of padding are unspecified
					}
					for _, split := range []mask.Split{mask.Contiguous, mask.ZigZag} {
						for _, n := range []int{1, 2, 4, 8} {
							if testing.Short() && n == 8 {
								continue
							}
							t.Run(fmt.Sprintf("%v/%d ranks", split, n), func(t *testing.T) {
								onRanks(t, n, func(r *rank) {
									chunks, err := split.Chunks(length, r.comm.Rank(), n)
									require.NoError(r.T, err)
									part := func(v []float32, shape []int64) []float32 { return chunksOf(v, shape, axis, chunks) }
									g := arguments(r.Bench, part, length/int64(n))
									p := contextParallel(r, split)
									require.NoError(r.T, p.Attention(r.T.Context(), r.Stream, &g.AttentionArgs))
									require.NoError(r.T, p.AttentionGrad(r.T.Context(), r.Stream, g))
									limit := 2 * opstest.Tolerance(dt)
									require.NoError(r.T, r.comm.AllReduce(r.Stream, g.DSinks, g.DSinks, hccl.Sum))
									r.Near("dSinks", g.DSinks, want[4], limit)
									for i, got := range []*aclnn.Tensor{g.Out, g.DQuery, g.DKey, g.DValue} {
										shape := qShape
										if i >= 2 {
											shape = kShape
										}
										if i == 0 && name == "right padding" {
											values := part(want[0], shape)
											have := r.Read(got)
											for j := range have {
												if values[j] == 0 {
													have[j] = 0
												}
											}
											got = r.Floats(aclnn.Float32, have, got.Shape()...)
										}
										r.Near([]string{"out", "dQuery", "dKey", "dValue"}[i], got, part(want[i], shape), limit)
									}
								})
							})
						}
					}
				})
			}
		}
	}
}

// padding clears the tokens of a batch item from a position on.
func padding(values []float32, layout ops.Layout, shape []int64, axis int, item, from int64) {
	batch := 0
	if layout == ops.SBH {
		batch = 1
	}
	for i := range values {
		rest := int64(i)
		index := make([]int64, len(shape))
		for j := len(shape) - 1; j >= 0; j-- {
			index[j] = rest % shape[j]
			rest /= shape[j]
		}
		if index[batch] == item && index[axis] >= from {
			values[i] = 0
		}
	}
}

// A rank holds its own keys and values and those of two others, so twice the ranks need half of the memory each.
func TestContextParallelMemory(t *testing.T) {
	const length, heads, d = 256, 2, 32
	peak := map[int]int{}
	for _, n := range []int{4, 8} { // two ranks need one buffer only
		onRanks(t, n, func(r *rank) {
			p := contextParallel(r, mask.ZigZag)
			f := func(width int64) *aclnn.Tensor { return r.Empty(aclnn.Float32, 1, length/int64(n), heads, width) }
			stats := func() *aclnn.Tensor { return r.Empty(aclnn.Float32, 1, heads, length/int64(n), ops.SoftmaxCopies) }
			g := &ops.AttentionGradArgs{
				AttentionArgs: ops.AttentionArgs{Query: f(d), Key: f(d), Value: f(d), Out: f(d), SoftmaxMax: stats(), SoftmaxSum: stats(), Layout: ops.BSND, Mask: mask.Causal{}, Scale: 1},
				DOut:          f(d), DQuery: f(d), DKey: f(d), DValue: f(d),
			}
			run := func() {
				require.NoError(r.T, p.Attention(r.T.Context(), r.Stream, &g.AttentionArgs))
				require.NoError(r.T, p.AttentionGrad(r.T.Context(), r.Stream, g))
				require.NoError(r.T, r.Stream.Synchronize(r.T.Context()))
			}
			run() // makes the masks that the registry keeps
			a := r.Stream.Device().Allocator()
			before := a.Stats().InUse
			a.ResetPeaks()
			run()
			require.Equal(r.T, before, a.Stats().InUse)
			if r.comm.Rank() == 0 {
				peak[n] = a.Stats().PeakInUse - before
			}
		})
	}
	t.Log("bytes above the arguments, by ranks:", peak)
	require.Less(t, float64(peak[8]), 0.6*float64(peak[4]))
}

// Packed sequences may be cut anywhere: the ranks' parts give the results and gradients of the whole row.
func TestContextParallelPacked(t *testing.T) {
	const length, heads, kvHeads, d = 48, 4, 2, 8
	rows := map[string][]int64{
		"several": {5, 5, 6, 24, 37, 48}, // with an empty sequence, and one cut by several ranks
		"one":     {48}, "a short and a long one": {3, 48}, "many": {1, 2, 3, 5, 8, 13, 21, 34, 48}, "a long one between short ones": {2, 47, 48},
	}
	qShape, kShape := []int64{length, heads, d}, []int64{length, kvHeads, d}
	for name, within := range map[string]mask.Mask{"causal": mask.Causal{}, "none": nil} {
		for row, ends := range rows {
			dt := aclnn.Float32
			if row == "several" && within == nil {
				dt = aclnn.BFloat16
			}
			q, k, v, dy := opstest.Random(dt, 1, opstest.Size(qShape)), opstest.Random(dt, 2, opstest.Size(kShape)), opstest.Random(dt, 3, opstest.Size(kShape)), opstest.Random(dt, 4, opstest.Size(qShape))
			arguments := func(b *opstest.Bench, chunks []mask.Range, n int64) *ops.AttentionGradArgs {
				in := func(values []float32, shape []int64) *aclnn.Tensor {
					return b.Floats(dt, chunksOf(values, shape, 0, chunks), n, shape[1], d)
				}
				return &ops.AttentionGradArgs{
					AttentionArgs: ops.AttentionArgs{
						Query: in(q, qShape), Key: in(k, kShape), Value: in(v, kShape), Layout: ops.TND, Heads: heads, Scale: 1 / math.Sqrt(d),
						Mask: mask.Varlen{CuQueries: ends, Within: within}, Sinks: b.Floats(aclnn.Float32, []float32{-1, 0, 1, 3}, heads),
						Out: b.Empty(dt, n, heads, d), SoftmaxMax: b.Empty(aclnn.Float32, n, heads, 8), SoftmaxSum: b.Empty(aclnn.Float32, n, heads, 8),
					},
					DOut: in(dy, qShape), DQuery: b.Empty(dt, n, heads, d), DKey: b.Empty(dt, n, kvHeads, d), DValue: b.Empty(dt, n, kvHeads, d),
					DSinks: b.Empty(aclnn.Float32, heads),
				}
			}
			all := []mask.Range{{From: 0, To: length}}
			want := whole(t, func(b *opstest.Bench) []*aclnn.Tensor {
				g := arguments(b, all, length)
				opstest.Run(b, b.Attention(), &g.AttentionArgs)
				opstest.Run(b, b.AttentionGrad(), g)
				return []*aclnn.Tensor{g.Out, g.DQuery, g.DKey, g.DValue, g.DSinks}
			})
			for _, split := range []mask.Split{mask.Contiguous, mask.ZigZag} {
				for _, n := range []int{2, 4} {
					t.Run(fmt.Sprintf("%s/%s/%v/%v/%d ranks", name, row, dt, split, n), func(t *testing.T) {
						onRanks(t, n, func(r *rank) {
							chunks, err := split.Chunks(length, r.comm.Rank(), n)
							require.NoError(r.T, err)
							g := arguments(r.Bench, chunks, length/int64(n))
							p := contextParallel(r, split)
							require.NoError(r.T, p.Attention(r.T.Context(), r.Stream, &g.AttentionArgs))
							require.NoError(r.T, p.AttentionGrad(r.T.Context(), r.Stream, g))
							for i, got := range []*aclnn.Tensor{g.Out, g.DQuery, g.DKey, g.DValue} {
								shape := qShape
								if i >= 2 {
									shape = kShape
								}
								r.Near([]string{"out", "dQuery", "dKey", "dValue"}[i], got, chunksOf(want[i], shape, 0, chunks), 2*opstest.Tolerance(dt))
							}
							require.NoError(r.T, r.comm.AllReduce(r.Stream, g.DSinks, g.DSinks, hccl.Sum))
							r.Near("dSinks", g.DSinks, want[4], 2*opstest.Tolerance(dt))
						})
					})
				}
			}
		}
	}
}

// counted counts the bytes that a rank sends and receives.
type counted struct {
	*hccl.Comm
	bytes int
}

func (c *counted) Exchange(st *acl.Stream, messages ...hccl.Message) error {
	for _, m := range messages {
		c.bytes += m.Bytes()
	}
	return c.Comm.Exchange(st, messages...)
}

// Of packed sequences, keys and values go only as far as a rank that sees them, and their gradients from there.
func TestContextParallelSendsWhatIsSeen(t *testing.T) {
	const n, length, heads, d = 4, 48, 2, 8
	const token = 2 * heads * d * 4 // bytes of keys and values, and of their gradients
	for name, row := range map[string]struct {
		ends              []int64
		forward, backward int // of all ranks together, in tokens times hops
	}{
		"no sequence is shared":     {[]int64{5, 12, 24, 30, 36, 48}, 0, 0},
		"rank 1 sees 6 of rank 0":   {[]int64{6, 18, 24, 30, 36, 48}, 6, 6 * 3},          // the gradients come home around the ring
		"ranks 2 and 3 see 2 tails": {[]int64{12, 20, 30, 40, 48}, 4 + 6, 4*3 + 6*3},     // of ranks 1 and 2
		"all see rank 0":            {[]int64{48}, 12*3 + 12*2 + 12, 12*3 + 12*3 + 12*3}, // later keys are not seen
	} {
		t.Run(name, func(t *testing.T) {
			var forward, backward atomic.Int64
			onRanks(t, n, func(r *rank) {
				comm := &counted{Comm: r.comm}
				p, err := parallel.NewContextParallel(r.Stream, r.Registry, comm, mask.Contiguous)
				require.NoError(r.T, err)
				defer func() { assert.NoError(r.T, p.Close()) }()
				f := func(seed uint64) *aclnn.Tensor {
					return r.Floats(aclnn.Float32, opstest.Random(aclnn.Float32, seed, length/n*heads*d), length/n, heads, d)
				}
				stats := func() *aclnn.Tensor { return r.Empty(aclnn.Float32, length/n, heads, ops.SoftmaxCopies) }
				g := &ops.AttentionGradArgs{
					AttentionArgs: ops.AttentionArgs{
						Query: f(1), Key: f(2), Value: f(3), Out: f(4), SoftmaxMax: stats(), SoftmaxSum: stats(), Layout: ops.TND, Heads: heads, Scale: 1,
						Mask: mask.Varlen{CuQueries: row.ends, Within: mask.Causal{}},
					},
					DOut: f(5), DQuery: f(6), DKey: f(7), DValue: f(8),
				}
				require.NoError(r.T, p.Attention(r.T.Context(), r.Stream, &g.AttentionArgs))
				forward.Add(int64(comm.bytes))
				comm.bytes = 0
				require.NoError(r.T, p.AttentionGrad(r.T.Context(), r.Stream, g))
				backward.Add(int64(comm.bytes))
			})
			require.EqualValues(t, row.forward, forward.Load()/2/token) // sent and received
			require.EqualValues(t, row.forward+row.backward, backward.Load()/2/token)
		})
	}
}

// Rows without tokens, and no rows, are nothing to compute, also for sinks and gradients.
func TestContextParallelOfNothing(t *testing.T) {
	onRanks(t, 2, func(r *rank) {
		p := contextParallel(r, mask.Contiguous)
		for name, a := range map[string]*ops.AttentionArgs{
			"no rows":   {Query: r.Empty(aclnn.Float32, 0, 4, 2, 8), Layout: ops.BSND, SoftmaxMax: r.Empty(aclnn.Float32, 0, 2, 4, 8)},
			"no tokens": {Query: r.Empty(aclnn.Float32, 1, 0, 2, 8), Layout: ops.BSND, SoftmaxMax: r.Empty(aclnn.Float32, 1, 2, 0, 8)},
			"packed":    {Query: r.Empty(aclnn.Float32, 0, 2, 8), Layout: ops.TND, Heads: 2, SoftmaxMax: r.Empty(aclnn.Float32, 0, 2, 8), Mask: mask.Varlen{CuQueries: []int64{0, 0}}},
		} {
			a.Key, a.Value, a.Out, a.SoftmaxSum, a.Scale, a.Sinks = a.Query, a.Query, a.Query, a.SoftmaxMax, 1, r.Floats(aclnn.Float32, []float32{1, 2}, 2)
			require.NoError(r.T, p.Attention(r.T.Context(), r.Stream, a), name)
			g := &ops.AttentionGradArgs{AttentionArgs: *a, DOut: a.Query, DQuery: a.Query, DKey: a.Query, DValue: a.Query, DSinks: r.Floats(aclnn.Float32, []float32{7, 7}, 2)}
			require.NoError(r.T, p.AttentionGrad(r.T.Context(), r.Stream, g), name)
			require.Equal(r.T, []float32{0, 0}, r.Read(g.DSinks), name)
		}
	})
}

func TestContextParallelRefusals(t *testing.T) {
	onRanks(t, 2, func(r *rank) {
		p := contextParallel(r, mask.ZigZag)
		f := func(shape ...int64) *aclnn.Tensor { return r.Empty(aclnn.Float32, shape...) }
		args := func(length int64, change func(*ops.AttentionArgs)) *ops.AttentionArgs {
			a := &ops.AttentionArgs{Query: f(1, length, 2, 8), Key: f(1, length, 2, 8), Value: f(1, length, 2, 8), Layout: ops.BSND, Scale: 1, Out: f(1, length, 2, 8)}
			change(a)
			return a
		}
		for text, a := range map[string]*ops.AttentionArgs{
			"do not divide into 4 parts": args(3, func(*ops.AttentionArgs) {}),
			"as many queries as keys":    args(4, func(a *ops.AttentionArgs) { a.Key, a.Value = f(1, 8, 2, 8), f(1, 8, 2, 8) }),
			"cut by positions":           args(4, func(a *ops.AttentionArgs) { a.Bias = f(1, 2, 4, 4) }),
			"it cannot be cut":           args(4, func(a *ops.AttentionArgs) { a.Mask = mask.Prefix{Lengths: []int64{2}} }),
			"none for TND":               args(4, func(a *ops.AttentionArgs) { tnd(a, f) }),
			"Out is nil":                 args(4, func(a *ops.AttentionArgs) { a.Out = nil }),
		} {
			err := p.Attention(r.T.Context(), r.Stream, a)
			require.ErrorIs(r.T, err, ops.ErrInvalid)
			assert.ErrorContains(r.T, err, text)
		}
		err := p.AttentionGrad(r.T.Context(), r.Stream, &ops.AttentionGradArgs{AttentionArgs: *args(4, func(*ops.AttentionArgs) {})})
		require.ErrorContains(r.T, err, "SoftmaxMax is nil")
	})
}

// tnd turns arguments into packed ones.
func tnd(a *ops.AttentionArgs, f func(...int64) *aclnn.Tensor) {
	a.Query, a.Key, a.Value, a.Out = f(4, 2, 8), f(4, 2, 8), f(4, 2, 8), f(4, 2, 8)
	a.Layout = ops.TND
}

package parallel_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/aclnn/half"
	"github.com/goascend/cann/internal/testing/opstest"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/parallel"
)

// ways are the numbers of ranks and the modes with which parallel layers are tested.
func ways(t *testing.T, test func(t *testing.T, n int, sequence bool, dt aclnn.DType)) {
	for _, n := range []int{1, 2, 4} {
		for _, sequence := range []bool{false, true} {
			for _, dt := range opstest.FloatTypes {
				t.Run(fmt.Sprintf("%d ranks/sequence=%t/%v", n, sequence, dt), func(t *testing.T) { test(t, n, sequence, dt) })
			}
		}
	}
}

// whole runs a computation on one device and returns its results.
func whole(t *testing.T, compute func(b *opstest.Bench) []*aclnn.Tensor) (results [][]float32) {
	t.Helper()
	acltest.Need(t)
	t.Run("one rank", func(t *testing.T) {
		b := opstest.New(t)
		for _, r := range compute(b) {
			results = append(results, b.Read(r))
		}
	})
	return results
}

// near16 is the tolerance of sums whose parts were rounded before they were added.
func near16(dt aclnn.DType) float64 { return 4 * opstest.Tolerance(dt) }

// Two projections, the first split by columns and the second by rows, give the same results as
// unsplit ones.
func TestTensorParallelLinear(t *testing.T) {
	const rows, in, mid, out = 8, 6, 12, 5
	ways(t, func(t *testing.T, n int, sequence bool, dt aclnn.DType) {
		x, w1, w2 := randomMatrix(dt, 1, rows, in), randomMatrix(dt, 2, mid, in), randomMatrix(dt, 3, out, mid)
		b1, b2, dy := randomMatrix(dt, 4, 1, mid), randomMatrix(dt, 5, 1, out), randomMatrix(dt, 6, rows, out)
		want := whole(t, func(b *opstest.Bench) []*aclnn.Tensor {
			tx, t1, t2, tdy := x.on(b, dt), w1.on(b, dt), w2.on(b, dt), dy.on(b, dt)
			h, y := b.Empty(dt, rows, mid), b.Empty(dt, rows, out)
			dh, dx := b.Empty(dt, rows, mid), b.Empty(dt, rows, in)
			dw1, dw2 := b.Empty(aclnn.Float32, mid, in), b.Empty(aclnn.Float32, out, mid)
			db1, db2 := b.Empty(aclnn.Float32, mid), b.Empty(aclnn.Float32, out)
			opstest.Run(b, b.Linear(), &ops.LinearArgs{X: tx, Weight: t1, Bias: b.Floats(dt, b1.values, mid), Out: h})
			opstest.Run(b, b.Linear(), &ops.LinearArgs{X: h, Weight: t2, Bias: b.Floats(dt, b2.values, out), Out: y})
			opstest.Run(b, b.LinearGrad(), &ops.LinearGradArgs{DOut: tdy, X: h, Weight: t2, DX: dh, DWeight: dw2, DBias: db2})
			opstest.Run(b, b.LinearGrad(), &ops.LinearGradArgs{DOut: dh, X: tx, Weight: t1, DX: dx, DWeight: dw1, DBias: db1})
			return []*aclnn.Tensor{h, y, dx, dw1, dw2, db1, db2}
		})
		onRanks(t, n, func(r *rank) {
			p := parallel.NewTensorParallel(r.Registry, r.comm, sequence)
			k, size := p.Rank(), p.Size()
			require.Equal(r.T, int64(n), size)
			rowsHere := func(m matrix) matrix { // of an activation between the pairs
				if sequence {
					return m.rowsOf(k, size)
				}
				return m
			}
			xs := rowsHere(x)
			tx, t1, t2 := xs.on(r.Bench, dt), w1.rowsOf(k, size).on(r.Bench, dt), w2.columnsOf(k, size).on(r.Bench, dt)
			part := mid / size
			h, y := r.Empty(dt, rows, part), r.Empty(dt, xs.rows, out)
			dh, dx := r.Empty(dt, rows, part), r.Empty(dt, xs.rows, in)
			dw1, dw2 := r.Empty(aclnn.Float32, part, in), r.Empty(aclnn.Float32, out, part)
			db1, db2 := r.Empty(aclnn.Float32, part), r.Empty(aclnn.Float32, out)
			ctx := r.T.Context()
			require.NoError(r.T, p.ColumnLinear(ctx, r.Stream, &ops.LinearArgs{X: tx, Weight: t1, Bias: r.Floats(dt, b1.columnsOf(k, size).values, part), Out: h}))
			require.NoError(r.T, p.RowLinear(ctx, r.Stream, &ops.LinearArgs{X: h, Weight: t2, Bias: r.Floats(dt, b2.values, out), Out: y}))
			require.NoError(r.T, p.RowLinearGrad(ctx, r.Stream, &ops.LinearGradArgs{DOut: rowsHere(dy).on(r.Bench, dt), X: h, Weight: t2, DX: dh, DWeight: dw2, DBias: db2}))
			require.NoError(r.T, p.ColumnLinearGrad(ctx, r.Stream, &ops.LinearGradArgs{DOut: dh, X: tx, Weight: t1, DX: dx, DWeight: dw1, DBias: db1}))

			limit := near16(dt)
			r.Near("h", h, matrix{want[0], rows, mid}.columnsOf(k, size).values, limit)
			r.Near("y", y, rowsHere(matrix{want[1], rows, out}).values, limit)
			r.Near("dx", dx, rowsHere(matrix{want[2], rows, in}).values, limit)
			r.Near("dw1", dw1, matrix{want[3], mid, in}.rowsOf(k, size).values, limit)
			r.Near("dw2", dw2, matrix{want[4], out, mid}.columnsOf(k, size).values, limit)
			r.Near("db1", db1, matrix{want[5], 1, mid}.columnsOf(k, size).values, limit)
			r.Near("db2", db2, want[6], limit)
		})
	})
}

// A weight of two stacked projections, [gate; up], in front of SwiGLU gives the same results on several
// ranks as on one.
func TestTensorParallelStacked(t *testing.T) {
	const rows, in, inner, out = 4, 6, 8, 5
	dt := aclnn.Float32
	x, w1, b1, w2 := randomMatrix(dt, 1, rows, in), randomMatrix(dt, 2, 2*inner, in), randomMatrix(dt, 3, 1, 2*inner), randomMatrix(dt, 4, out, inner)
	layer := func(r *opstest.Bench, p *parallel.TensorParallel) *aclnn.Tensor {
		size := p.Size()
		s := &aclnn.Scope{Stream: r.Stream}
		defer func() { require.NoError(r.T, s.Close()) }()
		weight, bias := p.CutColumns(s, w1.on(r, dt), inner, inner), p.CutColumns(s, r.Floats(dt, b1.values, 2*inner), inner, inner)
		second := p.CutRows(s, w2.on(r, dt))
		require.NoError(r.T, s.Err())
		hidden, active, y := r.Empty(dt, rows, 2*inner/size), r.Empty(dt, rows, inner/size), r.Empty(dt, rows, out)
		ctx := r.T.Context()
		require.NoError(r.T, p.ColumnLinear(ctx, r.Stream, &ops.LinearArgs{X: x.on(r, dt), Weight: weight, Bias: bias, Out: hidden}))
		opstest.Run(r, r.SwiGLU(), &ops.SwiGLUArgs{X: hidden, Out: active})
		require.NoError(r.T, p.RowLinear(ctx, r.Stream, &ops.LinearArgs{X: active, Weight: second, Out: y}))
		return y
	}
	want := whole(t, func(b *opstest.Bench) []*aclnn.Tensor {
		h, active, y := b.Empty(dt, rows, 2*inner), b.Empty(dt, rows, inner), b.Empty(dt, rows, out)
		opstest.Run(b, b.Linear(), &ops.LinearArgs{X: x.on(b, dt), Weight: w1.on(b, dt), Bias: b.Floats(dt, b1.values, 2*inner), Out: h})
		opstest.Run(b, b.SwiGLU(), &ops.SwiGLUArgs{X: h, Out: active})
		opstest.Run(b, b.Linear(), &ops.LinearArgs{X: active, Weight: w2.on(b, dt), Out: y})
		return []*aclnn.Tensor{y}
	})
	for _, n := range []int{1, 2, 4} {
		t.Run(fmt.Sprintf("%d ranks", n), func(t *testing.T) {
			onRanks(t, n, func(r *rank) {
				y := layer(r.Bench, parallel.NewTensorParallel(r.Registry, r.comm, false))
				r.Near("y", y, want[0], opstest.Tolerance(dt))
			})
		})
	}
}

// With sequence parallelism the gradients of norms cover only a part of the rows.
func TestSumPartial(t *testing.T) {
	for _, sequence := range []bool{false, true} {
		t.Run(fmt.Sprint(sequence), func(t *testing.T) {
			onRanks(t, 2, func(r *rank) {
				p := parallel.NewTensorParallel(r.Registry, r.comm, sequence)
				a, b := r.Floats(aclnn.Float32, []float32{1, 2}, 2), r.Floats(aclnn.Float32, []float32{3}, 1)
				require.NoError(r.T, p.SumPartial(r.Stream, a, b))
				factor := float32(1)
				if sequence {
					factor = 2
				}
				assert.Equal(r.T, []float32{factor, 2 * factor}, r.Read(a))
				assert.Equal(r.T, []float32{3 * factor}, r.Read(b))
			})
		})
	}
}

func TestVocabularyParallelEmbedding(t *testing.T) {
	const vocabulary, width = 12, 5
	ids := []int32{0, 11, 3, 3, 2, 6, 5, 9} // first and last of parts, and one twice
	rows := int64(len(ids))
	ways(t, func(t *testing.T, n int, sequence bool, dt aclnn.DType) {
		w, dy, before := randomMatrix(dt, 1, vocabulary, width), randomMatrix(dt, 2, rows, width), randomMatrix(aclnn.Float32, 3, vocabulary, width)
		want := whole(t, func(b *opstest.Bench) []*aclnn.Tensor {
			y, dw, more := b.Empty(dt, rows, width), b.Empty(aclnn.Float32, vocabulary, width), before.on(b, aclnn.Float32)
			tids, tdy := opstest.Data(b, aclnn.Int32, ids, rows), dy.on(b, dt)
			opstest.Run(b, b.Embedding(), &ops.EmbeddingArgs{Weight: w.on(b, dt), IDs: tids, Out: y})
			opstest.Run(b, b.EmbeddingGrad(), &ops.EmbeddingGradArgs{DOut: tdy, IDs: tids, DWeight: dw})
			opstest.Run(b, b.EmbeddingGrad(), &ops.EmbeddingGradArgs{DOut: tdy, IDs: tids, DWeight: more, Accumulate: true})
			return []*aclnn.Tensor{y, dw, more}
		})
		onRanks(t, n, func(r *rank) {
			p := parallel.NewTensorParallel(r.Registry, r.comm, sequence)
			k, size := p.Rank(), p.Size()
			rowsHere := func(m matrix) matrix {
				if sequence {
					return m.rowsOf(k, size)
				}
				return m
			}
			y, dw := r.Empty(dt, rowsHere(dy).rows, width), r.Empty(aclnn.Float32, vocabulary/size, width)
			more := before.rowsOf(k, size).on(r.Bench, aclnn.Float32)
			tids, tdy := opstest.Data(r.Bench, aclnn.Int32, ids, rows), rowsHere(dy).on(r.Bench, dt)
			ctx := r.T.Context()
			require.NoError(r.T, p.Embedding(ctx, r.Stream, &ops.EmbeddingArgs{Weight: w.rowsOf(k, size).on(r.Bench, dt), IDs: tids, Out: y}))
			require.NoError(r.T, p.EmbeddingGrad(ctx, r.Stream, &ops.EmbeddingGradArgs{DOut: tdy, IDs: tids, DWeight: dw}))
			require.NoError(r.T, p.EmbeddingGrad(ctx, r.Stream, &ops.EmbeddingGradArgs{DOut: tdy, IDs: tids, DWeight: more, Accumulate: true}))
			r.Near("y", y, rowsHere(matrix{want[0], rows, width}).values, 0)
			r.Near("dw", dw, matrix{want[1], vocabulary, width}.rowsOf(k, size).values, opstest.Tolerance(aclnn.Float32))
			r.Near("more", more, matrix{want[2], vocabulary, width}.rowsOf(k, size).values, opstest.Tolerance(aclnn.Float32))
			require.Equal(r.T, r.Read(tdy), rowsHere(dy).values, "the gradient that came in is left as it was")
		})
	})
}

func TestVocabularyParallelCrossEntropy(t *testing.T) {
	const classes = 12
	for _, c := range []struct {
		name   string
		labels []int64
		ignore int64
		scale  float32
	}{
		{"all", []int64{0, 11, 5, 6}, -100, 1},
		{"ignored", []int64{-100, 3, -100, 8}, -100, 1},
		{"a class ignored", []int64{7, 3, 2, 7}, 7, 1},
		{"all ignored", []int64{-1, -1}, -1, 1},
		{"large logits", []int64{0, 4, 8}, -100, 60},
	} {
		t.Run(c.name, func(t *testing.T) {
			ways(t, func(t *testing.T, n int, sequence bool, dt aclnn.DType) {
				if sequence {
					t.Skip("sequence parallelism does not matter to the loss: rows are whole")
				}
				rows := int64(len(c.labels))
				x := randomMatrix(dt, 1, rows, classes)
				for i := range x.values {
					x.values[i] = half.BFloat16FromFloat32(x.values[i] * c.scale).Float32()
				}
				both := func(b *opstest.Bench, logits matrix, forward func(*ops.CrossEntropyArgs) error, backward func(*ops.CrossEntropyGradArgs) error) []*aclnn.Tensor {
					a := ops.CrossEntropyArgs{
						Logits: logits.on(b, dt), Labels: opstest.Data(b, aclnn.Int64, c.labels, rows), IgnoreIndex: &c.ignore,
						Loss: b.Empty(aclnn.Float32, 1), LogProb: b.Empty(aclnn.Float32, rows, logits.width), Count: b.Empty(aclnn.Float32, 1),
					}
					require.NoError(b.T, forward(&a))
					g := &ops.CrossEntropyGradArgs{CrossEntropyArgs: a, DLoss: b.Floats(aclnn.Float32, []float32{0.5}, 1), DLogits: b.Empty(dt, rows, logits.width)}
					require.NoError(b.T, backward(g))
					return []*aclnn.Tensor{a.Loss, a.Count, a.LogProb, g.DLogits}
				}
				want := whole(t, func(b *opstest.Bench) []*aclnn.Tensor {
					return both(b, x, func(a *ops.CrossEntropyArgs) error { return b.CrossEntropy().Run(b.T.Context(), b.Stream, a) },
						func(a *ops.CrossEntropyGradArgs) error { return b.CrossEntropyGrad().Run(b.T.Context(), b.Stream, a) })
				})
				onRanks(t, n, func(r *rank) {
					p := parallel.NewTensorParallel(r.Registry, r.comm, sequence)
					k, size := p.Rank(), p.Size()
					got := both(r.Bench, x.columnsOf(k, size), func(a *ops.CrossEntropyArgs) error { return p.CrossEntropy(r.T.Context(), r.Stream, a) },
						func(a *ops.CrossEntropyGradArgs) error { return p.CrossEntropyGrad(r.T.Context(), r.Stream, a) })
					if loss := want[0][0]; math.IsNaN(float64(loss)) {
						require.True(r.T, math.IsNaN(float64(r.Read(got[0])[0])))
					} else {
						r.Near("loss", got[0], want[0], 1e-6)
					}
					require.Equal(r.T, want[1], r.Read(got[1]), "count")
					r.Near("log-probabilities", got[2], matrix{want[2], rows, classes}.columnsOf(k, size).values, 1e-6)
					r.Near("gradient", got[3], matrix{want[3], rows, classes}.columnsOf(k, size).values, opstest.Tolerance(dt))
				})
			})
		})
	}
}

func TestTensorParallelRefusals(t *testing.T) {
	onRanks(t, 2, func(r *rank) {
		ctx := r.T.Context()
		p := parallel.NewTensorParallel(r.Registry, r.comm, true)
		f := func(shape ...int64) *aclnn.Tensor { return r.Empty(aclnn.Float32, shape...) }
		ids := opstest.Data(r.Bench, aclnn.Int32, []int32{1, 2, 3}, 3)
		cut := func(make func(s *aclnn.Scope) *aclnn.Tensor) error {
			return aclnn.Compose(r.Stream, func(s *aclnn.Scope) { assert.Nil(r.T, make(s)) })
		}
		for _, c := range []struct {
			text string
			err  error
		}{
			{"X is float32[2,3,4]ND; it must be [rows, width]", p.ColumnLinear(ctx, r.Stream, &ops.LinearArgs{X: f(2, 3, 4), Weight: f(2, 4), Out: f(6, 2)})},
			{"contiguous", p.RowLinear(ctx, r.Stream, &ops.LinearArgs{X: f(4, 4).Transpose(0, 1), Weight: f(2, 4), Out: f(2, 2)})},
			{"multiple of the 2 ranks", p.Embedding(ctx, r.Stream, &ops.EmbeddingArgs{Weight: f(4, 2), IDs: ids, Out: f(2, 2)})},
			{"must be [vocabulary/2, width]", p.EmbeddingGrad(ctx, r.Stream, &ops.EmbeddingGradArgs{DWeight: f(4), IDs: ids, DOut: f(2, 2)})},
			{"IDs is int32[1,3]ND; it must be [rows]", p.Embedding(ctx, r.Stream, &ops.EmbeddingArgs{Weight: f(4, 2), IDs: ids.Unsqueeze(0), Out: f(2, 2)})},
			{"a class at least", p.CrossEntropy(ctx, r.Stream, &ops.CrossEntropyArgs{Logits: f(3, 0), Labels: ids, Loss: f(1)})},
			{"name the rows of each projection", cut(func(s *aclnn.Scope) *aclnn.Tensor { return p.CutColumns(s, f(8, 4)) })},
			{"multiple of the 2 ranks", cut(func(s *aclnn.Scope) *aclnn.Tensor { return p.CutColumns(s, f(8, 4), 3, 5) })},
			{"multiple of the 2 ranks", cut(func(s *aclnn.Scope) *aclnn.Tensor { return p.CutRows(s, f(8, 3)) })},
			{"whole is float32[8]ND", cut(func(s *aclnn.Scope) *aclnn.Tensor { return p.CutRows(s, f(8)) })},
			{"whole is nil", cut(func(s *aclnn.Scope) *aclnn.Tensor { return p.CutRows(s, nil) })},
			{"Loss is nil", p.CrossEntropy(ctx, r.Stream, &ops.CrossEntropyArgs{Logits: f(3, 2), Labels: ids})},
		} {
			require.ErrorIs(r.T, c.err, ops.ErrInvalid)
			assert.ErrorContains(r.T, c.err, c.text)
		}
	})
}

package ops_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/internal/testing/opstest"
	"github.com/goascend/cann/ops"
)

// gaps copies a tensor into every second column of a wider one.
func gaps(b *opstest.Bench, t *aclnn.Tensor) *aclnn.Tensor {
	b.T.Helper()
	shape := t.Shape()
	shape[len(shape)-1] *= 2
	view := b.Empty(t.DType(), shape...).Slice(-1, 0, shape[len(shape)-1], 2)
	require.NoError(b.T, aclnn.InplaceCopy(b.Stream, aclnn.InplaceCopyParams{Self: view, Src: t}))
	return view
}

func TestLinear(t *testing.T) {
	linear := func(r *ops.Registry) dispatched { return r.Linear() }
	linearGrad := func(r *ops.Registry) dispatched { return r.LinearGrad() }
	const in, out = 13, 7
	for _, dt := range opstest.FloatTypes {
		for _, rows := range [][]int64{{}, {1}, {5}, {3, 4}, {2, 3, 2}, {0}, {2, 0, 3}} {
			for _, spaced := range []bool{false, true} {
				t.Run(fmt.Sprintf("%v%v/%t", dt, rows, spaced), func(t *testing.T) {
					everyKernel(t, linear, linearGrad, func(b *opstest.Bench) bool {
						n := int(opstest.Size(rows))
						x, xs := b.Input(dt, 1, append(rows[:len(rows):len(rows)], in)...)
						w, ws := b.Input(dt, 2, out, in)
						bias, biases := b.Input(dt, 3, out)
						dy, dys := b.Input(dt, 4, append(rows[:len(rows):len(rows)], out)...)
						y, dx := b.Empty(dt, dy.Shape()...), b.Empty(dt, x.Shape()...)
						if spaced {
							x, dy, y, dx, w = gaps(b, x), gaps(b, dy), gaps(b, y), gaps(b, dx), gaps(b, w)
						}
						forward := &ops.LinearArgs{X: x, Weight: w, Bias: bias, Out: y}
						for _, wide := range []aclnn.DType{dt, aclnn.Float32} {
							dw, db := b.Empty(wide, out, in), b.Empty(wide, out)
							backward := &ops.LinearGradArgs{DOut: dy, X: x, Weight: w, DX: dx, DWeight: dw, DBias: db}
							if !opstest.Takes(b.Linear(), forward) || !opstest.Takes(b.LinearGrad(), backward) {
								return dt == aclnn.Float32 || wide == aclnn.Float32 // GroupedMatmulAdd takes wide gradients only
							}
							opstest.Run(b, b.Linear(), forward)
							want := opstest.Product(n, in, out, func(i, l int) float32 { return xs[i*in+l] }, func(l, j int) float32 { return ws[j*in+l] })
							for i := range want {
								want[i] += biases[i%out]
							}
							b.Near("y", y, want, opstest.Tolerance(dt))
							wantDW := opstest.Product(out, n, in, func(i, l int) float32 { return dys[l*out+i] }, func(l, j int) float32 { return xs[l*in+j] })
							wantDB := opstest.Product(1, n, out, func(_, _ int) float32 { return 1 }, func(l, j int) float32 { return dys[l*out+j] })
							for pass := range 3 {
								backward.Accumulate = pass > 0
								opstest.Run(b, b.LinearGrad(), backward)
								times := func(v []float32) []float32 {
									return opstest.Convert(v, func(x float32) float32 { return x * float32(pass+1) })
								}
								b.Near("dw", dw, times(wantDW), opstest.Tolerance(wide))
								b.Near("db", db, times(wantDB), opstest.Tolerance(wide))
							}
							b.Near("dx", dx, opstest.Product(n, out, in, func(i, l int) float32 { return dys[i*out+l] }, func(l, j int) float32 { return ws[l*in+j] }), opstest.Tolerance(dt))
						}
						return true
					})
				})
			}
		}
	}
}

// TestMainGradients checks that float32 gradients of 16-bit factors are not rounded to 16 bits.
func TestMainGradients(t *testing.T) {
	reg, err := ops.NewRegistry(ops.Env{})
	require.NoError(t, err)
	for _, k := range reg.LinearGrad().Kernels() {
		t.Run(k, func(t *testing.T) {
			b := opstest.New(t)
			require.NoError(t, b.LinearGrad().Pin(k))
			const n, in, out = 300, 24, 18
			x, xs := b.Input(aclnn.BFloat16, 1, n, in)
			dy, dys := b.Input(aclnn.BFloat16, 2, n, out)
			dw := b.Empty(aclnn.Float32, out, in)
			opstest.Run(b, b.LinearGrad(), &ops.LinearGradArgs{DOut: dy, X: x, DWeight: dw})
			b.Near("dw", dw, opstest.Product(out, n, in, func(i, l int) float32 { return dys[l*out+i] }, func(l, j int) float32 { return xs[l*in+j] }), 1e-6)
		})
	}
}

func TestMatMul(t *testing.T) {
	for _, dt := range opstest.FloatTypes {
		t.Run(dt.String(), func(t *testing.T) {
			b := opstest.New(t)
			const m, k, n = 5, 9, 4
			x, xs := b.Input(dt, 1, 2, m, k)
			// One operand transposed in memory, as a view.
			y, ys := b.Input(dt, 2, 2, n, k)
			y = y.Transpose(1, 2)
			out, _ := b.Input(dt, 3, 2, m, n)
			opstest.Run(b, b.MatMul(), &ops.MatMulArgs{A: x, B: y, Out: out})
			dout, ds := b.Input(dt, 4, 2, m, n)
			da, db := b.Empty(dt, 2, m, k), b.Empty(dt, 2, k, n)
			opstest.Run(b, b.MatMulGrad(), &ops.MatMulGradArgs{DOut: dout, A: x, B: y, DA: da, DB: db})
			for g := range 2 {
				xg, yg, dg := xs[g*m*k:], ys[g*n*k:], ds[g*m*n:]
				at := func(t *aclnn.Tensor) *aclnn.Tensor { return t.Select(0, int64(g)) }
				b.Near("out", at(out), opstest.Product(m, k, n, func(i, l int) float32 { return xg[i*k+l] }, func(l, j int) float32 { return yg[j*k+l] }), opstest.Tolerance(dt))
				b.Near("da", at(da), opstest.Product(m, n, k, func(i, l int) float32 { return dg[i*n+l] }, func(l, j int) float32 { return yg[l*k+j] }), opstest.Tolerance(dt))
				b.Near("db", at(db), opstest.Product(k, m, n, func(i, l int) float32 { return xg[l*k+i] }, func(l, j int) float32 { return dg[l*n+j] }), opstest.Tolerance(dt))
			}
			// A batch of one broadcasts.
			opstest.Run(b, b.MatMul(), &ops.MatMulArgs{A: x.Narrow(0, 1, 1), B: y, Out: out})
			b.Near("broadcast", out.Select(0, 0), opstest.Product(m, k, n, func(i, l int) float32 { return xs[m*k+i*k+l] }, func(l, j int) float32 { return ys[j*k+l] }), opstest.Tolerance(dt))
		})
	}
}

package ops_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/aclnn/half"
	"github.com/goascend/cann/ops"
)

// floatTypes are the dtypes of every operator.
var floatTypes = []aclnn.DType{aclnn.Float32, aclnn.Float16, aclnn.BFloat16}

// random is values of a dtype from a seed.
func random(dt aclnn.DType, seed uint64, n int64) []float32 {
	rng := rand.New(rand.NewPCG(seed, 7))
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(rng.NormFloat64())
		switch dt {
		case aclnn.Float16:
			v[i] = half.Float16FromFloat32(v[i]).Float32()
		case aclnn.BFloat16:
			v[i] = half.BFloat16FromFloat32(v[i]).Float32()
		}
	}
	return v
}

// size is the number of elements of a shape.
func size(shape []int64) int64 {
	n := int64(1)
	for _, d := range shape {
		n *= d
	}
	return n
}

// input makes a tensor of random values and returns both.
func (b *bench) input(dt aclnn.DType, seed uint64, shape ...int64) (*aclnn.Tensor, []float32) {
	b.t.Helper()
	v := random(dt, seed, size(shape))
	return b.floats(dt, v, shape...), v
}

// gaps copies a tensor into every second column of a wider one.
func (b *bench) gaps(t *aclnn.Tensor) *aclnn.Tensor {
	b.t.Helper()
	shape := t.Shape()
	shape[len(shape)-1] *= 2
	view := b.empty(t.DType(), shape...).Slice(-1, 0, shape[len(shape)-1], 2)
	require.NoError(b.t, aclnn.InplaceCopy(b.st, aclnn.InplaceCopyParams{SelfRef: view, Src: t}))
	return view
}

// product is a·b for row-major [m,k] and [k,n], plus add.
func product(m, k, n int, a func(i, l int) float32, b func(l, j int) float32) []float32 {
	out := make([]float32, m*n)
	for i := range m {
		for j := range n {
			sum := 0.0
			for l := range k {
				sum += float64(a(i, l)) * float64(b(l, j))
			}
			out[i*n+j] = float32(sum)
		}
	}
	return out
}

func TestLinear(t *testing.T) {
	linear := func(r *ops.Registry) dispatched { return r.Linear }
	linearGrad := func(r *ops.Registry) dispatched { return r.LinearGrad }
	const in, out = 13, 7
	for _, dt := range floatTypes {
		for _, rows := range [][]int64{{}, {1}, {5}, {3, 4}, {2, 3, 2}, {0}, {2, 0, 3}} {
			for _, spaced := range []bool{false, true} {
				t.Run(fmt.Sprintf("%v%v/%t", dt, rows, spaced), func(t *testing.T) {
					everyKernel(t, linear, linearGrad, func(b *bench) bool {
						n := int(size(rows))
						x, xs := b.input(dt, 1, append(rows[:len(rows):len(rows)], in)...)
						w, ws := b.input(dt, 2, out, in)
						bias, biases := b.input(dt, 3, out)
						dy, dys := b.input(dt, 4, append(rows[:len(rows):len(rows)], out)...)
						y, dx := b.empty(dt, dy.Shape()...), b.empty(dt, x.Shape()...)
						if spaced {
							x, dy, y, dx, w = b.gaps(x), b.gaps(dy), b.gaps(y), b.gaps(dx), b.gaps(w)
						}
						forward := &ops.LinearArgs{X: x, Weight: w, Bias: bias, Out: y}
						for _, wide := range []aclnn.DType{dt, aclnn.Float32} {
							dw, db := b.empty(wide, out, in), b.empty(wide, out)
							backward := &ops.LinearGradArgs{DOut: dy, X: x, Weight: w, DX: dx, DWeight: dw, DBias: db}
							if !takes(b.Linear, forward) || !takes(b.LinearGrad, backward) {
								return dt == aclnn.Float32 || wide == aclnn.Float32 // GroupedMatmulAdd takes wide gradients only
							}
							run(b, b.Linear, forward)
							want := product(n, in, out, func(i, l int) float32 { return xs[i*in+l] }, func(l, j int) float32 { return ws[j*in+l] })
							for i := range want {
								want[i] += biases[i%out]
							}
							b.near("y", y, want, tolerance(dt))
							wantDW := product(out, n, in, func(i, l int) float32 { return dys[l*out+i] }, func(l, j int) float32 { return xs[l*in+j] })
							wantDB := product(1, n, out, func(_, _ int) float32 { return 1 }, func(l, j int) float32 { return dys[l*out+j] })
							for pass := range 3 {
								backward.Accumulate = pass > 0
								run(b, b.LinearGrad, backward)
								times := func(v []float32) []float32 {
									return convert(v, func(x float32) float32 { return x * float32(pass+1) })
								}
								b.near("dw", dw, times(wantDW), tolerance(wide))
								b.near("db", db, times(wantDB), tolerance(wide))
							}
							b.near("dx", dx, product(n, out, in, func(i, l int) float32 { return dys[i*out+l] }, func(l, j int) float32 { return ws[l*in+j] }), tolerance(dt))
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
	for _, k := range reg.LinearGrad.Kernels() {
		t.Run(k, func(t *testing.T) {
			b := newBench(t)
			require.NoError(t, b.LinearGrad.Pin(k))
			const n, in, out = 300, 24, 18
			x, xs := b.input(aclnn.BFloat16, 1, n, in)
			dy, dys := b.input(aclnn.BFloat16, 2, n, out)
			dw := b.empty(aclnn.Float32, out, in)
			run(b, b.LinearGrad, &ops.LinearGradArgs{DOut: dy, X: x, DWeight: dw})
			b.near("dw", dw, product(out, n, in, func(i, l int) float32 { return dys[l*out+i] }, func(l, j int) float32 { return xs[l*in+j] }), 1e-6)
		})
	}
}

func TestMatMul(t *testing.T) {
	for _, dt := range floatTypes {
		t.Run(dt.String(), func(t *testing.T) {
			b := newBench(t)
			const m, k, n = 5, 9, 4
			x, xs := b.input(dt, 1, 2, m, k)
			// One operand transposed in memory, as a view.
			y, ys := b.input(dt, 2, 2, n, k)
			y = y.Transpose(1, 2)
			out, _ := b.input(dt, 3, 2, m, n)
			run(b, b.MatMul, &ops.MatMulArgs{A: x, B: y, Out: out})
			dout, ds := b.input(dt, 4, 2, m, n)
			da, db := b.empty(dt, 2, m, k), b.empty(dt, 2, k, n)
			run(b, b.MatMulGrad, &ops.MatMulGradArgs{DOut: dout, A: x, B: y, DA: da, DB: db})
			for g := range 2 {
				xg, yg, dg := xs[g*m*k:], ys[g*n*k:], ds[g*m*n:]
				at := func(t *aclnn.Tensor) *aclnn.Tensor { return t.Select(0, int64(g)) }
				b.near("out", at(out), product(m, k, n, func(i, l int) float32 { return xg[i*k+l] }, func(l, j int) float32 { return yg[j*k+l] }), tolerance(dt))
				b.near("da", at(da), product(m, n, k, func(i, l int) float32 { return dg[i*n+l] }, func(l, j int) float32 { return yg[l*k+j] }), tolerance(dt))
				b.near("db", at(db), product(k, m, n, func(i, l int) float32 { return xg[l*k+i] }, func(l, j int) float32 { return dg[l*n+j] }), tolerance(dt))
			}
			// A batch of one broadcasts.
			run(b, b.MatMul, &ops.MatMulArgs{A: x.Narrow(0, 1, 1), B: y, Out: out})
			b.near("broadcast", out.Select(0, 0), product(m, k, n, func(i, l int) float32 { return xs[m*k+i*k+l] }, func(l, j int) float32 { return ys[j*k+l] }), tolerance(dt))
		})
	}
}

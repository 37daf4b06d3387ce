package smoke

import (
	"math"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
)

// The operators of this file have no reference data: their definitions are computed here.

func narrow(v []float64) []float32 {
	return convert(v, func(x float64) float32 { return float32(x) })
}

// product is a·b for row-major [m,k] and [k,n] that are read through at.
func product(m, k, n int, a, b func(i, j int) float64) []float32 {
	out := make([]float32, m*n)
	for i := range m {
		for j := range n {
			sum := 0.
			for l := range k {
				sum += a(i, l) * b(l, j)
			}
			out[i*n+j] = float32(sum)
		}
	}
	return out
}

func linear(b *bench) {
	const m, k, n = 33, 48, 80
	x, xs := b.random(1, m, k)
	w, ws := b.random(2, n, k)
	dy, dys := b.random(3, m, n)
	a := ops.LinearArgs{X: x, Weight: w, Out: b.like(dy)}
	at := func(v []float64, width int) func(i, j int) float64 {
		return func(i, j int) float64 { return v[i*width+j] }
	}
	transposed := func(v []float64, width int) func(i, j int) float64 {
		return func(i, j int) float64 { return v[j*width+i] }
	}
	try(b, b.Linear(), &a, b.out("y", a.Out, product(m, k, n, at(xs, k), transposed(ws, k))))
	g := ops.LinearGradArgs{DOut: dy, X: x, Weight: w, DX: b.like(x), DWeight: b.empty(aclnn.Float32, n, k)}
	try(b, b.LinearGrad(), &g, b.out("dx", g.DX, product(m, n, k, at(dys, n), at(ws, k))),
		b.out("dw", g.DWeight, product(n, m, k, transposed(dys, n), at(xs, k))))
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

func gatedNorm(b *bench) {
	const rows, width, epsilon = 17, 64, 1e-5
	x, xs := b.random(1, rows, width)
	gate, gates := b.random(2, rows, width)
	dy, dys := b.random(3, rows, width)
	w, ws := b.random(4, width)
	y, dx, dgate, dw := make([]float64, len(xs)), make([]float64, len(xs)), make([]float64, len(xs)), make([]float64, width)
	for r := 0; r < len(xs); r += width {
		square, mean := 0., 0.
		for i := range width {
			square += xs[r+i] * xs[r+i]
		}
		rstd := 1 / math.Sqrt(square/width+epsilon)
		for i := range width {
			n, s := xs[r+i]*rstd, sigmoid(gates[r+i])
			silu := gates[r+i] * s
			y[r+i] = n * ws[i] * silu
			dw[i] += dys[r+i] * n * silu
			dgate[r+i] = dys[r+i] * n * ws[i] * (s + silu*(1-s))
			mean += dys[r+i] * ws[i] * silu * n / width
		}
		for i := range width {
			silu := gates[r+i] * sigmoid(gates[r+i])
			dx[r+i] = rstd * (dys[r+i]*ws[i]*silu - xs[r+i]*rstd*mean)
		}
	}
	a := ops.GatedNormArgs{X: x, Gate: gate, Weight: w, Epsilon: epsilon, Out: b.like(x), RStd: b.empty(aclnn.Float32, rows, 1)}
	try(b, b.GatedNorm(), &a, b.out("y", a.Out, narrow(y)))
	g := ops.GatedNormGradArgs{DOut: dy, X: x, Gate: gate, RStd: a.RStd, Weight: w, DX: b.like(x), DGate: b.like(x), DWeight: b.empty(aclnn.Float32, width)}
	try(b, b.GatedNormGrad(), &g, b.out("dx", g.DX, narrow(dx)), b.out("dgate", g.DGate, narrow(dgate)), b.out("dw", g.DWeight, narrow(dw)))
}

func deltaGate(b *bench) {
	const rows, heads = 29, 8
	x, xs := b.random(1, rows, heads)
	z, zs := b.random(2, rows, heads)
	aLog, logs := b.random(3, heads)
	bias, biases := b.random(4, heads)
	dBeta, dbs := b.random(5, rows, heads)
	n := len(xs)
	decay, beta, da, db, dgs := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n), make([]float32, n)
	dLog, dBias := make([]float64, heads), make([]float64, heads)
	for i := range n {
		h := i % heads
		u, scale := xs[i]+biases[h], -math.Exp(logs[h])
		dgs[i] = float32(dbs[n-1-i])
		decay[i], beta[i] = scale*math.Log1p(math.Exp(u)), sigmoid(zs[i])
		da[i], db[i] = dbs[n-1-i]*scale*sigmoid(u), dbs[i]*beta[i]*(1-beta[i])
		dLog[h] += dbs[n-1-i] * decay[i]
		dBias[h] += da[i]
	}
	a := ops.DeltaGateArgs{A: x, B: z, ALog: aLog, DTBias: bias, Decay: b.empty(aclnn.Float32, rows, heads), Beta: b.like(z)}
	try(b, b.DeltaGate(), &a, b.out("decay", a.Decay, narrow(decay)), b.out("beta", a.Beta, narrow(beta)))
	g := ops.DeltaGateGradArgs{
		DeltaGateArgs: a, DDecay: b.floats(aclnn.Float32, dgs, rows, heads), DBeta: dBeta, DA: b.like(x), DB: b.like(z),
		DALog: b.empty(aclnn.Float32, heads), DDTBias: b.empty(aclnn.Float32, heads),
	}
	try(b, b.DeltaGateGrad(), &g, b.out("da", g.DA, narrow(da)), b.out("db", g.DB, narrow(db)),
		b.out("dlog", g.DALog, narrow(dLog)), b.out("dbias", g.DDTBias, narrow(dBias)))
}

func clipGradNorm(b *bench) {
	var grads []*aclnn.Tensor
	square := 0.
	for i, n := range []int64{7, 640, 33} {
		g, v := b.random(uint64(i), n)
		for _, x := range v {
			square += x * x
		}
		grads = append(grads, g)
	}
	norm := math.Sqrt(square)
	a := ops.ClipGradNormArgs{Grads: grads, Norm: b.empty(aclnn.Float32)} // a limit would change the gradients
	try(b, b.ClipGradNorm(), &a, b.out("norm", a.Norm, []float32{float32(norm)}))
}

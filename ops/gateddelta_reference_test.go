package ops_test

import (
	"math"

	"github.com/goascend/cann/internal/testing/opstest"
)

// delta implements the rule and its gradients token by token in float64. Arrays are row-major with
// the shapes of GatedDeltaArgs.
type delta struct {
	b, t, hk, hv, dk, dv   int
	cu                     []int64 // nil when nothing is packed
	scale                  float64
	normalize              bool
	q, k, v, g, beta, s0   []float64 // s0 nil is zero
	do, dsT                []float64
	o, sT                  []float64
	dq, dkey, dval, dg, db []float64
	ds0                    []float64
}

func (d *delta) sequences() int {
	if d.cu != nil {
		return len(d.cu) - 1
	}
	return d.b
}

func (d *delta) compute() {
	zeros := func(n int) []float64 { return make([]float64, n) }
	d.o, d.sT, d.ds0 = zeros(len(d.v)), zeros(d.sequences()*d.hv*d.dk*d.dv), zeros(d.sequences()*d.hv*d.dk*d.dv)
	d.dq, d.dkey, d.dval, d.dg, d.db = zeros(len(d.q)), zeros(len(d.k)), zeros(len(d.v)), zeros(len(d.g)), zeros(len(d.beta))
	for n := range d.sequences() {
		from, to := n*d.t, (n+1)*d.t // rows of [B·T]
		if d.cu != nil {
			from, to = int(d.cu[n]), int(d.cu[n+1])
		}
		for h := range d.hv {
			d.head(n, from, to, h)
		}
	}
}

// vector returns the row of a token of a tensor [B·T,heads,width], and its norm for unit vectors.
func (d *delta) vector(x []float64, token, heads, head, width int) (y []float64, length float64) {
	at := (token*heads + head) * width
	y, length = append([]float64(nil), x[at:at+width]...), 1
	if d.normalize {
		length = 1e-6
		for _, v := range y {
			length += v * v
		}
		length = math.Sqrt(length)
		for i := range y {
			y[i] /= length
		}
	}
	return y, length
}

func (d *delta) head(n, from, to, h int) {
	K, V, key := d.dk, d.dv, h/(d.hv/d.hk)
	at := (n*d.hv + h) * K * V
	s := make([]float64, K*V)
	if d.s0 != nil {
		copy(s, d.s0[at:at+K*V])
	}
	type step struct{ decayed, after, r, delta []float64 }
	steps := make([]step, to-from)
	for t := from; t < to; t++ {
		k, _ := d.vector(d.k, t, d.hk, key, K)
		q, _ := d.vector(d.q, t, d.hk, key, K)
		x := step{decayed: make([]float64, K*V), after: make([]float64, K*V), r: make([]float64, V), delta: make([]float64, V)}
		for i := range s {
			x.decayed[i] = s[i] * math.Exp(d.g[t*d.hv+h])
		}
		for j := range V {
			x.r[j] = d.v[(t*d.hv+h)*V+j]
			for i := range K {
				x.r[j] -= x.decayed[i*V+j] * k[i]
			}
			x.delta[j] = x.r[j] * d.beta[t*d.hv+h]
			for i := range K {
				x.after[i*V+j] = x.decayed[i*V+j] + k[i]*x.delta[j]
				d.o[(t*d.hv+h)*V+j] += d.scale * x.after[i*V+j] * q[i]
			}
		}
		s, steps[t-from] = x.after, x
	}
	copy(d.sT[at:at+K*V], s)
	ds := append([]float64(nil), d.dsT[at:at+K*V]...)
	for t := to - 1; t >= from; t-- {
		k, kLength := d.vector(d.k, t, d.hk, key, K)
		q, qLength := d.vector(d.q, t, d.hk, key, K)
		x, do, beta := steps[t-from], d.do[(t*d.hv+h)*V:][:V], d.beta[t*d.hv+h]
		dq, dk, dr := make([]float64, K), make([]float64, K), make([]float64, V)
		for j := range V {
			dDelta := 0.
			for i := range K {
				ds[i*V+j] += d.scale * q[i] * do[j]
				dq[i] += d.scale * x.after[i*V+j] * do[j]
				dDelta += ds[i*V+j] * k[i]
			}
			d.db[t*d.hv+h] += x.r[j] * dDelta
			dr[j] = beta * dDelta
			d.dval[(t*d.hv+h)*V+j] = dr[j]
		}
		for i := range K {
			for j := range V {
				dk[i] += ds[i*V+j]*x.delta[j] - x.decayed[i*V+j]*dr[j]
				dDecayed := ds[i*V+j] - k[i]*dr[j]
				d.dg[t*d.hv+h] += dDecayed * x.decayed[i*V+j]
				ds[i*V+j] = dDecayed * math.Exp(d.g[t*d.hv+h])
			}
		}
		d.give(d.dq, dq, q, qLength, (t*d.hk+key)*K)
		d.give(d.dkey, dk, k, kLength, (t*d.hk+key)*K)
	}
	copy(d.ds0[at:at+K*V], ds)
}

// give adds the gradient of a normalised vector y to the gradient of its input.
func (d *delta) give(sum, dy, y []float64, length float64, at int) {
	dot := 0.
	if d.normalize {
		for i := range y {
			dot += dy[i] * y[i]
		}
	}
	for i := range y {
		sum[at+i] += (dy[i] - y[i]*dot) / length
	}
}

func narrow(x []float64) []float32 {
	return opstest.Convert(x, func(v float64) float32 { return float32(v) })
}

func wide(x []float32) []float64 {
	return opstest.Convert(x, func(v float32) float64 { return float64(v) })
}

// shapes are those of the tensors.
func (d *delta) shapes() (key, value, gate, state []int64) {
	b, t, n := int64(d.b), int64(d.t), int64(d.sequences())
	return []int64{b, t, int64(d.hk), int64(d.dk)}, []int64{b, t, int64(d.hv), int64(d.dv)}, []int64{b, t, int64(d.hv)},
		[]int64{n, int64(d.hv), int64(d.dk), int64(d.dv)}
}

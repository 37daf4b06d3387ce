package kda

import "math"

// Gate converts raw gates into logarithms of decays.
type Gate struct {
	Rate  float64   // the exponential of the head's parameter
	Bias  []float64 // added to the raw gates, or nil
	Lower float64   // the lowest logarithm of bounded gates, which is negative; 0 for gates without a bound
}

// Log replaces the raw gates of one token by logarithms of decays.
func (g Gate) Log(row []float64) {
	for i, x := range row {
		if g.Bias != nil {
			x += g.Bias[i]
		}
		if g.Lower < 0 {
			row[i] = g.Lower / (1 + math.Exp(-g.Rate*x))
		} else {
			row[i] = -g.Rate * (max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))))
		}
	}
}

// Normalize divides a row by its length, unless that is zero.
func Normalize(row []float64) {
	sum := 0.0
	for _, x := range row {
		sum += x * x
	}
	if sum > 0 {
		for i := range row {
			row[i] /= math.Sqrt(sum)
		}
	}
}

// Step updates the state [len(v), len(k)] of a head with one token and sets out to what the query reads.
// decay holds logarithms.
func Step(out, state, q, k, v, decay []float64, beta float64) {
	n := len(k)
	factors := make([]float64, n)
	for j, x := range decay {
		factors[j] = math.Exp(x)
	}
	for i := range v {
		row := state[i*n:][:n]
		known := 0.0
		for j, f := range factors {
			row[j] *= f
			known += row[j] * k[j]
		}
		delta := (v[i] - known) * beta
		out[i] = 0
		for j, x := range k {
			row[j] += delta * x
			out[i] += row[j] * q[j]
		}
	}
}

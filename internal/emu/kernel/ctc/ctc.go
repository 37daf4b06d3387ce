package ctc

import "math"

// Loss is the connectionist temporal classification loss of one sequence. LogProbs holds the
// log-probabilities of Classes classes at Times time steps, which are Stride elements apart.
type Loss struct {
	LogProbs                      []float64
	Times, Classes, Stride, Blank int
	Target                        []int64
}

// label returns element s of the target extended by blanks before, between and after its labels.
func (c Loss) label(s int) int {
	if s%2 == 0 {
		return c.Blank
	}
	return int(c.Target[s/2])
}

// skips reports whether a path may reach element s from s-2, skipping the blank between them.
func (c Loss) skips(s int) bool { return s >= 2 && s%2 == 1 && c.label(s) != c.label(s-2) }

func logAdd(a, b float64) float64 {
	if a < b {
		a, b = b, a
	}
	if math.IsInf(b, -1) {
		return a
	}
	return a + math.Log1p(math.Exp(b-a))
}

// Forward writes to alpha, whose rows have width elements, the log-probability of all paths up
// to each time step and extended label. It returns the negative log-likelihood of the target.
func (c Loss) Forward(alpha []float64, width int) float64 {
	places := 2*len(c.Target) + 1
	for t := range c.Times {
		for s := range places {
			a := math.Inf(-1)
			switch {
			case t == 0 && s < 2:
				a = 0
			case t > 0:
				last := alpha[(t-1)*width:]
				a = last[s]
				if s >= 1 {
					a = logAdd(a, last[s-1])
				}
				if c.skips(s) {
					a = logAdd(a, last[s-2])
				}
			}
			alpha[t*width+s] = a + c.LogProbs[t*c.Stride+c.label(s)]
		}
	}
	if c.Times == 0 {
		return math.Inf(1)
	}
	last := alpha[(c.Times-1)*width:]
	sum := last[places-1]
	if places > 1 {
		sum = logAdd(sum, last[places-2])
	}
	return -sum
}

// Backward adds scale times the gradient of the negative log-likelihood loss to grad, which is
// laid out like LogProbs. The gradient assumes that a log-softmax computed LogProbs.
func (c Loss) Backward(grad, alpha []float64, width int, loss, scale float64) {
	places := 2*len(c.Target) + 1
	beta, next := make([]float64, places), make([]float64, places)
	sums := make([]float64, c.Classes)
	for t := c.Times - 1; t >= 0; t-- {
		for s := range places {
			b := math.Inf(-1)
			switch {
			case t == c.Times-1 && s >= places-2:
				b = 0
			case t < c.Times-1:
				b = next[s]
				if s+1 < places {
					b = logAdd(b, next[s+1])
				}
				if s+2 < places && c.skips(s+2) {
					b = logAdd(b, next[s+2])
				}
			}
			beta[s] = b + c.LogProbs[t*c.Stride+c.label(s)]
		}
		for k := range sums {
			sums[k] = math.Inf(-1)
		}
		for s := range places {
			k := c.label(s)
			sums[k] = logAdd(sums[k], alpha[t*width+s]+beta[s])
		}
		for k, sum := range sums {
			p := c.LogProbs[t*c.Stride+k]
			grad[t*c.Stride+k] += scale * (math.Exp(p) - math.Exp(sum+loss-p))
		}
		beta, next = next, beta
	}
}

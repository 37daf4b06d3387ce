package random

import (
	"math"
	"slices"

	"github.com/goascend/cann/internal/emu/kernel/order"
)

// Sampler chooses one of the candidates of a row of scores. Three filters apply in order: the k
// best scores (top-k), the most probable of these whose probabilities sum to p (top-p), and
// those at least MinP times as probable as the best (min-p).
type Sampler struct {
	K, Most  int64   // K applies from 1 to Most; otherwise all are candidates
	P, MinP  float64 // apply if P < 1 and MinP > 0; P <= 0 or MinP >= 1 keeps only the best
	Softmax  bool    // take the softmax of the scores; otherwise they are probabilities
	Weighted bool    // choose the largest probability/weight instead of the largest probability
	Epsilon  float64 // added to the weights
}

// Candidates returns the positions and probabilities of the kept candidates, best first unless
// only min-p filtered them.
func (s Sampler) Candidates(scores []float32) (at []int64, probability []float32) {
	byK, byP := s.K >= 1 && s.K <= min(s.Most, int64(len(scores))), s.P < 1
	if byK || byP || s.MinP >= 1 {
		at = order.Descending(scores)
	} else {
		at = make([]int64, len(scores))
		for i := range at {
			at[i] = int64(i)
		}
	}
	if byK {
		at = at[:s.K]
	}
	probability = s.probabilities(scores, at)
	n := len(at)
	switch {
	case s.MinP >= 1 || byP && s.P <= 0:
		n = min(n, 1)
	case byP:
		sum := 0.0
		for i, p := range probability {
			if sum >= s.P {
				n = i
				break
			}
			sum += float64(p)
		}
	}
	at, probability = at[:n], probability[:n]
	if byP && s.P <= 0 && s.Softmax && n > 0 {
		probability[0] = 1
	}
	if s.MinP > 0 && s.MinP < 1 && n > 0 {
		least := slices.Max(probability) * float32(s.MinP)
		kept := 0
		for i, p := range probability {
			if p >= least {
				at[kept], probability[kept] = at[i], p
				kept++
			}
		}
		at, probability = at[:kept], probability[:kept]
	}
	return at, probability
}

// probabilities returns the probabilities of the scores at some positions, normalised over
// these.
func (s Sampler) probabilities(scores []float32, at []int64) []float32 {
	p := make([]float32, len(at))
	most, sum := math.Inf(-1), 0.0
	for i, k := range at {
		p[i] = scores[k]
		most = max(most, float64(p[i]))
	}
	if !s.Softmax {
		return p
	}
	for _, v := range p {
		sum += math.Exp(float64(v) - most)
	}
	for i, v := range p {
		p[i] = float32(math.Exp(float64(v)-most) / sum)
	}
	return p
}

// Best returns the position of the choice among candidates; weights has one weight per position.
func (s Sampler) Best(probability, weights []float32) int {
	best, largest := 0, math.Inf(-1)
	for i, p := range probability {
		v := float64(p)
		if s.Weighted {
			v /= math.Abs(float64(weights[i])) + s.Epsilon
		}
		if v > largest {
			best, largest = i, v
		}
	}
	return best
}

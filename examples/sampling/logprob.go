package sampling

import (
	"cmp"
	"math"
	"slices"
)

// LogProb is a token with the natural logarithm of its probability.
type LogProb struct {
	ID    int32
	Value float64
}

// LogProbs returns the logarithm of the probability that the model itself gives to a token, before
// temperature and penalties, and the likeliest tokens with theirs.
func LogProbs(logits []float32, id int32, top int) (of float64, best []LogProb) {
	most := float64(slices.Max(logits))
	sum := 0.0
	for _, l := range logits {
		sum += math.Exp(float64(l) - most)
	}
	norm := most + math.Log(sum)
	top = min(top, len(logits))
	for i, l := range logits {
		p := LogProb{int32(i), float64(l) - norm}
		if len(best) == top && (top == 0 || p.Value <= best[top-1].Value) {
			continue
		}
		at, _ := slices.BinarySearchFunc(best, p, func(a, b LogProb) int {
			return cmp.Or(cmp.Compare(b.Value, a.Value), cmp.Compare(a.ID, b.ID))
		})
		best = slices.Insert(best[:min(len(best), top-1)], at, p)
	}
	return float64(logits[id]) - norm, best
}

package main

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// sampling says how the next token is chosen from the model's logits.
type sampling struct {
	Temperature float64 // 0 takes the most likely token
	TopK        int     // chooses among this many most likely tokens, 0 means all
	TopP        float64 // chooses among the most likely tokens with this total probability
	Seed        uint64
}

func (s sampling) validate() error {
	switch {
	case !(s.Temperature >= 0) || math.IsInf(s.Temperature, 1):
		return fmt.Errorf("-temperature %g; it must not be negative", s.Temperature)
	case s.TopK < 0:
		return fmt.Errorf("-top-k %d; it must not be negative", s.TopK)
	case !(s.TopP > 0 && s.TopP <= 1):
		return fmt.Errorf("-top-p %g; it must be above 0 and at most 1", s.TopP)
	}
	return nil
}

// sampler draws tokens; the same seed draws the same tokens.
type sampler struct {
	sampling
	rng        *rand.Rand
	candidates []candidate
}

type candidate struct {
	id     int32
	weight float64 // logit, then unnormalised probability
}

func newSampler(s sampling) *sampler {
	return &sampler{sampling: s, rng: rand.New(rand.NewPCG(s.Seed, 0))}
}

// next draws a token. Among equal logits the lower token comes first.
func (s *sampler) next(logits []float32) int32 {
	s.candidates = s.candidates[:0]
	for id, l := range logits {
		s.candidates = append(s.candidates, candidate{int32(id), float64(l)})
	}
	if s.Temperature == 0 {
		return slices.MaxFunc(s.candidates, func(a, b candidate) int { return cmp.Compare(a.weight, b.weight) }).id
	}
	slices.SortStableFunc(s.candidates, func(a, b candidate) int { return cmp.Compare(b.weight, a.weight) })
	kept := s.candidates
	if s.TopK > 0 {
		kept = kept[:min(s.TopK, len(kept))]
	}
	top, sum := kept[0].weight, 0.0
	for i := range kept {
		kept[i].weight = math.Exp((kept[i].weight - top) / s.Temperature)
		sum += kept[i].weight
	}
	reached := 0.0
	for i := range kept {
		if reached += kept[i].weight; reached >= s.TopP*sum {
			kept, sum = kept[:i+1], reached
			break
		}
	}
	at := s.rng.Float64() * sum
	for _, c := range kept {
		if at -= c.weight; at < 0 {
			return c.id
		}
	}
	return kept[len(kept)-1].id // reached only through rounding
}

package sampling

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
)

// Sampler draws the tokens of one text; the same options draw the same tokens.
type Sampler struct {
	Options
	rng        *rand.Rand
	seen       map[int32]int // how often each token was drawn, and 0 for those of the prompt, where they count
	logits     []float64
	candidates []candidate
}

type candidate struct {
	id     int32
	weight float64 // the probability relative to that of the likeliest token
}

// New makes a sampler for a text that begins with a prompt.
func New(o Options, prompt []int32) *Sampler {
	s := &Sampler{Options: o, rng: rand.New(rand.NewPCG(o.Seed, 0))}
	if o.penalizes() {
		s.seen = map[int32]int{}
	}
	if o.repeats() {
		for _, id := range prompt {
			s.seen[id] = 0
		}
	}
	return s
}

// ErrLogits is the error of logits from which no token can be drawn, as a damaged model or products that overflow give
// them.
var ErrLogits = errors.New("sampling: the logits have NaN or +Inf, or none is finite")

// Next draws a token of logits, one for each token of the vocabulary. Of equal logits the lower token is the likelier one.
func (s *Sampler) Next(logits []float32) (int32, error) {
	id, err := s.choose(logits)
	if err == nil && s.seen != nil {
		s.seen[id]++
	}
	return id, err
}

// Skip goes on as if Next had drawn a token.
func (s *Sampler) Skip(id int32) {
	if s.Temperature != 0 {
		s.rng.Float64()
	}
	if s.seen != nil {
		s.seen[id]++
	}
}

func (s *Sampler) choose(logits []float32) (int32, error) {
	adjusted := s.adjusted(logits)
	if s.Temperature == 0 {
		return likeliest(adjusted)
	}
	top := math.Inf(-1)
	for _, l := range adjusted {
		top = max(top, l)
	}
	if !finite(top) {
		return 0, ErrLogits
	}
	kept := s.candidates[:0]
	least := top + s.Temperature*math.Log(negligible)
	for id, l := range adjusted {
		if l >= least {
			kept = append(kept, candidate{int32(id), math.Exp((l - top) / s.Temperature)})
		}
	}
	s.candidates = kept
	if s.TopK > 0 && s.TopK < len(kept) {
		kept = first(kept, float64(s.TopK), func(candidate) float64 { return 1 })
	}
	if s.TopP < 1 {
		kept = first(kept, s.TopP*total(kept), func(c candidate) float64 { return c.weight })
	}
	if s.MinP > 0 { // the likeliest has the weight 1
		kept = slices.DeleteFunc(kept, func(c candidate) bool { return c.weight < s.MinP })
	}
	at := s.rng.Float64() * total(kept)
	for _, c := range kept {
		if at -= c.weight; at < 0 {
			return c.id, nil
		}
	}
	return kept[len(kept)-1].id, nil // reached only through rounding
}

// likeliest returns the token with the largest logit.
func likeliest(logits []float64) (int32, error) {
	best, most := int32(0), math.Inf(-1)
	for id, l := range logits {
		if math.IsNaN(l) {
			return 0, ErrLogits
		}
		if l > most {
			best, most = int32(id), l
		}
	}
	if !finite(most) {
		return 0, ErrLogits
	}
	return best, nil
}

// negligible is the probability, relative to that of the likeliest token, below which a token is left
// out: all tokens of a large vocabulary together would be drawn once in 10¹² draws.
const negligible = 1e-18

func total(list []candidate) (sum float64) {
	for _, c := range list {
		sum += c.weight
	}
	return sum
}

// before reports whether a is likelier than b. Of equals the lower token comes first.
func before(a, b candidate) bool { return a.weight > b.weight || a.weight == b.weight && a.id < b.id }

// first returns, in no order, the fewest of the likeliest tokens whose sizes make enough together, or all. It is quickselect: to sort a
// vocabulary of 151,936 tokens would take longer than a step of a small model.
func first(list []candidate, enough float64, size func(candidate) float64) []candidate {
	from, to := 0, len(list) // the tokens before from are in, those from to on are out
	for from < to {
		last := to - 1
		middle := from + (last-from)/2
		// The median of three is the pivot, and waits at the end.
		if before(list[middle], list[from]) {
			list[middle], list[from] = list[from], list[middle]
		}
		if before(list[last], list[from]) {
			list[last], list[from] = list[from], list[last]
		}
		if before(list[middle], list[last]) {
			list[middle], list[last] = list[last], list[middle]
		}
		pivot, at, likelier := list[last], from, 0.0
		for i := from; i < last; i++ {
			if before(list[i], pivot) {
				likelier += size(list[i])
				list[i], list[at] = list[at], list[i]
				at++
			}
		}
		list[last], list[at] = list[at], pivot
		switch {
		case likelier >= enough:
			to = at
		case likelier+size(pivot) >= enough:
			return list[:at+1]
		default:
			enough -= likelier + size(pivot)
			from = at + 1
		}
	}
	return list[:from]
}

// adjusted returns the logits with bias and penalties.
func (s *Sampler) adjusted(logits []float32) []float64 {
	s.logits = s.logits[:0]
	for _, l := range logits {
		s.logits = append(s.logits, float64(l))
	}
	for id, b := range s.Bias {
		if id >= 0 && int(id) < len(s.logits) {
			s.logits[id] += b
		}
	}
	for id, n := range s.seen {
		if id < 0 || int(id) >= len(s.logits) {
			continue
		}
		l := &s.logits[id]
		if s.repeats() && *l > 0 {
			*l /= s.Repetition
		} else if s.repeats() {
			*l *= s.Repetition
		}
		if n > 0 {
			*l -= s.Presence + float64(n)*s.Frequency
		}
	}
	return s.logits
}

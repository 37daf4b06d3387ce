package sampling

import (
	"cmp"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
)

// Sampler draws the tokens of one text; the same options draw the same tokens.
type Sampler struct {
	Options
	rng        *rand.Rand
	read       map[int32]bool // tokens of the prompt, when they count
	drawn      map[int32]int  // how often each token was drawn
	candidates []candidate
}

type candidate struct {
	id     int32
	weight float64 // logit, then unnormalised probability
}

// New makes a sampler for a text that begins with a prompt.
func New(o Options, prompt []int32) *Sampler {
	s := &Sampler{Options: o, rng: rand.New(rand.NewPCG(o.Seed, 0))}
	if o.penalizes() {
		s.drawn = map[int32]int{}
	}
	if o.repeats() {
		s.read = make(map[int32]bool, len(prompt))
		for _, id := range prompt {
			s.read[id] = true
		}
	}
	return s
}

// ErrLogits is the error of logits from which no token can be drawn, as a damaged model or products that overflow give
// them.
var ErrLogits = errors.New("sampling: the logits have NaN or +Inf, or none is finite")

// Next draws a token. Among equal logits the lower token comes first.
func (s *Sampler) Next(logits []float32) (int32, error) {
	id, err := s.choose(logits)
	if err == nil && s.drawn != nil {
		s.drawn[id]++
	}
	return id, err
}

// Skip goes on as if Next had drawn a token.
func (s *Sampler) Skip(id int32) {
	if s.Temperature != 0 {
		s.rng.Float64()
	}
	if s.drawn != nil {
		s.drawn[id]++
	}
}

func (s *Sampler) choose(logits []float32) (int32, error) {
	if s.Temperature == 0 {
		return s.likeliest(logits)
	}
	kept, top := s.weigh(logits)
	if !finite(top) {
		return 0, ErrLogits
	}
	if s.TopK > 0 {
		kept = kept[:min(s.TopK, len(kept))]
	}
	sum := 0.0
	for i := range kept {
		kept[i].weight = math.Exp((kept[i].weight - top) / s.Temperature)
		sum += kept[i].weight
	}
	reached := 0.0
	for i := range kept {
		if kept[i].weight < s.MinP { // the likeliest has the weight 1
			kept, sum = kept[:i], reached
			break
		}
		if reached += kept[i].weight; reached >= s.TopP*sum {
			kept, sum = kept[:i+1], reached
			break
		}
	}
	at := s.rng.Float64() * sum
	for _, c := range kept {
		if at -= c.weight; at < 0 {
			return c.id, nil
		}
	}
	return kept[len(kept)-1].id, nil // reached only through rounding
}

// likeliest returns the token with the largest logit.
func (s *Sampler) likeliest(logits []float32) (int32, error) {
	best, most := int32(0), math.Inf(-1)
	for id, l := range logits {
		w := s.adjusted(int32(id), float64(l))
		if math.IsNaN(w) {
			return 0, ErrLogits
		}
		if w > most {
			best, most = int32(id), w
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

// weigh lists the tokens that can be drawn, the likeliest first, and the largest logit.
func (s *Sampler) weigh(logits []float32) (kept []candidate, top float64) {
	s.candidates, top = s.candidates[:0], math.Inf(-1)
	for id, l := range logits {
		w := s.adjusted(int32(id), float64(l))
		s.candidates = append(s.candidates, candidate{int32(id), w})
		top = max(top, w)
	}
	least := top + s.Temperature*math.Log(negligible)
	kept = s.candidates[:0]
	for _, c := range s.candidates {
		if c.weight >= least {
			kept = append(kept, c)
		}
	}
	slices.SortStableFunc(kept, func(a, b candidate) int { return cmp.Compare(b.weight, a.weight) })
	return kept, top
}

// adjusted returns a logit with bias and penalties.
func (s *Sampler) adjusted(id int32, logit float64) float64 {
	if s.Bias != nil {
		logit += s.Bias[id]
	}
	if s.drawn == nil {
		return logit
	}
	n := s.drawn[id]
	if s.repeats() && (n > 0 || s.read[id]) {
		if logit > 0 {
			logit /= s.Repetition
		} else {
			logit *= s.Repetition
		}
	}
	if n > 0 {
		logit -= s.Presence + float64(n)*s.Frequency
	}
	return logit
}

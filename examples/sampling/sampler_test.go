package sampling_test

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/examples/sampling"
)

var logits = []float32{1, 3, 2, 3, -1}

// next draws a token from logits that have some.
func next(t *testing.T, s *sampling.Sampler, logits []float32) int32 {
	id, err := s.Next(logits)
	require.NoError(t, err)
	return id
}

// drawn counts the tokens of many draws.
func drawn(t *testing.T, o sampling.Options, logits []float32, n int) []int {
	sampler := sampling.New(o, nil)
	counts := make([]int, len(logits))
	for range n {
		counts[next(t, sampler, logits)]++
	}
	return counts
}

func TestGreedy(t *testing.T) {
	require.Equal(t, []int{0, 10, 0, 0, 0}, drawn(t, sampling.Options{TopP: 1}, logits, 10), "of equals the first")
	require.Equal(t, []int{0, 10, 0, 0, 0}, drawn(t, sampling.Options{Temperature: 1, TopK: 1, TopP: 1}, logits, 10))
	require.Equal(t, []int{0, 10, 0, 0, 0}, drawn(t, sampling.Options{Temperature: 1, TopP: 1e-9}, logits, 10))
	require.Equal(t, []int{10}, drawn(t, sampling.Options{Temperature: 1, TopK: 9, TopP: 1}, logits[:1], 10))
}

// TestSampledFrequencies checks that token frequencies follow the softmax of the kept logits.
func TestSampledFrequencies(t *testing.T) {
	const n = 40_000
	softmax := func(temperature float64, ids ...int) []float64 {
		p, sum := make([]float64, len(logits)), 0.0
		for _, id := range ids {
			p[id] = math.Exp(float64(logits[id]) / temperature)
			sum += p[id]
		}
		for i := range p {
			p[i] /= sum
		}
		return p
	}
	for name, c := range map[string]struct {
		sampling.Options
		want []float64
	}{
		"all":               {sampling.Options{Temperature: 1, TopK: 0, TopP: 1, Seed: 1}, softmax(1, 0, 1, 2, 3, 4)},
		"cold":              {sampling.Options{Temperature: 0.5, TopK: 0, TopP: 1, Seed: 2}, softmax(0.5, 0, 1, 2, 3, 4)},
		"hot":               {sampling.Options{Temperature: 10, TopK: 0, TopP: 1, Seed: 3}, softmax(10, 0, 1, 2, 3, 4)},
		"three":             {sampling.Options{Temperature: 1, TopK: 3, TopP: 1, Seed: 4}, softmax(1, 1, 2, 3)},
		"more than all":     {sampling.Options{Temperature: 1, TopK: 9, TopP: 1, Seed: 5}, softmax(1, 0, 1, 2, 3, 4)},
		"just two of p":     {sampling.Options{Temperature: 1, TopK: 0, TopP: 0.5, Seed: 6}, softmax(1, 1, 3)},
		"three of p":        {sampling.Options{Temperature: 1, TopK: 0, TopP: 0.9, Seed: 7}, softmax(1, 1, 2, 3)},
		"min p of 0.3":      {sampling.Options{Temperature: 1, TopP: 1, MinP: .3, Seed: 9}, softmax(1, 1, 2, 3)},
		"p of the k likely": {sampling.Options{Temperature: 1, TopK: 2, TopP: 0.4, Seed: 8}, softmax(1, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			for id, count := range drawn(t, c.Options, logits, n) {
				p := c.want[id]
				if p == 0 {
					require.Zero(t, count, "token %d", id)
					continue
				}
				require.InDelta(t, p, float64(count)/n, 5*math.Sqrt(p*(1-p)/n)+1e-12, "token %d", id)
			}
		})
	}
}

func TestSeed(t *testing.T) {
	draw := func(seed uint64) (ids []int32) {
		s := sampling.New(sampling.Options{Temperature: 1, TopP: 1, Seed: seed}, nil)
		for range 50 {
			ids = append(ids, next(t, s, logits))
		}
		return ids
	}
	require.Equal(t, draw(1), draw(1))
	require.NotEqual(t, draw(1), draw(2))
}

func TestSamplingRefusals(t *testing.T) {
	for text, s := range map[string]sampling.Options{
		"temperature -1": {Temperature: -1, TopP: 1}, "temperature NaN": {Temperature: math.NaN(), TopP: 1}, "temperature +Inf": {Temperature: math.Inf(1), TopP: 1},
		"top-k -1": {TopK: -1, TopP: 1}, "top-p 0": {}, "top-p 1.5": {TopP: 1.5}, "top-p NaN": {TopP: math.NaN()},
		"min-p 2": {TopP: 1, MinP: 2}, "presence penalty +Inf": {TopP: 1, Presence: math.Inf(1)}, "repetition penalty -1": {TopP: 1, Repetition: -1},
		"bias of token 3": {TopP: 1, Bias: map[int32]float64{3: math.NaN()}},
	} {
		require.ErrorContains(t, s.Validate(), text)
	}
}

// TestPenalties: greedy draws pass from token to token as penalties grow.
func TestPenalties(t *testing.T) {
	draw := func(o sampling.Options, prompt []int32, n int) (ids []int32) {
		o.TopP = 1
		s := sampling.New(o, prompt)
		for range n {
			ids = append(ids, next(t, s, logits))
		}
		return ids
	}
	require.Equal(t, []int32{1, 3, 1, 3}, draw(sampling.Options{Frequency: .4}, nil, 4))
	require.Equal(t, []int32{1, 3, 2, 1, 1}, draw(sampling.Options{Presence: 1.5}, nil, 5), "1 and 3 have 1.5 after one draw, 2 has 0.5")
	require.Equal(t, []int32{2, 1, 1}, draw(sampling.Options{Repetition: 2}, []int32{1, 3}, 3), "the prompt counts")
	require.Equal(t, []int32{4, 4}, draw(sampling.Options{Repetition: 1, Bias: map[int32]float64{4: 5}}, nil, 2))
	require.Equal(t, []int32{1, 1}, draw(sampling.Options{Repetition: 1}, []int32{1}, 2))
}

func TestLogProbs(t *testing.T) {
	sum := 0.0
	for _, l := range logits {
		sum += math.Exp(float64(l))
	}
	value := func(id int) float64 { return float64(logits[id]) - math.Log(sum) }
	of, best := sampling.LogProbs(logits, 2, 3)
	require.InDelta(t, value(2), of, 1e-12)
	require.Len(t, best, 3)
	for i, id := range []int32{1, 3, 2} {
		require.Equal(t, id, best[i].ID)
		require.InDelta(t, value(int(id)), best[i].Value, 1e-12)
	}
	_, best = sampling.LogProbs(logits, 0, 0)
	require.Empty(t, best)
	_, best = sampling.LogProbs(logits, 0, 9)
	require.Len(t, best, len(logits))
	require.EqualValues(t, 4, best[4].ID)
}

// TestNoToken: logits of a damaged model give no token. They are an error, which a server survives.
func TestNoToken(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, logits := range [][]float32{nil, {nan, nan}, {1, nan}, {inf, 1}, {-inf, -inf}} {
		for _, temperature := range []float64{0, 1} {
			_, err := sampling.New(sampling.Options{Temperature: temperature, TopP: 1}, nil).Next(logits)
			require.ErrorIs(t, err, sampling.ErrLogits, "%v", logits)
		}
	}
	id, err := sampling.New(sampling.Options{TopP: 1}, nil).Next([]float32{-inf, -1})
	require.NoError(t, err, "tokens may be impossible")
	require.EqualValues(t, 1, id)
}

// TestKeptTokens compares the tokens that top-k, top-p and min-p keep with those that the same rules keep of a sorted list. Many logits are equal.
func TestKeptTokens(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		logits := make([]float32, 1+rng.IntN(60))
		for i := range logits {
			logits[i] = float32(rng.IntN(12)) / 4
		}
		o := sampling.Options{Temperature: 0.3 + rng.Float64(), TopP: 1, Seed: rng.Uint64()}
		if rng.IntN(2) == 0 {
			o.TopK = 1 + rng.IntN(70)
		}
		if rng.IntN(2) == 0 {
			o.TopP = 0.01 + 0.98*rng.Float64()
		}
		if rng.IntN(3) == 0 {
			o.MinP = rng.Float64()
		}
		order := make([]int, len(logits))
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(logits[b], logits[a]) })
		if o.TopK > 0 {
			order = order[:min(o.TopK, len(order))]
		}
		weight := func(id int) float64 { return math.Exp(float64(logits[id]-logits[order[0]]) / o.Temperature) }
		sum, reached := 0.0, 0.0
		for _, id := range order {
			sum += weight(id)
		}
		want := map[int]bool{}
		for _, id := range order {
			if weight(id) < o.MinP || reached >= o.TopP*sum*(1-1e-12) && o.TopP < 1 {
				break
			}
			reached += weight(id)
			want[id] = true
		}
		got := map[int]bool{}
		for id, n := range drawn(t, o, logits, 3000) {
			if n > 0 {
				got[id] = true
			}
		}
		for id := range got {
			require.True(t, want[id], "%+v: token %d of %v", o, id, logits)
		}
		for id := range want {
			if weight(id)/reached > 0.01 { // left out by 3,000 draws once in 10¹³ times
				require.True(t, got[id], "%+v: token %d of %v", o, id, logits)
			}
		}
	}
}

func BenchmarkNext(b *testing.B) {
	logits := make([]float32, 151_936)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range logits {
		logits[i] = float32(3 * rng.NormFloat64())
	}
	for name, o := range map[string]sampling.Options{"all": {Temperature: 1, TopP: 1}, "top-p": {Temperature: 1, TopP: .95}, "top-k": {Temperature: 1, TopP: .95, TopK: 20}} {
		b.Run(name, func(b *testing.B) {
			s := sampling.New(o, nil)
			for b.Loop() {
				if _, err := s.Next(logits); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

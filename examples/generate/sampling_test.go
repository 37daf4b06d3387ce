package main

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

var logits = []float32{1, 3, 2, 3, -1}

// drawn counts the tokens of many draws.
func drawn(s sampling, logits []float32, n int) []int {
	sampler := newSampler(s)
	counts := make([]int, len(logits))
	for range n {
		counts[sampler.next(logits)]++
	}
	return counts
}

func TestGreedy(t *testing.T) {
	require.Equal(t, []int{0, 10, 0, 0, 0}, drawn(sampling{TopP: 1}, logits, 10), "of equals the first")
	require.Equal(t, []int{0, 10, 0, 0, 0}, drawn(sampling{Temperature: 1, TopK: 1, TopP: 1}, logits, 10))
	require.Equal(t, []int{0, 10, 0, 0, 0}, drawn(sampling{Temperature: 1, TopP: 1e-9}, logits, 10))
	require.Equal(t, []int{10}, drawn(sampling{Temperature: 1, TopK: 9, TopP: 1}, logits[:1], 10))
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
		sampling
		want []float64
	}{
		"all":               {sampling{1, 0, 1, 1}, softmax(1, 0, 1, 2, 3, 4)},
		"cold":              {sampling{0.5, 0, 1, 2}, softmax(0.5, 0, 1, 2, 3, 4)},
		"hot":               {sampling{10, 0, 1, 3}, softmax(10, 0, 1, 2, 3, 4)},
		"three":             {sampling{1, 3, 1, 4}, softmax(1, 1, 2, 3)},
		"more than all":     {sampling{1, 9, 1, 5}, softmax(1, 0, 1, 2, 3, 4)},
		"just two of p":     {sampling{1, 0, 0.5, 6}, softmax(1, 1, 3)},
		"three of p":        {sampling{1, 0, 0.9, 7}, softmax(1, 1, 2, 3)},
		"p of the k likely": {sampling{1, 2, 0.4, 8}, softmax(1, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			for id, count := range drawn(c.sampling, logits, n) {
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
		s := newSampler(sampling{Temperature: 1, TopP: 1, Seed: seed})
		for range 50 {
			ids = append(ids, s.next(logits))
		}
		return ids
	}
	require.Equal(t, draw(1), draw(1))
	require.NotEqual(t, draw(1), draw(2))
}

func TestSamplingRefusals(t *testing.T) {
	for text, s := range map[string]sampling{
		"-temperature -1": {Temperature: -1, TopP: 1}, "-temperature NaN": {Temperature: math.NaN(), TopP: 1}, "-temperature +Inf": {Temperature: math.Inf(1), TopP: 1},
		"-top-k -1": {TopK: -1, TopP: 1}, "-top-p 0": {}, "-top-p 1.5": {TopP: 1.5}, "-top-p NaN": {TopP: math.NaN()},
	} {
		require.ErrorContains(t, s.validate(), text)
	}
}

package gating

import (
	"cmp"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/indexing"
	"github.com/goascend/cann/internal/emu/kernel/order"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/kernel/thread"
)

// Groups chooses the experts of tokens in two steps: first the best groups of experts, then
// the best experts within those groups.
type Groups struct {
	Scores kernel.View // [rows, experts]
	Bias   kernel.View // [experts], added to the scores for the choice only; may have no data
	// Sigmoid applies a sigmoid to the scores instead of a softmax.
	Sigmoid          bool
	Number, Kept     int64 // number of equal groups, and how many of them are kept
	BestTwo          bool  // rank a group by the sum of its two best scores, else by its best one
	Scale, Epsilon   float64
	Normalise        bool        // divide the chosen weights by their sum plus Epsilon
	Weights, Experts kernel.View // [rows, k]
	All              kernel.View // [rows, experts], gets the normalised scores; may have no data
}

// Choose computes Weights, Experts and All.
func (g Groups) Choose() error {
	rows, n, k := g.Scores.Shape[0], g.Scores.Shape[1], g.Weights.Shape[1]
	all, release := kernel.Temporary(g.Scores.Shape...)
	defer release()
	var err error
	if g.Sigmoid {
		err = elementwise.Map(elementwise.Sigmoid, dtype.Float32, all, []elementwise.Input{elementwise.Of(g.Scores)})
	} else {
		err = rowwise.Softmax(all, g.Scores, 1)
	}
	if err == nil && g.All.Data != nil {
		err = elementwise.Copy(g.All, all)
	}
	if err != nil {
		return err
	}
	scores, err := elementwise.Floats(all)
	if err != nil {
		return err
	}
	bias := make([]float32, n)
	if g.Bias.Data != nil {
		if bias, err = elementwise.Floats(g.Bias); err != nil {
			return err
		}
	}
	weights := make([]float64, rows*k)
	experts := make([]int64, rows*k)
	thread.Parallel(rows, 16, func(lo, hi int64) {
		for r := lo; r < hi; r++ {
			g.row(scores[r*n:][:n], bias, weights[r*k:][:k], experts[r*k:][:k])
		}
	})
	if err := indexing.SetInts(g.Experts, experts); err != nil {
		return err
	}
	return elementwise.SetFloats(g.Weights, weights)
}

// row chooses the experts of one token.
func (g Groups) row(scores, bias []float32, weights []float64, experts []int64) {
	biased := make([]float32, len(scores))
	for i, s := range scores {
		biased[i] = s + bias[i]
	}
	size := len(scores) / int(g.Number)
	worth := make([]float32, g.Number)
	for i := range worth {
		group := slices.Clone(biased[i*size:][:size])
		slices.SortFunc(group, func(a, b float32) int { return cmp.Compare(b, a) })
		worth[i] = group[0]
		if g.BestTwo && size > 1 {
			worth[i] += group[1]
		}
	}
	var open []int64
	for _, i := range order.Descending(worth)[:g.Kept] {
		for j := range size {
			open = append(open, i*int64(size)+int64(j))
		}
	}
	slices.Sort(open)
	of := make([]float32, len(open))
	for i, e := range open {
		of[i] = biased[e]
	}
	sum := 0.0
	for i, at := range order.Descending(of)[:len(experts)] {
		experts[i], weights[i] = open[at], float64(scores[open[at]])
		sum += weights[i]
	}
	factor := g.Scale
	if g.Normalise {
		factor /= sum + g.Epsilon
	}
	for i := range weights {
		weights[i] *= factor
	}
}

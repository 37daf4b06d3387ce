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
	Number, Kept     int64   // number of equal groups, and how many of them are kept
	Best             int64   // a group is ranked by the sum of this many of its best scores
	OthersZero       bool    // experts of groups that are not kept have the score 0, with which they can still be chosen
	Given            []int64 // [rows, k], the experts if the choice is made already; nil to choose
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
	experts, given := g.Given, g.Given != nil
	if !given {
		experts = make([]int64, rows*k)
	}
	thread.Parallel(rows, 16, func(lo, hi int64) {
		for r := lo; r < hi; r++ {
			own := experts[r*k:][:k]
			if !given {
				g.choose(own, scores[r*n:][:n], bias)
			}
			g.weigh(weights[r*k:][:k], own, scores[r*n:][:n])
		}
	})
	if err := indexing.SetInts(g.Experts, experts); err != nil {
		return err
	}
	return elementwise.SetFloats(g.Weights, weights)
}

// choose chooses the experts of one token.
func (g Groups) choose(experts []int64, scores, bias []float32) {
	biased := make([]float32, len(scores))
	for i, s := range scores {
		biased[i] = s + bias[i]
	}
	size := len(scores) / int(g.Number)
	worth := make([]float32, g.Number)
	for i := range worth {
		group := slices.Clone(biased[i*size:][:size])
		slices.SortFunc(group, func(a, b float32) int { return cmp.Compare(b, a) })
		for _, s := range group[:g.Best] {
			worth[i] += s
		}
	}
	ranked := order.Descending(worth)
	var open []int64
	for _, i := range ranked[:g.Kept] {
		for j := range size {
			open = append(open, i*int64(size)+int64(j))
		}
	}
	if g.OthersZero {
		for _, i := range ranked[g.Kept:] {
			for j := range size {
				e := i*int64(size) + int64(j)
				open, biased[e] = append(open, e), 0
			}
		}
	}
	slices.Sort(open)
	of := make([]float32, len(open))
	for i, e := range open {
		of[i] = biased[e]
	}
	for i, at := range order.Descending(of)[:len(experts)] {
		experts[i] = open[at]
	}
}

// weigh sets the weights of the experts of one token.
func (g Groups) weigh(weights []float64, experts []int64, scores []float32) {
	sum := 0.0
	for i, e := range experts {
		weights[i] = float64(scores[e])
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

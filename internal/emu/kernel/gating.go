package kernel

import (
	"cmp"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/order"
)

// Gating chooses the experts of tokens: the k largest of every row of scores.
type Gating struct {
	Scores View // [..., experts]
	// TopKFirst selects the k largest scores first and takes their softmax. Otherwise the
	// softmax of all scores is taken first and the k largest results are selected.
	TopKFirst bool
	Finished  View // [...], bool; a row where it is true gets the invalid expert number `experts`
}

// Choose sets weights [..., k] to the weights of the chosen experts and experts [..., k] to their
// numbers, best first. If rowIndex [..., k] has data, it gets the column-major number of each
// choice; if softmax [..., experts] has data, it gets the softmax of all scores.
func (g *Gating) Choose(weights, experts, rowIndex, softmax View) error {
	axis := len(experts.Shape) - 1
	k := experts.Shape[axis]
	rows := experts.Len() / k
	all, release := temporary(dtype.Float32, g.Scores.Shape)
	defer release()
	scores := g.Scores
	if !g.TopKFirst {
		if err := Softmax(all, scores, axis); err != nil {
			return err
		}
		scores = all
		if softmax.Data != nil {
			if err := Copy(softmax, all); err != nil {
				return err
			}
		}
	}
	places, releasePlaces := temporary(dtype.Int64, experts.Shape)
	defer releasePlaces()
	if err := Order(places, scores, axis, true); err != nil {
		return err
	}
	best, releaseBest := temporary(scores.DType, experts.Shape)
	defer releaseBest()
	if err := Gather(best, scores, axis, places); err != nil {
		return err
	}
	if g.TopKFirst {
		if err := Softmax(weights, best, axis); err != nil {
			return err
		}
	} else if err := Copy(weights, best); err != nil {
		return err
	}
	if g.Finished.Data != nil {
		finished, releaseFinished := temporary(dtype.Bool, g.Finished.Shape)
		defer releaseFinished()
		if err := Copy(finished, g.Finished); err != nil {
			return err
		}
		for i := range places.ints() {
			if finished.bytes()[int64(i)/k] != 0 {
				places.ints()[i] = g.Scores.Shape[axis]
			}
		}
	}
	if err := Copy(experts, places); err != nil || rowIndex.Data == nil {
		return err
	}
	for i := range places.ints() {
		places.ints()[i] = int64(i)%k*rows + int64(i)/k
	}
	return Copy(rowIndex, places)
}

// GroupGating chooses the experts of tokens in two steps: first the best groups of experts, then
// the best experts within those groups.
type GroupGating struct {
	Scores View // [rows, experts]
	Bias   View // [experts], added to the scores for the choice only; may have no data
	// Sigmoid applies a sigmoid to the scores instead of a softmax.
	Sigmoid          bool
	Groups, Kept     int64 // number of equal groups, and how many of them are kept
	BestTwo          bool  // rank a group by the sum of its two best scores, else by its best one
	Scale, Epsilon   float64
	Normalise        bool // divide the chosen weights by their sum plus Epsilon
	Weights, Experts View // [rows, k]
	All              View // [rows, experts], gets the normalised scores; may have no data
}

// Choose computes Weights, Experts and All.
func (g GroupGating) Choose() error {
	rows, n, k := g.Scores.Shape[0], g.Scores.Shape[1], g.Weights.Shape[1]
	all, release := temporary(dtype.Float32, g.Scores.Shape)
	defer release()
	err := error(nil)
	if g.Sigmoid {
		err = Map(Sigmoid, dtype.Float32, all, []Input{Of(g.Scores)})
	} else {
		err = Softmax(all, g.Scores, 1)
	}
	if err == nil && g.All.Data != nil {
		err = Copy(g.All, all)
	}
	if err != nil {
		return err
	}
	bias := make([]float32, n)
	if g.Bias.Data != nil {
		if bias, err = Floats(g.Bias); err != nil {
			return err
		}
	}
	weights, releaseWeights := temporary(dtype.Float32, g.Weights.Shape)
	defer releaseWeights()
	experts := make([]int64, rows*k)
	Parallel(rows, 16, func(lo, hi int64) {
		for r := lo; r < hi; r++ {
			g.row(all.floats()[r*n:][:n], bias, weights.floats()[r*k:][:k], experts[r*k:][:k])
		}
	})
	if err := SetInts(g.Experts, experts); err != nil {
		return err
	}
	return Copy(g.Weights, weights)
}

// row chooses the experts of one token.
func (g GroupGating) row(scores, bias, weights []float32, experts []int64) {
	biased := make([]float32, len(scores))
	for i, s := range scores {
		biased[i] = s + bias[i]
	}
	size := len(scores) / int(g.Groups)
	worth := make([]float32, g.Groups)
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
		experts[i], weights[i] = open[at], scores[open[at]]
		sum += float64(weights[i])
	}
	factor := g.Scale
	if g.Normalise {
		factor /= sum + g.Epsilon
	}
	for i := range weights {
		weights[i] = float32(float64(weights[i]) * factor)
	}
}

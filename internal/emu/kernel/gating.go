package kernel

import (
	"github.com/goascend/cann/internal/dtype"
)

// Gating chooses the experts of tokens: the k largest of every row of scores.
type Gating struct {
	Scores View // [..., experts]
	// TopKFirst takes the softmax of the scores chosen, else the choice is among the softmax
	// of all scores.
	TopKFirst bool
	Finished  View // [...], bool; a row where it is true gets experts that do not exist
}

// Choose sets weights [..., k] to the softmax of the chosen scores and experts [..., k] to
// their places, the best first. With data, rowIndex [..., k] gets the number of each choice
// counted by columns, and softmax [..., experts] the softmax of all scores.
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

// FromIndices writes integers to a view of their number of elements.
func FromIndices(v View, x []int64) error {
	whole, release := temporary(dtype.Int64, v.Shape)
	defer release()
	copy(whole.ints(), x)
	return Copy(v, whole)
}

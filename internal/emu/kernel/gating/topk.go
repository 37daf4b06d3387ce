package gating

import (
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/indexing"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
)

// TopK chooses the experts of tokens by the k largest of every row of scores.
type TopK struct {
	Scores kernel.View // [..., experts]
	// TopKFirst selects the k largest scores first and takes their softmax. Otherwise the
	// softmax of all scores is taken first and the k largest results are selected.
	TopKFirst bool
	Finished  kernel.View // [...], bool; a row where it is true gets the invalid expert number `experts`
}

// Choose sets weights [..., k] to the weights of the chosen experts and experts [..., k] to their
// numbers, best first. If rowIndex [..., k] has data, it gets the column-major number of each
// choice; if softmax [..., experts] has data, it gets the softmax of all scores.
func (g TopK) Choose(weights, experts, rowIndex, softmax kernel.View) error {
	axis := len(experts.Shape) - 1
	k := experts.Shape[axis]
	rows := experts.Len() / k
	all, release := kernel.Temporary(g.Scores.Shape...)
	defer release()
	scores := g.Scores
	if !g.TopKFirst {
		if err := rowwise.Softmax(all, scores, axis); err != nil {
			return err
		}
		scores = all
		if softmax.Data != nil {
			if err := elementwise.Copy(softmax, all); err != nil {
				return err
			}
		}
	}
	places, releasePlaces := kernel.TemporaryInt64(experts.Shape...)
	defer releasePlaces()
	if err := indexing.Order(places, scores, axis, true); err != nil {
		return err
	}
	best, releaseBest := kernel.TemporaryOf(scores.DType, experts.Shape...)
	defer releaseBest()
	if err := indexing.Gather(best, scores, axis, places); err != nil {
		return err
	}
	if g.TopKFirst {
		if err := rowwise.Softmax(weights, best, axis); err != nil {
			return err
		}
	} else if err := elementwise.Copy(weights, best); err != nil {
		return err
	}
	chosen, err := elementwise.Indices(places)
	if err != nil {
		return err
	}
	if g.Finished.Data != nil {
		finished, err := elementwise.Indices(g.Finished)
		if err != nil {
			return err
		}
		for i := range chosen {
			if finished[int64(i)/k] != 0 {
				chosen[i] = g.Scores.Shape[axis]
			}
		}
	}
	if err := indexing.SetInts(experts, chosen); err != nil || rowIndex.Data == nil {
		return err
	}
	for i := range chosen {
		chosen[i] = int64(i)%k*rows + int64(i)/k
	}
	return indexing.SetInts(rowIndex, chosen)
}

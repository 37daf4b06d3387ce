package resampling

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/indexing"
	"github.com/goascend/cann/internal/emu/kernel/order"
	"github.com/goascend/cann/internal/emu/op"
)

// suppressions lists the operators that choose among boxes that overlap.
var suppressions = op.Table{"NonMaxSuppression": nonMaxSuppression}

// mostChosen is the largest number of boxes that the device chooses of a class.
const mostChosen = 700

// nonMaxSuppression chooses boxes of each class by falling score, without those that overlap a chosen
// one. A result row is [image, class, box]; rows that are left over are -1.
func nonMaxSuppression(c *op.Call) (op.Run, error) {
	boxes, scores, out := c.Tensor("boxes"), c.Tensor("scores"), c.Tensor("selectedIndices")
	limits := c.Ints("maxOutputBoxesPerClass")
	s := suppression{corners: c.Int("centerPointBox") == 0}
	if len(limits) > 0 {
		s.limit = limits[0]
	}
	if s.limit < 0 || s.limit > mostChosen {
		c.Invalid("maxOutputBoxesPerClass is %d; use 0 to %d", s.limit, mostChosen)
	}
	for _, into := range []op.Named[*float64]{{Name: "iouThreshold", Value: &s.overlap}, {Name: "scoreThreshold", Value: &s.least}} {
		if v := c.Floats(into.Name); len(v) > 0 {
			*into.Value = float64(v[0])
		}
		if !(*into.Value >= 0 && *into.Value <= 1) {
			c.Invalid("%s is %g; use 0 to 1", into.Name, *into.Value)
		}
	}
	c.Plain(boxes, scores, out)
	c.DType(out, dtype.Int32)
	if c.Err() == nil && (out.Rank() != 2 || out.Dim(1) != 3) {
		c.Invalid("%v must have rows of an image, a class and a box", out)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	return func(*op.Exec) error {
		all, err := elementwise.Doubles(boxes.View())
		if err != nil {
			return err
		}
		of, err := elementwise.Doubles(scores.View())
		if err != nil {
			return err
		}
		n, rows := int(scores.Dim(2)), out.Len()
		chosen := make([]int64, 0, rows)
		for image := range scores.Dim(0) {
			for class := range scores.Dim(1) {
				for _, box := range s.choose(all[4*n*int(image):][:4*n], of[:n]) {
					chosen = append(chosen, image, class, box)
				}
				of = of[n:]
			}
		}
		for int64(len(chosen)) < rows {
			chosen = append(chosen, -1)
		}
		return indexing.SetInts(out.View(), chosen[:rows])
	}, nil
}

// suppression is which boxes of a class are chosen: at most limit, with scores above least, and of
// two that overlap by more than overlap, their intersection over their union, the better one.
type suppression struct {
	limit          int64
	overlap, least float64
	corners        bool // boxes are two corners, not a centre and a size
}

// choose returns the chosen boxes by falling score. Equal scores keep their order.
func (s suppression) choose(boxes, scores []float64) (chosen []int64) {
	for _, i := range order.Descending(scores) {
		if int64(len(chosen)) == s.limit || !(scores[i] > s.least) {
			break
		}
		hidden := slices.ContainsFunc(chosen, func(j int64) bool { return s.overlaps(boxes[4*i:][:4], boxes[4*j:][:4]) })
		if !hidden {
			chosen = append(chosen, i)
		}
	}
	return chosen
}

func (s suppression) overlaps(a, b []float64) bool {
	common, areas := 1.0, [2]float64{1, 1}
	for k := range 2 {
		var low, high [2]float64
		for i, box := range [][]float64{a, b} {
			low[i], high[i] = box[k], box[k+2]
			if !s.corners {
				low[i], high[i] = box[k]-box[k+2]/2, box[k]+box[k+2]/2
			}
			areas[i] *= high[i] - low[i]
		}
		common *= max(min(high[0], high[1])-max(low[0], low[1]), 0)
	}
	return common > (areas[0]+areas[1])*s.overlap/(1+s.overlap)
}

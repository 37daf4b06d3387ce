package resampling

import (
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/op"
)

// overlaps lists the measures of how much boxes cover each other.
var overlaps = op.Table{"Iou": boxOverlap}

// boxOverlap divides the common area of two boxes [x0, y0, x1, y1] by the area of both together ("iou"), or by that of the
// second box ("iof"). eps is added to each width and height, also to those of the common area before its sign is looked at.
// Aligned boxes are compared pair by pair, others each with each.
func boxOverlap(c *op.Call) (op.Run, error) {
	boxes, truth, out := c.Tensor("bBoxes"), c.Tensor("gtBoxes"), c.Tensor("overlap")
	mode, eps, aligned := c.Text("mode"), c.Float("eps"), c.Bool("aligned")
	if c.Err() != nil {
		return nil, c.Err()
	}
	c.Plain(boxes, truth, out)
	c.DType(boxes, op.FloatTypes...)
	c.SameDType(boxes, truth, out)
	if mode != "iou" && mode != "iof" {
		c.Invalid("mode is %q; use iou or iof", mode)
	}
	if !(eps >= 0) {
		c.Invalid("eps is %g; it must not be negative", eps)
	}
	for _, t := range []*op.Tensor{boxes, truth, out} {
		c.Rank(t, 2, 2)
	}
	for _, t := range []*op.Tensor{boxes, truth} {
		if c.Err() == nil && t.Dim(1) != 4 {
			c.Invalid("%v must have rows of two corners, 4 numbers", t)
		}
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	shape := []int64{boxes.Dim(0), truth.Dim(0)}
	if aligned {
		shape[1] = 1
		if boxes.Dim(0) != truth.Dim(0) || out.Dim(1) != 1 {
			c.Invalid("%v, %v and %v: aligned boxes are as many, and have one result each", boxes, truth, out)
		}
	}
	if boxes.Len() == 0 || truth.Len() == 0 {
		return op.Nothing, c.Err()
	}
	if !op.SameShape(out.Shape, shape) {
		c.Fail(op.NoStep, "%v must have shape %s, a row for each of %v", out, op.Dims(shape), boxes)
	}
	return func(*op.Exec) error {
		first, err := elementwise.Doubles(boxes.View())
		if err != nil {
			return err
		}
		second, err := elementwise.Doubles(truth.View())
		if err != nil {
			return err
		}
		covered := make([]float64, 0, op.Count(shape))
		for i := range shape[0] {
			for j := range shape[1] {
				if aligned {
					j = i
				}
				covered = append(covered, cover(first[4*i:][:4], second[4*j:][:4], eps, mode == "iof"))
			}
		}
		return elementwise.SetFloats(out.View(), covered)
	}, c.Err()
}

// cover returns the common area of two boxes divided by that of both, or by that of the second one.
func cover(a, b []float64, eps float64, ofSecond bool) float64 {
	common, first, second := 1.0, 1.0, 1.0
	for k := range 2 {
		common *= max(min(a[k+2], b[k+2])+eps-max(a[k], b[k]), 0)
		first *= a[k+2] - a[k] + eps
		second *= b[k+2] - b[k] + eps
	}
	if ofSecond {
		return common / second
	}
	return common / (first + second - common)
}

package resampling

import (
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/interpolate"
	"github.com/goascend/cann/internal/emu/op"
)

// regions lists the operators that pool boxes of images to a fixed size.
var regions = op.Table{
	"RoiAlign": roiAlign, "RoiAlignV2": roiAlign, "RoiAlignV2Backward": roiAlignBackward,
}.Selects("RoiAlign", "RoiAlignV2")

// region reads the arguments that the forms share.
func region(c *op.Call) (r interpolate.Region, h, w int64) {
	r = interpolate.Region{Scale: c.Float("spatialScale"), Samples: int(c.Int("samplingRatio")), Half: c.Flag("aligned"), Largest: c.Has("mode") && c.Text("mode") == "max"}
	h, w = c.Int(c.Either("pooledHeight", "outputHeight")), c.Int(c.Either("pooledWidth", "outputWidth"))
	if !(r.Scale > 0) {
		c.Invalid("spatialScale is %g; it must be above 0", r.Scale)
	}
	return r, h, w
}

func roiAlign(c *op.Call) (op.Run, error) {
	image, boxes, out := c.Tensor("self"), c.Tensor(c.Either("boxes", "rois")), c.Tensor("out")
	r, h, w := region(c)
	c.Plain(image, boxes, out)
	c.Rank(image, 4, 4)
	c.Rank(boxes, 2, 2)
	if c.Err() != nil {
		return nil, c.Err()
	}
	c.Shape(out, []int64{boxes.Dim(0), image.Dim(1), h, w}, "the pooled size of each box")
	batch := c.OptionalOf("batchIndices")
	return func(*op.Exec) error {
		switch {
		case out.Len() == 0:
			return nil
		case image.Len() == 0:
			return op.Zero(out)
		}
		rows, err := elementwise.Doubles(boxes.View())
		if err != nil {
			return err
		}
		if batch != nil {
			numbers, err := elementwise.Indices(batch.View())
			if err != nil {
				return err
			}
			rows = numbered(numbers, rows)
		}
		return r.Forward(out.View(), image.View(), rows)
	}, c.Err()
}

// numbered puts the number of its image before each box.
func numbered(numbers []int64, boxes []float64) (rows []float64) {
	for i, n := range numbers {
		rows = append(append(rows, float64(n)), boxes[4*i:][:4]...)
	}
	return rows
}

func roiAlignBackward(c *op.Call) (op.Run, error) {
	dout, boxes, dimage := c.Tensor("gradOutput"), c.Tensor("boxes"), c.Tensor("gradInput")
	r, h, w := region(c)
	c.Plain(dout, boxes, dimage)
	c.DType(dout, dtype.Float32)
	c.Rank(dimage, 4, 4)
	c.Rank(boxes, 2, 2)
	if c.Err() != nil {
		return nil, c.Err()
	}
	c.Shape(dout, []int64{boxes.Dim(0), dimage.Dim(1), h, w}, "the pooled size of each box")
	return func(*op.Exec) error {
		if dout.Len() == 0 || dimage.Len() == 0 {
			return op.Zero(dimage)
		}
		rows, err := elementwise.Doubles(boxes.View())
		if err != nil {
			return err
		}
		return r.Backward(dimage.View(), dout.View(), rows)
	}, c.Err()
}

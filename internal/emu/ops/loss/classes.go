package loss

import (
	"fmt"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/op"
)

// classLosses lists the losses of class scores with several labels, or with a distribution as
// the target.
var classLosses = op.Table{"MultilabelMarginLoss": multilabelMargin, "SoftmaxCrossEntropyWithLogits": softmaxCrossEntropy}

// softmaxCrossEntropy computes −Σ labels · log softmax(features) of each row, and its gradient.
func softmaxCrossEntropy(c *op.Call) (op.Run, error) {
	x, labels, loss, dx := c.Tensor("features"), c.Tensor("labels"), c.Tensor("loss"), c.Tensor("backprop")
	c.Plain(x, labels, loss, dx)
	c.DType(x, op.FloatTypes...)
	c.Rank(x, 2, 2)
	c.Same(x, labels, dx)
	c.SameDType(x, loss)
	if c.Err() == nil {
		c.Shape(loss, x.Shape[:1], "one for each row")
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if x.Len() == 0 {
			return op.Zero(loss)
		}
		t, release := kernel.Temporary(x.Shape...)
		defer release()
		steps := []func() error{
			func() error { return rowwise.LogSoftmax(t, x.View(), 1) },
			func() error {
				each, release := kernel.Temporary(x.Shape...)
				defer release()
				if err := elementwise.Map(elementwise.Mul, dtype.Float32, each, []elementwise.Input{elementwise.Of(t), elementwise.Of(labels.View())}); err != nil {
					return err
				}
				sum, releaseSum := kernel.Temporary(x.Shape[0])
				defer releaseSum()
				if err := rowwise.Reduce(rowwise.ReduceSum, sum, each, []int{1}, 0); err != nil {
					return err
				}
				return elementwise.Map(elementwise.Neg, dtype.Float32, loss.View(), []elementwise.Input{elementwise.Of(sum)})
			},
			func() error {
				return elementwise.Map(elementwise.Exp, dtype.Float32, t, []elementwise.Input{elementwise.Of(t)})
			},
			func() error {
				return elementwise.Map(elementwise.Add, dtype.Float32, dx.View(), []elementwise.Input{elementwise.Of(t), elementwise.Of(labels.View())}, elementwise.Whole(-1))
			},
		}
		for _, step := range steps {
			if err := step(); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// multilabelMargin sums max(0, 1 − (x[label] − x[class])) over the labels of a row, which end at
// the first -1, and over the classes that are not labels. It divides the sum by the number of
// classes.
func multilabelMargin(c *op.Call) (op.Run, error) {
	x, target, out, mask := c.Tensor("self"), c.Tensor("target"), c.Tensor("out"), c.Tensor("isTarget")
	averaging := averaging(c)
	c.Plain(x, target, out, mask)
	c.DType(x, op.FloatTypes...)
	c.DType(target, op.IndexTypes...)
	c.Rank(x, 1, 2)
	c.SameShape(x, target)
	c.Same(x, mask)
	c.SameDType(x, out)
	if c.Err() != nil {
		return nil, c.Err()
	}
	classes := x.Dim(-1)
	if classes == 0 {
		c.Invalid("%v has no classes", x)
	}
	if averaging == rowwise.NoAveraging && x.Rank() == 2 {
		c.Shape(out, x.Shape[:1], "one for each row")
	} else {
		c.Single(out)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		scores, err := elementwise.Doubles(x.View())
		if err != nil {
			return err
		}
		labels, err := elementwise.Indices(target.View())
		if err != nil {
			return err
		}
		marks, losses := make([]float64, len(scores)), make([]float64, int64(len(scores))/classes)
		for r := range losses {
			lo := int64(r) * classes
			row, own := scores[lo:][:classes], marks[lo:][:classes]
			if losses[r], err = multilabelRow(row, own, labels[lo:][:classes]); err != nil {
				return fmt.Errorf("row %d: %w", r, err)
			}
		}
		if averaging != rowwise.NoAveraging {
			losses = []float64{mean(losses, averaging)}
		}
		if err := elementwise.SetFloats(out.View(), losses); err != nil {
			return err
		}
		return elementwise.SetFloats(mask.View(), marks)
	}, nil
}

// mean returns the sum of the losses or their mean, which is NaN without losses.
func mean(losses []float64, averaging rowwise.Averaging) float64 {
	sum := 0.0
	for _, l := range losses {
		sum += l
	}
	if averaging == rowwise.MeanAveraging {
		sum /= float64(len(losses))
	}
	return sum
}

// multilabelRow marks the labels of a row and returns its loss.
func multilabelRow(scores, marks []float64, labels []int64) (loss float64, err error) {
	var own []int64
	for _, k := range labels {
		if k == -1 {
			break
		}
		if k < 0 || k >= int64(len(scores)) {
			return 0, fmt.Errorf("label %d is out of range for %d classes", k, len(scores))
		}
		own, marks[k] = append(own, k), 1
	}
	for _, k := range own {
		for j, s := range scores {
			if marks[j] == 0 {
				loss += max(0, 1-(scores[k]-s))
			}
		}
	}
	return loss / float64(len(scores)), nil
}

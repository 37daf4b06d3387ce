package nn

import (
	"fmt"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// classLosses compare scores of classes with several labels, or with a distribution.
var classLosses = table{"MultilabelMarginLoss": multilabelMargin, "SoftmaxCrossEntropyWithLogits": softmaxCrossEntropy}

// softmaxCrossEntropy gives −Σ labels · log softmax(features) of each row, and its gradient.
func softmaxCrossEntropy(c *Call) (Run, error) {
	x, labels, loss, dx := c.Tensor("features"), c.Tensor("labels"), c.Tensor("loss"), c.Tensor("backprop")
	c.plain(x, labels, loss, dx)
	c.DType(x, transformerTypes...)
	c.Rank(x, 2, 2)
	c.Same(x, labels, dx)
	c.SameDType(x, loss)
	if c.Err() == nil {
		c.Shape(loss, x.Shape[:1], "one for each row")
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if x.Len() == 0 {
			return zero(loss)
		}
		t, release := kernel.Temporary(x.Shape...)
		defer release()
		steps := []func() error{
			func() error { return kernel.LogSoftmax(t, x.View(), 1) },
			func() error {
				each, release := kernel.Temporary(x.Shape...)
				defer release()
				if err := kernel.Map(kernel.Mul, dtype.Float32, each, []kernel.Input{kernel.Of(t), kernel.Of(labels.View())}); err != nil {
					return err
				}
				sum, releaseSum := kernel.Temporary(x.Shape[0])
				defer releaseSum()
				if err := kernel.Reduce(kernel.ReduceSum, sum, each, []int{1}, 0); err != nil {
					return err
				}
				return kernel.Map(kernel.Neg, dtype.Float32, loss.View(), []kernel.Input{kernel.Of(sum)})
			},
			func() error { return kernel.Map(kernel.Exp, dtype.Float32, t, []kernel.Input{kernel.Of(t)}) },
			func() error {
				return kernel.Map(kernel.Add, dtype.Float32, dx.View(), []kernel.Input{kernel.Of(t), kernel.Of(labels.View())}, kernel.Whole(-1))
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

// multilabelMargin sums, over the labels of a row up to the first -1 and the classes that
// are none, max(0, 1 − (score of the label − score of the class)), divided by the classes.
func multilabelMargin(c *Call) (Run, error) {
	x, target, out, mask := c.Tensor("self"), c.Tensor("target"), c.Tensor("out"), c.Tensor("isTarget")
	averaging := c.averaging()
	c.plain(x, target, out, mask)
	c.DType(x, transformerTypes...)
	c.DType(target, indexTypes...)
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
	if averaging == kernel.NoAveraging && x.Rank() == 2 {
		c.Shape(out, x.Shape[:1], "one for each row")
	} else {
		c.single(out)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		scores, err := kernel.Doubles(x.View())
		if err != nil {
			return err
		}
		labels, err := kernel.Indices(target.View())
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
		if averaging != kernel.NoAveraging {
			losses = []float64{mean(losses, averaging)}
		}
		if err := kernel.SetFloats(out.View(), losses); err != nil {
			return err
		}
		return kernel.SetFloats(mask.View(), marks)
	}, nil
}

// mean is the sum of losses or their mean, which is NaN for none.
func mean(losses []float64, averaging kernel.Averaging) float64 {
	sum := 0.0
	for _, l := range losses {
		sum += l
	}
	if averaging == kernel.MeanAveraging {
		sum /= float64(len(losses))
	}
	return sum
}

// multilabelRow marks the labels of a row and gives its loss.
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

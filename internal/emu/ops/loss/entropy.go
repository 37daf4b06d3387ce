package loss

import (
	"slices"

	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/op"
)

// divergences compare predictions with targets, both of which may be weighted.
var divergences = op.Table{
	"BinaryCrossEntropy":                         divergence(elementwise.BinaryEntropy, elementwise.BinaryEntropy),
	"BinaryCrossEntropyBackward":                 divergenceGrad(elementwise.BinaryEntropySlope, elementwise.BinaryEntropySlope),
	"BinaryCrossEntropyWithLogits":               divergence(elementwise.LogitEntropy, elementwise.LogitEntropy),
	"BinaryCrossEntropyWithLogitsBackward":       divergenceGrad(elementwise.LogitEntropySlope, elementwise.LogitEntropySlope),
	"BinaryCrossEntropyWithLogitsTargetBackward": divergenceGrad(elementwise.LogitEntropyTargetSlope, elementwise.LogitEntropyTargetSlope),
	"KlDiv":                  divergence(elementwise.RelativeEntropy, elementwise.LogRelativeEntropy),
	"KlDivBackward":          divergenceGrad(elementwise.RelativeEntropySlope, elementwise.LogRelativeEntropySlope),
	"KlDivTargetBackward":    divergenceGrad(elementwise.RelativeEntropyTargetSlope, elementwise.LogRelativeEntropyTargetSlope),
	"SoftMarginLoss":         divergence(elementwise.SoftMargin, elementwise.SoftMargin),
	"SoftMarginLossBackward": divergenceGrad(elementwise.SoftMarginSlope, elementwise.SoftMarginSlope),
}

// compared holds what both directions of a divergence read.
type compared struct {
	self, target, weight, positive *op.Tensor
	op                             elementwise.Op
	shape                          []int64 // of self and target
	averaging                      rowwise.Averaging
	share                          float64 // factor of a mean gradient or a batch mean; else 1
}

// batchMean is the value of reduction that divides the sum by the first dimension of self.
const batchMean = 3

func newCompared(c *op.Call, plain, logarithmic elementwise.Op) compared {
	d := compared{self: c.Tensor("self"), target: c.Tensor("target"), weight: c.OptionalOf("weight", "weightOptional"), positive: c.OptionalOf("posWeightOptional"), op: plain, share: 1}
	if c.Has("logTarget") && c.Bool("logTarget") {
		d.op = logarithmic
	}
	d.shape = broadcastOf(c, op.FloatTypes, d.self, d.target)
	for _, t := range []*op.Tensor{d.weight, d.positive} {
		if t == nil || c.Err() != nil {
			continue
		}
		c.Plain(t)
		c.DType(t, op.FloatTypes...)
		if shape, ok := op.BroadcastShape(t.Shape, d.shape); !ok || !slices.Equal(shape, d.shape) {
			c.Invalid("%v does not broadcast to %s, the shape of self and target", t, op.Dims(d.shape))
		}
	}
	if c.Has("logTarget") && c.Int("reduction") == batchMean {
		d.averaging = rowwise.SumAveraging
		if d.self.Rank() > 0 {
			d.share = 1 / float64(d.self.Shape[0])
		}
		return d
	}
	d.averaging = averagingOr(c, unknownReductions[c.Op.Name])
	return d
}

// unknownReductions are the operators that take every reduction, and what an unknown one means.
var unknownReductions = map[string]rowwise.Averaging{
	"KlDivBackward": rowwise.NoAveraging, "KlDivTargetBackward": rowwise.NoAveraging, "SoftMarginLoss": rowwise.SumAveraging,
}

// averagingOr is like averaging for operators that take every reduction.
func averagingOr(c *op.Call, unknown rowwise.Averaging) rowwise.Averaging {
	if _, takesAll := unknownReductions[c.Op.Name]; takesAll {
		if a, known := averagingNumbers[c.Int("reduction")]; known {
			return a
		}
		return unknown
	}
	return averaging(c)
}

// pointwise returns the kernel's description of the loss. Valid inside Run only.
func (d compared) pointwise(factor float64) rowwise.Pointwise {
	p := rowwise.Pointwise{Op: d.op, Inputs: []elementwise.Input{elementwise.Of(d.self.View()), elementwise.Of(d.target.View())}, Weight: op.OptionalView(d.weight)}
	positive := elementwise.Const(elementwise.Whole(1))
	if d.positive != nil {
		positive = elementwise.Of(d.positive.View())
	}
	p.Inputs = append(p.Inputs, positive)
	if factor != 1 {
		p.Factor = factor
	}
	return p
}

func divergence(plain, logarithmic elementwise.Op) op.Prepare {
	return func(c *op.Call) (op.Run, error) {
		d, out := newCompared(c, plain, logarithmic), c.Tensor("out")
		c.DType(out, op.FloatTypes...)
		if d.averaging == rowwise.NoAveraging {
			c.Shape(out, d.shape, "the losses")
		} else {
			c.Single(out)
			c.Rank(out, 0, 1)
		}
		if err := c.Err(); err != nil {
			return nil, err
		}
		return func(*op.Exec) error {
			if out.Len() == 0 {
				return nil
			}
			return d.pointwise(d.share).Loss(out.View(), d.averaging)
		}, nil
	}
}

func divergenceGrad(plain, logarithmic elementwise.Op) op.Prepare {
	return func(c *op.Call) (op.Run, error) {
		d, dy, out := newCompared(c, plain, logarithmic), c.Tensor("gradOutput"), c.Tensor(c.Either("out", "gradTarget"))
		c.Plain(dy)
		c.DType(dy, op.FloatTypes...)
		c.DType(out, op.FloatTypes...)
		if shape, ok := op.BroadcastShape(dy.Shape, d.shape); !ok || op.Count(shape) != op.Count(d.shape) {
			c.Invalid("%v does not broadcast to %s, the shape of self and target", dy, op.Dims(d.shape))
		}
		operand := d.operand(c.Op.Name)
		if operand == nil {
			c.Shape(out, d.shape, "that of self and target")
		} else {
			c.Shape(out, operand.Shape, "that of the tensor whose gradient it is")
		}
		if d.averaging == rowwise.MeanAveraging {
			d.share = 1 / float64(op.Count(d.shape))
		}
		if err := c.Err(); err != nil {
			return nil, err
		}
		return func(*op.Exec) error {
			if out.Len() == 0 {
				return nil
			}
			grad := dy.View()
			if dy.Len() == 1 {
				grad = dy.As([]int64{}, []int64{})
			}
			if slices.Equal(out.Shape, d.shape) {
				return d.pointwise(d.share).Grad(out.View(), grad)
			}
			each, release := kernel.Temporary(d.shape...)
			defer release()
			if err := d.pointwise(d.share).Grad(each, grad); err != nil {
				return err
			}
			sum, axes := broadcastAxes(out.View(), d.shape)
			return rowwise.Reduce(rowwise.ReduceSum, sum, each, axes, 0)
		}, nil
	}
}

// operand returns the tensor whose shape the gradient of a relative entropy has: where it was broadcast, the
// gradient is a sum. The other gradients have the common shape of self and target, and operand returns nil.
func (d compared) operand(name string) *op.Tensor {
	switch name {
	case "KlDivBackward":
		return d.self
	case "KlDivTargetBackward":
		return d.target
	}
	return nil
}

// broadcastAxes returns v with ones in front, so that it has the rank of shape, and the dimensions along which v
// is broadcast to shape.
func broadcastAxes(v kernel.View, shape []int64) (kernel.View, []int) {
	missing := len(shape) - len(v.Shape)
	v.Shape = append(slices.Repeat([]int64{1}, missing), v.Shape...)
	v.Strides = append(make([]int64, missing), v.Strides...)
	var axes []int
	for i, n := range shape {
		if i < missing || v.Shape[i] != n {
			axes = append(axes, i)
		}
	}
	return v, axes
}

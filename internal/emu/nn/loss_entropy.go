package nn

import (
	"slices"

	"github.com/goascend/cann/internal/emu/kernel"
)

// divergences compare predictions with targets, both of which may be weighted.
var divergences = table{
	"BinaryCrossEntropy":                         divergence(kernel.BinaryEntropy, kernel.BinaryEntropy),
	"BinaryCrossEntropyBackward":                 divergenceGrad(kernel.BinaryEntropySlope, kernel.BinaryEntropySlope),
	"BinaryCrossEntropyWithLogits":               divergence(kernel.LogitEntropy, kernel.LogitEntropy),
	"BinaryCrossEntropyWithLogitsBackward":       divergenceGrad(kernel.LogitEntropySlope, kernel.LogitEntropySlope),
	"BinaryCrossEntropyWithLogitsTargetBackward": divergenceGrad(kernel.LogitEntropyTargetSlope, kernel.LogitEntropyTargetSlope),
	"KlDiv":                  divergence(kernel.RelativeEntropy, kernel.LogRelativeEntropy),
	"KlDivBackward":          divergenceGrad(kernel.RelativeEntropySlope, kernel.LogRelativeEntropySlope),
	"KlDivTargetBackward":    divergenceGrad(kernel.RelativeEntropyTargetSlope, kernel.LogRelativeEntropyTargetSlope),
	"SoftMarginLoss":         divergence(kernel.SoftMargin, kernel.SoftMargin),
	"SoftMarginLossBackward": divergenceGrad(kernel.SoftMarginSlope, kernel.SoftMarginSlope),
}

// compared is what both directions of a divergence read.
type compared struct {
	self, target, weight, positive *Tensor
	op                             kernel.Op
	shape                          []int64 // of self and target
	averaging                      kernel.Averaging
	share                          float64 // what a mean makes of a gradient, and a batch mean of a sum; or 1
}

// batchMean is the value of reduction that divides the sum by the first dimension of self.
const batchMean = 3

func (c *Call) compared(plain, logarithmic kernel.Op) compared {
	d := compared{self: c.Tensor("self"), target: c.Tensor("target"), weight: c.optionalOf("weight", "weightOptional"), positive: c.optionalOf("posWeightOptional"), op: plain, share: 1}
	if c.Has("logTarget") && c.Bool("logTarget") {
		d.op = logarithmic
	}
	d.shape = c.broadcastOf(d.self, d.target)
	for _, t := range []*Tensor{d.weight, d.positive} {
		if t == nil || c.Err() != nil {
			continue
		}
		c.plain(t)
		c.DType(t, transformerTypes...)
		if shape, ok := broadcastShape(t.Shape, d.shape); !ok || !slices.Equal(shape, d.shape) {
			c.Invalid("%v does not broadcast to %s, the shape of self and target", t, dims(d.shape))
		}
	}
	if c.Has("logTarget") && c.Int("reduction") == batchMean {
		d.averaging = kernel.SumAveraging
		if d.self.Rank() > 0 {
			d.share = 1 / float64(d.self.Shape[0])
		}
		return d
	}
	d.averaging = c.averaging()
	return d
}

// pointwise is the description for Run.
func (d compared) pointwise(factor float64) kernel.Pointwise {
	p := kernel.Pointwise{Op: d.op, Inputs: []kernel.Input{kernel.Of(d.self.View()), kernel.Of(d.target.View())}, Weight: optionalView(d.weight)}
	positive := kernel.Const(kernel.Whole(1))
	if d.positive != nil {
		positive = kernel.Of(d.positive.View())
	}
	p.Inputs = append(p.Inputs, positive)
	if factor != 1 {
		p.Factor = factor
	}
	return p
}

func divergence(plain, logarithmic kernel.Op) Prepare {
	return func(c *Call) (Run, error) {
		d, out := c.compared(plain, logarithmic), c.Tensor("out")
		c.DType(out, transformerTypes...)
		if d.averaging == kernel.NoAveraging {
			c.Shape(out, d.shape, "the losses")
		} else {
			c.single(out)
			c.Rank(out, 0, 1)
		}
		if err := c.Err(); err != nil {
			return nil, err
		}
		return func(*Exec) error {
			if out.Len() == 0 {
				return nil
			}
			return d.pointwise(d.share).Loss(out.View(), d.averaging)
		}, nil
	}
}

func divergenceGrad(plain, logarithmic kernel.Op) Prepare {
	return func(c *Call) (Run, error) {
		d, dy, out := c.compared(plain, logarithmic), c.Tensor("gradOutput"), c.Tensor(c.either("out", "gradTarget"))
		c.plain(dy)
		c.DType(dy, transformerTypes...)
		c.DType(out, transformerTypes...)
		if shape, ok := broadcastShape(dy.Shape, d.shape); !ok || count(shape) != count(d.shape) {
			c.Invalid("%v does not broadcast to %s, the shape of self and target", dy, dims(d.shape))
		}
		c.Shape(out, d.shape, "that of self and target")
		if d.averaging == kernel.MeanAveraging {
			d.share = 1 / float64(count(d.shape))
		}
		if err := c.Err(); err != nil {
			return nil, err
		}
		return func(*Exec) error {
			if out.Len() == 0 {
				return nil
			}
			grad := dy.View()
			if dy.Len() == 1 {
				grad = dy.As([]int64{}, []int64{})
			}
			return d.pointwise(d.share).Grad(out.View(), grad)
		}, nil
	}
}

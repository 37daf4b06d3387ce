package autograd

import (
	"fmt"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
)

// Dropout sets elements of x to zero with this probability and divides the others by 1 − probability
// (aclnnDropoutGenMaskV2, aclnnDropoutDoMask). The mask is not kept: the backward pass draws it again.
func (t *Tape) Dropout(x *Var, probability float64) *Var {
	c := t.begin("dropout", x)
	if c == nil {
		return t.failed()
	}
	if !(probability >= 0 && probability < 1) {
		t.Fail(fmt.Errorf("dropout: %w: the probability is %g; it must be at least 0 and less than 1", acl.ErrInvalidArgument, probability))
		return t.failed()
	}
	if probability == 0 {
		return x
	}
	draw := t.dropMask(probability, x.Shape()...)
	drop := func(from, to, mask *aclnn.Tensor) {
		launch(t, aclnn.DropoutDoMask, aclnn.DropoutDoMaskParams{Self: from, Mask: mask, Prob: probability, Out: to})
	}
	s := aclnn.Scope{Stream: t.st}
	drop(x.Value, c.Output(x.Value.DType(), x.Shape()...), draw(s.Tensor))
	t.Fail(s.Err())
	t.Fail(s.Close())
	c.Backward(func(g *Gradients) { drop(g.Output(0), g.Input(0), draw(g.Scratch)) })
	return c.end()[0]
}

// dropMask takes the next random numbers of the tape for a mask of bits, one for each element of a shape, and returns a function that draws
// it in a tensor of scratch.
func (t *Tape) dropMask(probability float64, shape ...int64) func(scratch func(aclnn.DType, ...int64) *aclnn.Tensor) *aclnn.Tensor {
	n := int64(1)
	for _, d := range shape {
		n *= d
	}
	n = (n + 127) / 128 * 128 // what DropoutGenMask asks of its output
	offset := t.drawn
	t.drawn += n
	return func(scratch func(aclnn.DType, ...int64) *aclnn.Tensor) *aclnn.Tensor {
		mask := scratch(aclnn.Uint8, n/8)
		launch(t, aclnn.DropoutGenMaskV2, aclnn.DropoutGenMaskV2Params{
			Shape: shape, Prob: probability, Seed: t.opts.Seed, Offset: offset, ProbDataType: aclnn.Float32, Out: mask,
		})
		return mask
	}
}

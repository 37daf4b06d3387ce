package autograd

import (
	"fmt"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
)

// Dropout sets elements of x to zero with this probability and divides the others by 1 − probability
// (aclnnDropoutGenMaskV2, aclnnDropoutDoMask). The mask is not kept: the backward pass draws it again. Each call draws other
// numbers, of Options.Seed.
func (t *Tape) Dropout(x *Var, probability float64) *Var {
	return t.dropout(x, probability, func() drawMask { return t.dropMask(probability, x.Shape()...) })
}

// DropoutOf is Dropout with numbers of a seed of the call's own, which depend on the shape and the seed only.
func (t *Tape) DropoutOf(x *Var, probability float64, seed int64) *Var {
	return t.dropout(x, probability, func() drawMask { return t.maskOf(probability, seed, 0, x.Shape()...) })
}

// drawMask draws a mask of bits in a tensor of scratch.
type drawMask func(scratch func(aclnn.DType, ...int64) *aclnn.Tensor) *aclnn.Tensor

func (t *Tape) dropout(x *Var, probability float64, mask func() drawMask) *Var {
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
	draw := mask()
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

// dropMask takes the next random numbers of the tape for a mask of bits, one for each element of a shape.
func (t *Tape) dropMask(probability float64, shape ...int64) drawMask {
	offset := t.drawn
	t.drawn += maskBits(shape)
	return t.maskOf(probability, t.opts.Seed, offset, shape...)
}

// maskBits is the size of a mask, as DropoutGenMask asks it of its output.
func maskBits(shape []int64) int64 {
	n := int64(1)
	for _, d := range shape {
		n *= d
	}
	return (n + 127) / 128 * 128
}

func (t *Tape) maskOf(probability float64, seed, offset int64, shape ...int64) drawMask {
	return func(scratch func(aclnn.DType, ...int64) *aclnn.Tensor) *aclnn.Tensor {
		mask := scratch(aclnn.Uint8, maskBits(shape)/8)
		launch(t, aclnn.DropoutGenMaskV2, aclnn.DropoutGenMaskV2Params{
			Shape: shape, Prob: probability, Seed: seed, Offset: offset, ProbDataType: aclnn.Float32, Out: mask,
		})
		return mask
	}
}

package activation

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/op"
)

// maskedSoftmaxes scale, mask or bias their input and take the softmax over the last dimension.
var maskedSoftmaxes = op.Table{
	"ScaledMaskedSoftmax": scaledMaskedSoftmax, "ScaledMaskedSoftmaxBackward": scaledMaskedSoftmaxGrad,
	"MaskedSoftmaxWithRelPosBias": biasedSoftmax,
}.Selects()

// maskedScore replaces a masked element before the softmax. A row with all elements masked gets
// equal probabilities.
const maskedScore = -10000

// scaledMask reads the scale and the mask of x. A true element of the mask hides the element of x.
func scaledMask(c *op.Call, x *op.Tensor, triangular string) (mask *op.Tensor, scale float64) {
	if c.Bool(triangular) {
		c.Invalid("%s is true; only a given mask is supported", triangular)
	}
	mask = c.Tensor("mask")
	c.Plain(x, mask)
	c.DType(x, op.FloatTypes...)
	c.DType(mask, dtype.Bool)
	c.Rank(x, 4, 4)
	if shape, ok := op.BroadcastShape(mask.Shape, x.Shape); !ok || !slices.Equal(shape, x.Shape) {
		c.Invalid("%v does not broadcast to %v", mask, x)
	}
	return mask, c.Float("scale")
}

func scaledMaskedSoftmax(c *op.Call) (op.Run, error) {
	x, y := c.Tensor("x"), c.Tensor("y")
	mask, scale := scaledMask(c, x, "fixedTriuMask")
	c.Same(x, y)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if x.Len() == 0 {
			return nil
		}
		t, release := kernel.Temporary(x.Shape...)
		defer release()
		if err := elementwise.Map(elementwise.Mul, dtype.Float32, t, []elementwise.Input{elementwise.Of(x.View()), elementwise.Const(elementwise.Real(scale))}); err != nil {
			return err
		}
		if err := elementwise.Map(elementwise.Where, dtype.Float32, t, []elementwise.Input{elementwise.Of(mask.View()), elementwise.Const(elementwise.Real(maskedScore)), elementwise.Of(t)}); err != nil {
			return err
		}
		return rowwise.Softmax(y.View(), t, 3)
	}, nil
}

func scaledMaskedSoftmaxGrad(c *op.Call) (op.Run, error) {
	dy, y, dx := c.Tensor("gradOutput"), c.Tensor("y"), c.Tensor("out")
	mask, scale := scaledMask(c, y, "fixTriuMask")
	c.Same(y, dy, dx)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if y.Len() == 0 {
			return nil
		}
		t, release := kernel.Temporary(y.Shape...)
		defer release()
		if err := rowwise.SoftmaxGrad(t, dy.View(), y.View(), 3); err != nil {
			return err
		}
		if err := elementwise.Map(elementwise.Mul, dtype.Float32, t, []elementwise.Input{elementwise.Of(t), elementwise.Const(elementwise.Real(scale))}); err != nil {
			return err
		}
		return elementwise.Map(elementwise.Where, dtype.Float32, dx.View(), []elementwise.Input{elementwise.Of(mask.View()), elementwise.Const(elementwise.Whole(0)), elementwise.Of(t)})
	}, nil
}

// biasedSoftmax is the softmax of attention in image windows: x is [B·W, N, S, S] or [B, W, N, S,
// S], with a mask for each of W windows and a bias for each of N heads.
func biasedSoftmax(c *op.Call) (op.Run, error) {
	x, mask, bias, out := c.Tensor("x"), c.Optional("attenMaskOptional"), c.Tensor("relativePosBias"), c.Tensor("out")
	scale := c.Float("scaleValue")
	c.Plain(x, bias, out)
	c.DType(x, op.FloatTypes...)
	c.Same(x, out)
	c.SameDType(x, bias)
	c.Rank(x, 4, 5)
	if c.Err() != nil {
		return nil, c.Err()
	}
	heads, rows, cols := x.Dim(-3), x.Dim(-2), x.Dim(-1)
	bare := func(t *op.Tensor) []int64 {
		return slices.DeleteFunc(slices.Clone(t.Shape), func(n int64) bool { return n == 1 })
	}
	if op.Count(bias.Shape) != heads*rows*cols || !slices.Equal(bare(bias), bare(&op.Tensor{Shape: []int64{heads, rows, cols}})) {
		c.Invalid("%v must be [%d,%d,%d], a matrix for each head, with ones before", bias, heads, rows, cols)
	}
	windows := int64(1)
	if mask != nil {
		c.Plain(mask)
		c.SameDType(x, mask)
		windows = mask.Len() / max(rows*cols, 1)
		if windows == 0 || !slices.Equal(bare(mask), bare(&op.Tensor{Shape: []int64{windows, rows, cols}})) {
			c.Invalid("%v must have a matrix of %d by %d for each window", mask, rows, cols)
		} else if lead := op.Count(x.Shape[:x.Rank()-3]); lead%windows != 0 || x.Rank() == 5 && x.Shape[1] != windows {
			c.Invalid("%v has masks of %d windows, which do not divide the windows of %v", mask, windows, x)
		}
	}
	if !x.Contiguous() {
		c.Invalid("%v must be contiguous", x)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if x.Len() == 0 {
			return nil
		}
		shape := []int64{op.Count(x.Shape[:x.Rank()-3]) / windows, windows, heads, rows, cols}
		t, release := kernel.Temporary(shape...)
		defer release()
		if err := elementwise.Map(elementwise.Mul, dtype.Float32, t, []elementwise.Input{elementwise.Of(x.As(shape, op.ContiguousStrides(shape))), elementwise.Const(elementwise.Real(scale))}); err != nil {
			return err
		}
		terms := map[*op.Tensor][]int64{bias: {heads, rows, cols}, mask: {windows, 1, rows, cols}}
		for _, term := range []*op.Tensor{bias, mask} {
			if term == nil {
				continue
			}
			whole, releaseTerm := kernel.Temporary(term.Shape...)
			err := elementwise.Copy(whole, term.View())
			whole.Shape, whole.Strides = terms[term], op.ContiguousStrides(terms[term])
			if err == nil {
				err = elementwise.Map(elementwise.Add, dtype.Float32, t, []elementwise.Input{elementwise.Of(t), elementwise.Of(whole)}, elementwise.Real(1))
			}
			releaseTerm()
			if err != nil {
				return err
			}
		}
		if err := rowwise.Softmax(t, t, 4); err != nil {
			return err
		}
		return elementwise.Copy(out.View(), kernel.View{Data: t.Data, DType: t.DType, Shape: x.Shape, Strides: op.ContiguousStrides(x.Shape)})
	}, nil
}

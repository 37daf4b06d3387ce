package nn

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// maskedSoftmaxes scale, mask or bias what they take the softmax of over the last dimension.
var maskedSoftmaxes = table{
	"ScaledMaskedSoftmax": scaledMaskedSoftmax, "ScaledMaskedSoftmaxBackward": scaledMaskedSoftmaxGrad,
	"MaskedSoftmaxWithRelPosBias": biasedSoftmax, "ApplyTopKTopP": topKTopP,
}

// maskedScore is what a masked element counts as before the softmax; a row that is masked
// altogether gets equal probabilities.
const maskedScore = -10000

// scaledMask reads the mask of x, where true hides, and the scale.
func (c *Call) scaledMask(x *Tensor, triangular string) (mask *Tensor, scale float64) {
	if c.Bool(triangular) {
		c.Invalid("%s is true; only a given mask is supported", triangular)
	}
	mask = c.Tensor("mask")
	c.plain(x, mask)
	c.DType(x, transformerTypes...)
	c.DType(mask, dtype.Bool)
	c.Rank(x, 4, 4)
	if shape, ok := broadcastShape(mask.Shape, x.Shape); !ok || !slices.Equal(shape, x.Shape) {
		c.Invalid("%v does not broadcast to %v", mask, x)
	}
	return mask, c.Float("scale")
}

func scaledMaskedSoftmax(c *Call) (Run, error) {
	x, y := c.Tensor("x"), c.Tensor("y")
	mask, scale := c.scaledMask(x, "fixedTriuMask")
	c.Same(x, y)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if x.Len() == 0 {
			return nil
		}
		t, release := kernel.Temporary(x.Shape...)
		defer release()
		if err := kernel.Map(kernel.Mul, dtype.Float32, t, []kernel.Input{kernel.Of(x.View()), kernel.Const(kernel.Real(scale))}); err != nil {
			return err
		}
		if err := kernel.Map(kernel.Where, dtype.Float32, t, []kernel.Input{kernel.Of(mask.View()), kernel.Const(kernel.Real(maskedScore)), kernel.Of(t)}); err != nil {
			return err
		}
		return kernel.Softmax(y.View(), t, 3)
	}, nil
}

func scaledMaskedSoftmaxGrad(c *Call) (Run, error) {
	dy, y, dx := c.Tensor("gradOutput"), c.Tensor("y"), c.Tensor("out")
	mask, scale := c.scaledMask(y, "fixTriuMask")
	c.Same(y, dy, dx)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if y.Len() == 0 {
			return nil
		}
		t, release := kernel.Temporary(y.Shape...)
		defer release()
		if err := kernel.SoftmaxGrad(t, dy.View(), y.View(), 3); err != nil {
			return err
		}
		if err := kernel.Map(kernel.Mul, dtype.Float32, t, []kernel.Input{kernel.Of(t), kernel.Const(kernel.Real(scale))}); err != nil {
			return err
		}
		return kernel.Map(kernel.Where, dtype.Float32, dx.View(), []kernel.Input{kernel.Of(mask.View()), kernel.Const(kernel.Whole(0)), kernel.Of(t)})
	}, nil
}

// biasedSoftmax is that of windows of a picture: x [B·W, N, S, S] or [B, W, N, S, S], whose
// W windows have masks and whose N heads have biases.
func biasedSoftmax(c *Call) (Run, error) {
	x, mask, bias, out := c.Tensor("x"), c.Optional("attenMaskOptional"), c.Tensor("relativePosBias"), c.Tensor("out")
	scale := c.Float("scaleValue")
	c.plain(x, bias, out)
	c.DType(x, transformerTypes...)
	c.Same(x, out)
	c.SameDType(x, bias)
	c.Rank(x, 4, 5)
	if c.Err() != nil {
		return nil, c.Err()
	}
	heads, rows, cols := x.Dim(-3), x.Dim(-2), x.Dim(-1)
	bare := func(t *Tensor) []int64 {
		return slices.DeleteFunc(slices.Clone(t.Shape), func(n int64) bool { return n == 1 })
	}
	if count(bias.Shape) != heads*rows*cols || !slices.Equal(bare(bias), bare(&Tensor{Shape: []int64{heads, rows, cols}})) {
		c.Invalid("%v must be [%d,%d,%d], a matrix for each head, with ones before", bias, heads, rows, cols)
	}
	windows := int64(1)
	if mask != nil {
		c.plain(mask)
		c.SameDType(x, mask)
		windows = mask.Len() / max(rows*cols, 1)
		if windows == 0 || !slices.Equal(bare(mask), bare(&Tensor{Shape: []int64{windows, rows, cols}})) {
			c.Invalid("%v must have a matrix of %d by %d for each window", mask, rows, cols)
		} else if lead := count(x.Shape[:x.Rank()-3]); lead%windows != 0 || x.Rank() == 5 && x.Shape[1] != windows {
			c.Invalid("%v has masks of %d windows, which do not divide the windows of %v", mask, windows, x)
		}
	}
	if !x.Contiguous() {
		c.Invalid("%v must be contiguous", x)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if x.Len() == 0 {
			return nil
		}
		shape := []int64{count(x.Shape[:x.Rank()-3]) / windows, windows, heads, rows, cols}
		t, release := kernel.Temporary(shape...)
		defer release()
		if err := kernel.Map(kernel.Mul, dtype.Float32, t, []kernel.Input{kernel.Of(x.As(shape, ContiguousStrides(shape))), kernel.Const(kernel.Real(scale))}); err != nil {
			return err
		}
		terms := map[*Tensor][]int64{bias: {heads, rows, cols}, mask: {windows, 1, rows, cols}}
		for _, term := range []*Tensor{bias, mask} {
			if term == nil {
				continue
			}
			whole, releaseTerm := kernel.Temporary(term.Shape...)
			err := kernel.Copy(whole, term.View())
			whole.Shape, whole.Strides = terms[term], ContiguousStrides(terms[term])
			if err == nil {
				err = kernel.Map(kernel.Add, dtype.Float32, t, []kernel.Input{kernel.Of(t), kernel.Of(whole)}, kernel.Real(1))
			}
			releaseTerm()
			if err != nil {
				return err
			}
		}
		if err := kernel.Softmax(t, t, 4); err != nil {
			return err
		}
		return kernel.Copy(out.View(), kernel.View{Data: t.Data, DType: t.DType, Shape: x.Shape, Strides: ContiguousStrides(x.Shape)})
	}, nil
}

// topKTopP keeps, in each row, the k largest logits, and of these the most probable whose
// probabilities add up to p; the others become -Inf. k outside the row keeps all.
func topKTopP(c *Call) (Run, error) {
	logits, p, k, out := c.Tensor("logits"), c.Optional("p"), c.Optional("k"), c.Tensor("out")
	c.plain(logits, out)
	c.DType(logits, transformerTypes...)
	c.Same(logits, out)
	c.Rank(logits, 2, 2)
	if c.Err() == nil {
		if p != nil {
			c.SameDType(logits, p)
			c.Shape(p, logits.Shape[:1], "one for each row")
		}
		if k != nil {
			c.DType(k, dtype.Int32)
			c.Shape(k, logits.Shape[:1], "one for each row")
		}
		if p == nil && k == nil {
			c.Fail(nullPointer, "p and k are null; one of them says what to keep")
		}
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if logits.Len() == 0 {
			return nil
		}
		rows, err := kernel.Doubles(logits.View())
		if err != nil {
			return err
		}
		var most []int64
		if k != nil {
			if most, err = kernel.Indices(k.View()); err != nil {
				return err
			}
		}
		var mass []float64
		if p != nil {
			if mass, err = kernel.Doubles(p.View()); err != nil {
				return err
			}
		}
		width := int(logits.Shape[1])
		for r := range int(logits.Shape[0]) {
			row := rows[r*width:][:width]
			if k != nil {
				keepLargest(row, most[r])
			}
			if p != nil {
				keepProbable(row, mass[r])
			}
		}
		return kernel.SetFloats(out.View(), rows)
	}, nil
}

package normalization

import (
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/op"
)

// addedNorms lists the operators that normalise a sum of tensors.
var addedNorms = op.Table{
	"AddRmsNorm": AddRMSNorm, "AddRmsNormCast": AddRMSNorm, "InplaceAddRmsNorm": AddRMSNorm, "AddLayerNorm": addLayerNorm, "AddLayerNormGrad": addLayerNormGrad,
	"DeepNorm": deepNorm, "DeepNormGrad": deepNormGrad,
}

// sumOf computes scale·a + b, plus an optional bias, in single precision. Valid inside Run only.
func sumOf(a, b, bias *op.Tensor, scale float64) (kernel.View, func(), error) {
	t, release := kernel.Temporary(a.Shape...)
	err := elementwise.Map(elementwise.Add, dtype.Float32, t, []elementwise.Input{elementwise.Of(b.View()), elementwise.Of(a.View())}, elementwise.Real(scale))
	if err == nil && bias != nil {
		err = elementwise.Map(elementwise.Add, dtype.Float32, t, []elementwise.Input{elementwise.Of(t), elementwise.Of(bias.View())}, elementwise.Real(1))
	}
	return t, release, err
}

// AddRMSNorm normalises the sum of two tensors and outputs the sum as well. The in-place form
// writes the sum to x2 and the result to x1. The form with a cast also outputs the result before
// rounding.
func AddRMSNorm(c *op.Call) (op.Run, error) {
	x1, x2, gamma := c.Tensor(c.Either("x1", "x1Ref")), c.Tensor(c.Either("x2", "x2Ref")), c.Tensor("gamma")
	y, rstd, sum := c.Tensor(c.Either("yOut", "y2Out", "x1Ref")), c.Tensor("rstdOut"), c.Tensor(c.Either("xOut", "x2Ref"))
	wide := (*op.Tensor)(nil)
	if c.Has("y1Out") {
		wide = c.Tensor("y1Out")
		c.DType(wide, dtype.Float32)
		c.SameShape(x1, wide)
	}
	eps := c.Float("epsilon")
	c.DType(x1, op.FloatTypes...)
	c.Same(x1, x2, y, sum)
	c.DType(gamma, dtype.Float32, x1.DType)
	c.DType(rstd, dtype.Float32)
	outer := gammaOf(c, x1, gamma)
	statistics(c, rstd, x1, outer)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if x1.Len() == 0 {
			return nil
		}
		if wide == nil {
			if err := elementwise.Map(elementwise.Add, dtype.Float32, sum.View(), []elementwise.Input{elementwise.Of(x1.View()), elementwise.Of(x2.View())}, elementwise.Real(1)); err != nil {
				return err
			}
			return rowwise.RMSNorm(y.View(), rstd.View().Leading(outer), sum.View(), gamma.View(), eps)
		}
		// The result before the cast is computed from the unrounded sum.
		t, release, err := sumOf(x1, x2, nil, 1)
		defer release()
		if err == nil {
			err = elementwise.Copy(sum.View(), t)
		}
		if err == nil {
			err = rowwise.RMSNorm(wide.View(), rstd.View().Leading(outer), t, gamma.View(), eps)
		}
		if err != nil {
			return err
		}
		return elementwise.Copy(y.View(), wide.View())
	}, nil
}

// addLayerNorm accepts operands of different types. The sums are never rounded to an operand's
// type.
func addLayerNorm(c *op.Call) (op.Run, error) {
	x1, x2, gamma, beta, bias := c.Tensor("x1"), c.Tensor("x2"), c.Tensor("gamma"), c.Tensor("beta"), c.Optional("biasOptional")
	y, mean, rstd := c.Tensor("yOut"), c.Tensor("meanOut"), c.Tensor("rstdOut")
	eps := c.Float("epsilon")
	wide := op.Promote(x1.DType, x2.DType)
	outer := addends(c, x1, x2, gamma, beta, bias)
	c.SameShape(x1, y)
	c.DType(y, wide)
	sum := (*op.Tensor)(nil)
	if c.Bool("additionalOutput") {
		sum = c.Tensor("xOut")
		c.SameShape(x1, sum)
		c.DType(sum, wide)
	}
	for _, s := range []*op.Tensor{mean, rstd} {
		c.DType(s, dtype.Float32)
		statistics(c, s, x1, outer)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if x1.Len() == 0 {
			return nil
		}
		t, release, err := sumOf(x1, x2, bias, 1)
		defer release()
		if err == nil && sum != nil {
			err = elementwise.Copy(sum.View(), t)
		}
		if err != nil {
			return err
		}
		return rowwise.LayerNorm(y.View(), leadingView(mean, outer), leadingView(rstd, outer), t, outer, gamma.View(), beta.View(), eps)
	}, nil
}

// addends checks the terms of a normalised sum and returns the number of leading dimensions,
// which are not normalised. beta and bias may be absent.
func addends(c *op.Call, x1, x2, gamma, beta, bias *op.Tensor) int {
	for _, t := range []*op.Tensor{x1, x2, gamma, beta, bias} {
		if t != nil {
			c.Plain(t)
			c.DType(t, op.FloatTypes...)
		}
	}
	c.SameShape(x1, x2)
	outer := gammaOf(c, x1, gamma)
	if beta != nil {
		c.Same(gamma, beta)
	}
	if bias != nil && !op.SameShape(bias.Shape, x1.Shape) {
		c.Shape(bias, gamma.Shape, "that of gamma, or of x1")
	}
	return outer
}

func addLayerNormGrad(c *op.Call) (op.Run, error) {
	dy, x1, x2, gamma := c.Tensor("dy"), c.Tensor("x1"), c.Tensor("x2"), c.Tensor("gamma")
	dx, dsum := c.Tensor("dxOut"), c.Optional("dsumOptional")
	g := readSumGrad(c, dy, x1, x2, gamma)
	c.Same(dy, dx)
	if dsum != nil {
		c.Same(dy, dsum)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		return g.run(1, func(d kernel.View) error {
			if dsum == nil {
				return elementwise.Copy(dx.View(), d)
			}
			return elementwise.Map(elementwise.Add, dtype.Float32, dx.View(), []elementwise.Input{elementwise.Of(d), elementwise.Of(dsum.View())}, elementwise.Real(1))
		})
	}, nil
}

// sumGrad is a call of the gradient of a LayerNorm of scale·a + b.
type sumGrad struct {
	dy, a, b, gamma, mean, rstd, dgamma, dbeta *op.Tensor
	outer                                      int
}

func readSumGrad(c *op.Call, dy, a, b, gamma *op.Tensor) sumGrad {
	g := sumGrad{
		dy: dy, a: a, b: b, gamma: gamma, mean: c.Tensor("mean"), rstd: c.Tensor("rstd"),
		dgamma: c.Tensor("dgammaOut"), dbeta: c.Tensor("dbetaOut"),
	}
	g.outer = addends(c, a, b, gamma, nil, nil)
	c.Same(a, dy, b)
	c.SameDType(dy, gamma)
	for _, s := range []*op.Tensor{g.mean, g.rstd} {
		c.DType(s, dtype.Float32)
		statistics(c, s, a, g.outer)
	}
	for _, d := range []*op.Tensor{g.dgamma, g.dbeta} {
		c.DType(d, dtype.Float32)
		c.SameShape(gamma, d)
	}
	return g
}

// run computes the gradients of gamma and beta, and passes the gradient of the sum to finish.
func (g sumGrad) run(scale float64, finish func(d kernel.View) error) error {
	if g.dy.Len() == 0 {
		return op.ZeroAll(g.dgamma, g.dbeta)
	}
	sum, release, err := sumOf(g.a, g.b, nil, scale)
	defer release()
	if err != nil {
		return err
	}
	d, releaseGrad := kernel.Temporary(g.dy.Shape...)
	defer releaseGrad()
	err = rowwise.LayerNormGrad(d, g.dgamma.View(), g.dbeta.View(), g.dy.View(), sum, g.outer, leadingView(g.mean, g.outer), leadingView(g.rstd, g.outer), g.gamma.View())
	if err != nil {
		return err
	}
	return finish(d)
}

// deepNorm applies LayerNorm to alpha·x + gx.
func deepNorm(c *op.Call) (op.Run, error) {
	x, gx, gamma, beta := c.Tensor("x"), c.Tensor("gx"), c.Tensor("gamma"), c.Tensor("beta")
	mean, rstd, y := c.Tensor("meanOut"), c.Tensor("rstdOut"), c.Tensor("yOut")
	alpha, eps := c.Float("alpha"), c.Float("epsilon")
	c.SameDType(x, gx, gamma)
	c.Same(x, y)
	outer := addends(c, x, gx, gamma, beta, nil)
	for _, s := range []*op.Tensor{mean, rstd} {
		c.DType(s, dtype.Float32)
		statistics(c, s, x, outer)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if x.Len() == 0 {
			return nil
		}
		t, release, err := sumOf(x, gx, nil, alpha)
		defer release()
		if err != nil {
			return err
		}
		return rowwise.LayerNorm(y.View(), leadingView(mean, outer), leadingView(rstd, outer), t, outer, gamma.View(), beta.View(), eps)
	}, nil
}

func deepNormGrad(c *op.Call) (op.Run, error) {
	x, dx, dgx := c.Tensor("x"), c.Tensor("dxOut"), c.Tensor("dgxOut")
	alpha := c.Float("alpha")
	g := readSumGrad(c, c.Tensor("dy"), x, c.Tensor("gx"), c.Tensor("gamma"))
	c.Same(x, dx, dgx)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		return g.run(alpha, func(d kernel.View) error {
			if err := elementwise.Copy(dgx.View(), d); err != nil {
				return err
			}
			return elementwise.Map(elementwise.Mul, dtype.Float32, dx.View(), []elementwise.Input{elementwise.Of(d), elementwise.Const(elementwise.Real(alpha))})
		})
	}, nil
}

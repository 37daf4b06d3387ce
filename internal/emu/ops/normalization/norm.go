package normalization

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/op"
)

var norms = op.Table{
	"RmsNorm": rmsNorm, "RmsNormGrad": rmsNormGrad, "RmsNormGradQuant": rmsNormGradQuant, "GemmaRmsNorm": gemmaRMSNorm,
	"LayerNorm": layerNorm, "LayerNormBackward": layerNormBackward, "FastLayerNorm": layerNorm, "LayerNormWithImplMode": layerNorm,
}

// gammaOf checks that gamma has the trailing dimensions of x, and returns the number of leading
// dimensions.
func gammaOf(c *op.Call, x, gamma *op.Tensor) int {
	outer := x.Rank() - gamma.Rank()
	if outer < 0 || gamma.Rank() == 0 || !slices.Equal(x.Shape[outer:], gamma.Shape) {
		c.Invalid("%v must have the trailing dimensions of %v", gamma, x)
		return 0
	}
	return outer
}

// statistics checks a tensor with one number per leading index of x. Its shape is x's leading
// dimensions, with or without a size of one for each normalised one. Like the device, it also
// accepts another shape with the same number of elements and replaces that shape.
func statistics(c *op.Call, t, x *op.Tensor, outer int) {
	want := slices.Clone(x.Shape[:outer])
	if slices.Equal(t.Shape, want) {
		return
	}
	if len(t.Shape) < len(want) && t.Contiguous() && t.Len() == op.Count(want) {
		t.Shape, t.Strides = want, op.ContiguousStrides(want)
		return
	}
	for range x.Rank() - outer {
		want = append(want, 1)
	}
	c.Shape(t, want, "one number for each normalised row of "+x.Name)
}

// reciprocals is statistics for the rstd of RmsNorm, each axis of which may also have the size of
// x's: the device looks at no more than that. It writes one number for each row to the start of the
// memory and leaves the rest as it is.
func reciprocals(c *op.Call, t, x *op.Tensor, outer int) {
	rows := x.Shape[:outer]
	fits := t.Rank() > outer && t.Rank() <= x.Rank() && t.Contiguous() && t.Len() >= op.Count(rows)
	for i, n := range t.Shape {
		fits = fits && (n == 1 || n == x.Shape[i])
	}
	if fits {
		t.Shape, t.Strides = slices.Clone(rows), op.ContiguousStrides(rows)
		return
	}
	statistics(c, t, x, outer)
}

func rmsNorm(c *op.Call) (op.Run, error) { return rmsNormOf(c, 0) }

// gemmaRMSNorm multiplies by 1 + gamma.
func gemmaRMSNorm(c *op.Call) (op.Run, error) { return rmsNormOf(c, 1) }

// rmsNormOf multiplies the normalised values by base + gamma.
func rmsNormOf(c *op.Call, base float64) (op.Run, error) {
	x, gamma, y, rstd := c.Tensor("x"), c.Tensor("gamma"), c.Tensor("yOut"), c.Tensor("rstdOut")
	eps := c.Float("epsilon")
	c.DType(x, op.FloatTypes...)
	c.Same(x, y)
	c.DType(gamma, dtype.Float32, x.DType)
	c.DType(rstd, dtype.Float32)
	outer := gammaOf(c, x, gamma)
	reciprocals(c, rstd, x, outer)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if x.Len() == 0 {
			return nil
		}
		factor := gamma.View()
		if base != 0 {
			t, release := kernel.Temporary(gamma.Shape...)
			defer release()
			if err := elementwise.Map(elementwise.Add, dtype.Float32, t, []elementwise.Input{elementwise.Of(factor), elementwise.Const(elementwise.Real(base))}, elementwise.Real(1)); err != nil {
				return err
			}
			factor = t
		}
		return rowwise.RMSNorm(y.View(), rstd.View().Leading(outer), x.View(), factor, eps)
	}, nil
}

func rmsNormGrad(c *op.Call) (op.Run, error) {
	dy, x, rstd, gamma := c.Tensor("dy"), c.Tensor("x"), c.Tensor("rstd"), c.Tensor("gamma")
	dx, dgamma := c.Tensor("dxOut"), c.Tensor("dgammaOut")
	c.DType(x, op.FloatTypes...)
	c.Same(x, dy, dx)
	c.DType(rstd, dtype.Float32)
	c.Countable(gamma)
	c.DType(dgamma, dtype.Float32, gamma.DType)
	c.SameShape(gamma, dgamma)
	outer := gammaOf(c, x, gamma)
	statistics(c, rstd, x, outer)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if x.Len() == 0 {
			return op.Zero(dgamma)
		}
		return rowwise.RMSNormGrad(dx.View(), dgamma.View(), dy.View(), x.View(), rstd.View().Leading(outer), gamma.View())
	}, nil
}

// normalized reads normalizedShape, which must be the trailing dimensions of x, and returns the
// index of the first of them.
func normalized(c *op.Call, x *op.Tensor) int {
	shape := c.Ints("normalizedShape")
	axis := x.Rank() - len(shape)
	if len(shape) == 0 || axis < 0 || !slices.Equal(x.Shape[axis:], shape) {
		c.Invalid("normalizedShape %s must be the trailing dimensions of %v", op.Dims(shape), x)
		return 0
	}
	return axis
}

// trailing views a statistics or parameter tensor with n dimensions.
func leadingView(t *op.Tensor, n int) kernel.View {
	v := op.OptionalView(t)
	if v.Data == nil {
		return v
	}
	return v.Leading(n)
}

func layerNorm(c *op.Call) (op.Run, error) {
	x, out := c.Tensor("input"), c.Tensor("out")
	weight, bias := c.Optional("weightOptional"), c.Optional("biasOptional")
	mean, rstd := c.Optional("meanOutOptional"), c.Optional("rstdOutOptional")
	eps := c.Float("eps")
	if c.Has("implMode") {
		if mode := c.Int("implMode"); mode < 0 || mode > 2 {
			c.Invalid("implMode %d is unknown; use 0 (precise), 1 (fast) or 2 (half precision)", mode)
		}
	}
	c.DType(x, op.FloatTypes...)
	c.Same(x, out)
	axis := normalized(c, x)
	for _, p := range []*op.Tensor{weight, bias} {
		if p != nil {
			c.Countable(p)
			c.Shape(p, x.Shape[axis:], "normalizedShape")
		}
	}
	for _, s := range []*op.Tensor{mean, rstd} {
		if s != nil {
			c.Countable(s)
			statistics(c, s, x, axis)
		}
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if x.Len() == 0 {
			return nil
		}
		return rowwise.LayerNorm(out.View(), leadingView(mean, axis), leadingView(rstd, axis), x.View(), axis, op.OptionalView(weight), op.OptionalView(bias), eps)
	}, nil
}

func layerNormBackward(c *op.Call) (op.Run, error) {
	dy, x, mean, rstd := c.Tensor("gradOut"), c.Tensor("input"), c.Tensor("mean"), c.Tensor("rstd")
	weight := c.Optional("weightOptional")
	mask := c.Bools("outputMask")
	if len(mask) != 3 {
		c.Invalid("outputMask has %d elements; it has one for the input, the weight and the bias", len(mask))
	}
	wanted := func(i int, name string) *op.Tensor {
		if i < len(mask) && mask[i] {
			return c.Tensor(name)
		}
		return nil
	}
	dx, dweight, dbias := wanted(0, "gradInputOut"), wanted(1, "gradWeightOut"), wanted(2, "gradBiasOut")
	c.DType(x, op.FloatTypes...)
	c.Same(x, dy)
	axis := normalized(c, x)
	c.Countable(mean, rstd)
	statistics(c, mean, x, axis)
	statistics(c, rstd, x, axis)
	if dx != nil {
		c.Countable(dx)
		c.SameShape(x, dx)
	}
	for _, t := range []*op.Tensor{dweight, dbias, weight} {
		if t != nil {
			c.Countable(t)
			c.Shape(t, x.Shape[axis:], "normalizedShape")
		}
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if x.Len() == 0 {
			return op.ZeroAll(dweight, dbias)
		}
		return rowwise.LayerNormGrad(op.OptionalView(dx), op.OptionalView(dweight), op.OptionalView(dbias), dy.View(), x.View(), axis,
			leadingView(mean, axis), leadingView(rstd, axis), op.OptionalView(weight))
	}, nil
}

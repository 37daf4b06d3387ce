package nn

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// adaptiveNorms are layer norms of [..., S, H] that a scale and a shift follow, which the S
// rows share.
var adaptiveNorms = table{
	"AdaLayerNorm": adaLayerNorm, "AdaLayerNormV2": adaLayerNorm, "AdaLayerNormQuant": adaLayerNorm, "AdaLayerNormBackward": adaLayerNormGrad,
}

// shared checks a tensor of a number for each row of H that the S rows of x share: [..., H]
// or [..., 1, H]. The view, for Run, has the second form.
func (c *Call) shared(t, x *Tensor) func() kernel.View {
	c.SameDType(x, t)
	n := x.Rank()
	want := slices.Concat(x.Shape[:max(n-2, 0)], []int64{1}, x.Shape[max(n-1, 0):])
	strides := t.Strides
	if t.Rank() == n-1 && n > 1 {
		c.Shape(t, slices.Concat(x.Shape[:n-2], x.Shape[n-1:]), "x without its rows")
		strides = slices.Concat(t.Strides[:n-2], []int64{0}, t.Strides[n-2:])
	} else {
		c.Shape(t, want, "x with one row")
	}
	return func() kernel.View { return t.As(want, strides) }
}

// lastOnly checks an optional tensor of a number for each place of the last dimension.
func (c *Call) lastOnly(t, x *Tensor, types ...dtype.Type) {
	if t == nil || c.Err() != nil {
		return
	}
	c.plain(t)
	c.DType(t, types...)
	c.Shape(t, x.Shape[x.Rank()-1:], "the last dimension of x")
}

func adaLayerNorm(c *Call) (Run, error) {
	x, out, weight, bias := c.Tensor("x"), c.Tensor("out"), c.Optional("weightOptional"), c.Optional("biasOptional")
	eps := c.Float("epsilon")
	c.plain(x, out)
	c.DType(x, transformerTypes...)
	c.Rank(x, 2, kernel.MaxRank)
	c.SameShape(x, out)
	for _, t := range []*Tensor{weight, bias} {
		c.lastOnly(t, x, x.DType, dtype.Float32)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	last := x.Rank() - 1
	scale, shift := c.shared(c.Tensor("scale"), x), c.shared(c.Tensor("shift"), x)
	var mean, rstd, factor, smooth *Tensor
	if c.Has("quantMode") {
		factor, smooth = c.Tensor("quantScale"), c.Optional("smoothScalesOptional")
		if mode := c.Text("quantMode"); mode != "dynamic" {
			c.Invalid("quantMode %q is not supported; use dynamic", mode)
		}
		if c.Optional("quantOffsetOptional") != nil {
			c.Invalid("quantOffsetOptional is not supported; pass null")
		}
		c.DType(out, dtype.Int8)
		c.DType(factor, dtype.Float32)
		c.Shape(factor, x.Shape[:last], "one for each row of x")
		c.lastOnly(smooth, x, x.DType)
	} else {
		c.SameDType(x, out)
	}
	if c.Has("meanOutOptional") {
		mean, rstd = c.Optional("meanOutOptional"), c.Optional("rstdOutOptional")
	}
	for _, s := range []*Tensor{mean, rstd} {
		if s != nil {
			c.DType(s, x.DType, dtype.Float32)
			statistics(c, s, x, last)
		}
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if x.Len() == 0 {
			return nil
		}
		t, release := kernel.Temporary(x.Shape...)
		defer release()
		err := kernel.LayerNorm(t, leadingView(mean, last), leadingView(rstd, last), x.View(), last, optionalView(weight), optionalView(bias), eps)
		if err == nil {
			err = kernel.Adapt(t, scale(), shift())
		}
		switch {
		case err != nil:
			return err
		case factor != nil:
			return kernel.DynamicQuantizer{Smooth: optionalView(smooth)}.Quantize(out.View(), factor.View(), t)
		}
		return kernel.Copy(out.View(), t)
	}, nil
}

func adaLayerNormGrad(c *Call) (Run, error) {
	dy, x, mean, rstd := c.Tensor("gradOut"), c.Tensor("input"), c.Tensor("mean"), c.Tensor("rstd")
	weight, bias := c.Optional("weightOptional"), c.Optional("biasOptional")
	dx, dscale, dshift := c.Tensor("gradInputOut"), c.Tensor("gradScaleOut"), c.Tensor("gradShiftOut")
	dweight, dbias := c.Optional("gradWeightOut"), c.Optional("gradBiasOut")
	c.plain(x, dy, dx)
	c.DType(x, transformerTypes...)
	c.Rank(x, 2, kernel.MaxRank)
	c.Same(x, dy, dx)
	for _, t := range []*Tensor{weight, bias, dweight, dbias} {
		c.lastOnly(t, x, x.DType, dtype.Float32)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	last := x.Rank() - 1
	if axis := normalized(c, x); c.Err() == nil && axis != last {
		c.Invalid("normalizedShape %s must be the last dimension of %v", dims(c.Ints("normalizedShape")), x)
	}
	for _, s := range []*Tensor{mean, rstd} {
		c.DType(s, x.DType, dtype.Float32)
		statistics(c, s, x, last)
	}
	scale := c.shared(c.Tensor("scale"), x)
	c.shared(c.Tensor("shift"), x)
	outs := []func() kernel.View{c.shared(dscale, x), c.shared(dshift, x)}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if x.Len() == 0 {
			return zeroAll(dscale, dshift, dweight, dbias)
		}
		return kernel.AdaptGrad(dx.View(), outs[0]().Select(last-1, 0), outs[1]().Select(last-1, 0), optionalView(dweight), optionalView(dbias),
			dy.View(), x.View(), leadingView(mean, last), leadingView(rstd, last), scale(), optionalView(weight), optionalView(bias))
	}, nil
}

package normalization

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/gemm"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/op"
)

// adaptiveNorms lists the layer norms of [..., S, H] followed by a scale and a shift that the S
// rows share.
var adaptiveNorms = op.Table{
	"AdaLayerNorm": adaLayerNorm, "AdaLayerNormV2": adaLayerNorm, "AdaLayerNormQuant": adaLayerNorm, "AdaLayerNormBackward": adaLayerNormGrad,
}

// lastOnly checks an optional tensor with one number per position of the last dimension.
func lastOnly(c *op.Call, t, x *op.Tensor, types ...dtype.Type) {
	if t == nil || c.Err() != nil {
		return
	}
	c.Plain(t)
	c.DType(t, types...)
	c.Shape(t, x.Shape[x.Rank()-1:], "the last dimension of x")
}

func adaLayerNorm(c *op.Call) (op.Run, error) {
	x, out, weight, bias := c.Tensor("x"), c.Tensor("out"), c.Optional("weightOptional"), c.Optional("biasOptional")
	eps := c.Float("epsilon")
	c.Plain(x, out)
	c.DType(x, op.FloatTypes...)
	c.Rank(x, 2, kernel.MaxRank)
	c.SameShape(x, out)
	for _, t := range []*op.Tensor{weight, bias} {
		lastOnly(c, t, x, x.DType, dtype.Float32)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	last := x.Rank() - 1
	scale, shift := c.Shared(c.Tensor("scale"), x), c.Shared(c.Tensor("shift"), x)
	var mean, rstd, factor, smooth *op.Tensor
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
		lastOnly(c, smooth, x, x.DType)
	} else {
		c.SameDType(x, out)
	}
	if c.Has("meanOutOptional") {
		mean, rstd = c.Optional("meanOutOptional"), c.Optional("rstdOutOptional")
	}
	for _, s := range []*op.Tensor{mean, rstd} {
		if s != nil {
			c.DType(s, x.DType, dtype.Float32)
			statistics(c, s, x, last)
		}
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if x.Len() == 0 {
			return nil
		}
		t, release := kernel.Temporary(x.Shape...)
		defer release()
		err := rowwise.LayerNorm(t, leadingView(mean, last), leadingView(rstd, last), x.View(), last, op.OptionalView(weight), op.OptionalView(bias), eps)
		if err == nil {
			err = rowwise.Adapt(t, scale(), shift())
		}
		switch {
		case err != nil:
			return err
		case factor != nil:
			return gemm.DynamicQuantizer{Smooth: op.OptionalView(smooth)}.Quantize(out.View(), factor.View(), t)
		}
		return elementwise.Copy(out.View(), t)
	}, nil
}

func adaLayerNormGrad(c *op.Call) (op.Run, error) {
	dy, x, mean, rstd := c.Tensor("gradOut"), c.Tensor("input"), c.Tensor("mean"), c.Tensor("rstd")
	weight, bias := c.Optional("weightOptional"), c.Optional("biasOptional")
	dx, dscale, dshift := c.Optional("gradInputOut"), c.Optional("gradScaleOut"), c.Optional("gradShiftOut")
	dweight, dbias := c.Optional("gradWeightOut"), c.Optional("gradBiasOut")
	c.Plain(x, dy)
	c.DType(x, op.FloatTypes...)
	c.Rank(x, 2, kernel.MaxRank)
	c.Same(x, dy)
	if dx != nil {
		c.Plain(dx)
		c.Same(x, dx)
	}
	for _, t := range []*op.Tensor{weight, bias, dweight, dbias} {
		lastOnly(c, t, x, x.DType, dtype.Float32)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	last := x.Rank() - 1
	if axis := normalized(c, x); c.Err() == nil && axis != last {
		c.Invalid("normalizedShape %s must be the last dimension of %v", op.Dims(c.Ints("normalizedShape")), x)
	}
	for _, s := range []*op.Tensor{mean, rstd} {
		c.DType(s, x.DType, dtype.Float32)
		statistics(c, s, x, last)
	}
	scale := c.Shared(c.Tensor("scale"), x)
	c.Shared(c.Tensor("shift"), x)
	var shared [2]func() kernel.View
	for i, t := range []*op.Tensor{dscale, dshift} {
		if t != nil {
			shared[i] = c.Shared(t, x)
		}
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if x.Len() == 0 {
			return op.ZeroAll(dscale, dshift, dweight, dbias)
		}
		grad := op.OptionalView(dx)
		if dx == nil { // a program that needs other gradients only passes null
			v, release := kernel.TemporaryOf(x.DType, x.Shape...)
			defer release()
			grad = v
		}
		var outs [2]kernel.View
		for i := range outs {
			if shared[i] != nil {
				outs[i] = shared[i]().Select(last-1, 0)
				continue
			}
			v, release := kernel.TemporaryOf(x.DType, slices.Concat(x.Shape[:last-1], x.Shape[last:])...)
			defer release()
			outs[i] = v
		}
		return rowwise.AdaptGrad(grad, outs[0], outs[1], op.OptionalView(dweight), op.OptionalView(dbias),
			dy.View(), x.View(), leadingView(mean, last), leadingView(rstd, last), scale(), op.OptionalView(weight), op.OptionalView(bias))
	}, nil
}

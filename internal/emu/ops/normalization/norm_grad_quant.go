package normalization

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/minifloat"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/op"
)

// rmsNormGradQuant is rmsNormGrad with dx quantised to int8 or HiFloat8 by one scale and offset.
func rmsNormGradQuant(c *op.Call) (op.Run, error) {
	dy, x, rstd, gamma := c.Tensor("dy"), c.Tensor("x"), c.Tensor("rstd"), c.Tensor("gamma")
	dx, dgamma, scale, offset := c.Tensor("dxOut"), c.Tensor("dgammaOut"), c.Tensor("scalesX"), c.Optional("offsetXOptional")
	kernelType := func(t *op.Tensor, types ...dtype.Type) {
		if !slices.Contains(types, t.DType) {
			c.Fail(op.NoKernel, "%v has a dtype for which there is no kernel; use one of %v", t, types)
		}
	}
	kernelType(x, op.FloatTypes...)
	kernelType(dy, x.DType)
	kernelType(rstd, dtype.Float32)
	kernelType(gamma, x.DType, dtype.Float32)
	kernelType(scale, x.DType, dtype.Float32)
	kernelType(dx, dtype.Int8, dtype.HiFloat8)
	kernelType(dgamma, dtype.Float32)
	c.Plain(dy, x, rstd, gamma, dx, dgamma, scale)
	c.Fits(dy, x.Shape, "that of x")
	c.Fits(dx, x.Shape, "that of x")
	c.Fits(dgamma, gamma.Shape, "that of gamma")
	c.Fits(scale, []int64{1}, "a single scale")
	if offset != nil {
		kernelType(offset, dtype.Int32)
		c.Fits(offset, []int64{1}, "a single offset")
	}
	if mode := c.Text("quantMode"); mode != "static" {
		c.Unfit("quantMode is %q; only static is supported", mode)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	outer := gammaOf(c, x, gamma)
	statistics(c, rstd, x, outer)
	return func(*op.Exec) error {
		if x.Len() == 0 {
			return op.Zero(dgamma)
		}
		wide, release := kernel.Temporary(x.Shape...)
		defer release()
		if err := rowwise.RMSNormGrad(wide, dgamma.View(), dy.View(), x.View(), rstd.View().Leading(outer), gamma.View()); err != nil {
			return err
		}
		by := elementwise.Mul
		if c.Bool("divMode") {
			by = elementwise.Div
		}
		if err := elementwise.Map(by, dtype.Float32, wide, []elementwise.Input{elementwise.Of(wide), elementwise.Of(scale.View())}); err != nil {
			return err
		}
		if offset != nil {
			if err := elementwise.Map(elementwise.Add, dtype.Float32, wide, []elementwise.Input{elementwise.Of(wide), elementwise.Of(offset.View())}, elementwise.Real(1)); err != nil {
				return err
			}
		}
		if dx.DType == dtype.Int8 {
			return elementwise.Map(elementwise.Round, dtype.Float32, dx.View(), []elementwise.Input{elementwise.Of(wide)})
		}
		values, err := elementwise.Doubles(wide)
		if err != nil {
			return err
		}
		return minifloat.Write(dx.View(), values, minifloat.Away)
	}, c.Err()
}

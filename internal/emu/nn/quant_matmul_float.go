package nn

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// mixedProducts are products of which one factor, or the result, is quantised on the way.
var mixedProducts = table{"BatchMatmulQuant": matmulQuant, "QuantMatmulDequant": dynamicMatmul, "WeightQuantBatchMatmul": plainWeightMatmul}

// turned is a matrix with its last two dimensions swapped, if asked.
func (c *Call) turned(t *Tensor, swap bool) *Tensor {
	if !swap || t.Rank() < 2 {
		return t
	}
	v, n := *t, t.Rank()
	v.Shape, v.Strides = slices.Clone(t.Shape), slices.Clone(t.Strides)
	v.Shape[n-1], v.Shape[n-2] = v.Shape[n-2], v.Shape[n-1]
	v.Strides[n-1], v.Strides[n-2] = v.Strides[n-2], v.Strides[n-1]
	c.views = append(c.views, view{t: &v, of: t})
	return &v
}

// packedOffsets reads the offsets that packScale put beside the scales.
func packedOffsets(packed []int64) []float64 {
	offsets := make([]float64, len(packed))
	for i, p := range packed {
		offsets[i] = float64(int64(uint64(p)<<18) >> 55) // nine bits with a sign, from bit 37 on
	}
	return offsets
}

// matmulQuant turns the product of float16 matrices into int8.
func matmulQuant(c *Call) (Run, error) {
	x1, x2, params, bias, out := c.Tensor("x1"), c.Tensor("x2"), c.Tensor("quantParam"), c.Optional("bias"), c.Tensor("out")
	c.plain(x1, x2, out)
	c.DType(x1, dtype.Float16)
	c.DType(x2, dtype.Float16)
	c.DType(params, dtype.Uint64)
	c.DType(out, dtype.Int8)
	c.Rank(x1, 2, kernel.MaxRank)
	c.Rank(x2, 2, kernel.MaxRank)
	for _, t := range []*Tensor{x1, x2} {
		if t.Len() == 0 {
			c.Invalid("%v is empty", t)
		}
	}
	if c.err != nil {
		return nil, c.err
	}
	if out.Rank() == 0 {
		c.Invalid("%v must have the shape of the product", out)
		return nil, c.err
	}
	n := out.Dim(-1)
	if padded := (n + 15) / 16 * 16; params.Len() != 1 && params.Len() != n && params.Len() != padded || !params.Contiguous() {
		c.Invalid("%v must have one element without gaps, %d, one for each column, or %d, padded to sixteen", params, n, padded)
	}
	sums := c.scratch(dtype.Float32, out.Shape...)
	p := product{out: sums, a: left(c.turned(x1, c.Bool("transposeX1"))), b: right(c.turned(x2, c.Bool("transposeX2"))), alpha: 1, types: cubeTypes}
	if bias != nil {
		c.plain(bias)
		c.DType(bias, dtype.Float16)
		c.Shape(bias, []int64{n}, "one for each column")
		p.add, p.beta = bias, 1
	}
	if c.err != nil {
		return nil, c.err
	}
	run, err := c.product(p)
	return func(e *Exec) error {
		if err := run(e); err != nil {
			return err
		}
		count := min(params.Len(), n)
		scales := params.As([]int64{count}, []int64{1})
		packed, err := kernel.Indices(kernel.View{Data: scales.Data, DType: dtype.Int64, Shape: scales.Shape, Strides: scales.Strides})
		if err != nil {
			return err
		}
		offsets, release := kernel.Temporary(count)
		defer release()
		if err := kernel.SetFloats(offsets, packedOffsets(packed)); err != nil {
			return err
		}
		return kernel.Quantizer{Factor: scaleView(scales), Offset: offsets, Round: kernel.Round}.Quantize(out.View(), sums.View())
	}, err
}

// dynamicMatmul quantises the left factor, by given scales or by its own extremes, multiplies
// it by an int8 weight and scales the sums back.
func dynamicMatmul(c *Call) (Run, error) {
	x, weight, scale, out := c.Tensor("x"), c.Tensor("weight"), c.Tensor("weightScale"), c.Tensor("out")
	given, smooth, mode := c.Optional("xScaleOptional"), c.Optional("smoothScaleOptional"), c.RequiredText("xQuantMode")
	c.noneOf("biasOptional", "xOffsetOptional")
	c.plain(x, scale, out)
	c.DType(x, dtype.Float16)
	c.DType(weight, dtype.Int8)
	c.DType(scale, dtype.Float32, dtype.Int64)
	c.DType(out, dtype.Float16)
	if !c.Bool("transposeWeight") {
		c.Invalid("transposeWeight is false; only true is supported")
	}
	if mode != "pertoken" && mode != "pertensor" {
		c.Invalid("xQuantMode is %q; use pertoken or pertensor", mode)
	}
	if c.err != nil {
		return nil, c.err
	}
	if x.Rank() != 2 {
		c.Unfit("%v must have 2 dimensions", x)
		return nil, c.err
	}
	w := c.byStorage(weight, 2)
	m, k := x.Dim(0), x.Dim(1)
	switch {
	case w.Rank() != 2 || w.Dim(1) != k:
		c.Unfit("%v does not fit %v: it must be [N,%d]", weight, x, k)
	case w.Dim(0)%16 != 0 || k%16 != 0:
		c.Invalid("%v: N and K must be multiples of 16", weight)
	}
	if c.err != nil {
		return nil, c.err
	}
	c.fits(scale, []int64{w.Dim(0)}, "one for each column")
	if smooth != nil && smooth.Len() > 0 {
		c.plain(smooth)
		c.DType(smooth, dtype.Float16)
		c.fits(smooth, []int64{k}, "one for each column of x")
	} else {
		smooth = nil
	}
	if given != nil && given.Len() > 0 {
		c.plain(given)
		c.DType(given, dtype.Float32, dtype.Float16)
		want := m
		if mode == "pertensor" {
			want = 1
		}
		c.fits(given, []int64{want}, "the scales of "+mode)
	} else if given = nil; mode == "pertensor" {
		c.Invalid("xQuantMode is pertensor without xScaleOptional; scales that are found are those of rows")
	}
	packed := scale.DType == dtype.Int64
	if packed != (given != nil && given.DType == dtype.Float16 && mode == "pertensor") {
		c.Invalid("%v and %v: an int64 scale, which holds that of x, goes with a float16 scale of the tensor", scale, given)
	}
	small, rows := c.scratch(dtype.Int8, m, k), c.scratch(dtype.Float32, m)
	rowScales := rows
	if packed {
		rowScales = nil
	}
	multiply := c.operate("QuantMatmulV4", quantMatmul, map[string]any{"x1": small, "x2": w, "transposeX2": true, "scale": scale, "pertokenScaleOptional": rowScales, "out": out})
	if c.err != nil {
		return nil, c.err
	}
	return func(e *Exec) error {
		if m == 0 {
			return nil
		}
		if given == nil {
			if err := (kernel.DynamicQuantizer{Smooth: optionalView(smooth)}).Quantize(small.View(), rows.View(), x.View()); err != nil {
				return err
			}
			return multiply(e)
		}
		from := x.View()
		if smooth != nil {
			scaled, release := kernel.Temporary(m, k)
			defer release()
			if err := kernel.Map(kernel.Mul, dtype.Float32, scaled, []kernel.Input{kernel.Of(from), kernel.Of(smooth.View())}); err != nil {
				return err
			}
			from = scaled
		}
		if err := kernel.Map(kernel.Identity, dtype.Float32, rows.View(), []kernel.Input{kernel.Of(given.View())}); err != nil {
			return err
		}
		column := rows.As([]int64{m, 1}, []int64{1, 0})
		if err := (kernel.Quantizer{Factor: column, Divide: true, Round: kernel.Round}).Quantize(small.View(), from); err != nil {
			return err
		}
		return multiply(e)
	}, nil
}

// plainWeightMatmul multiplies by ((x2 + antiquantOffset)·antiquantScale + addOffset)·mulScale.
// The diagonal matrix and its scales serve the device to compute the same.
func plainWeightMatmul(c *Call) (Run, error) {
	x1, x2, scale, offset, bias, out := c.Tensor("x1"), c.Tensor("x2"), c.Tensor("mulScale"), c.Optional("addOffset"), c.Optional("bias"), c.Tensor("out")
	c.plain(x1, x2, out)
	c.Rank(x1, 2, 2)
	c.Rank(x2, 2, 2)
	c.DType(x1, dtype.Float16)
	c.DType(x2, dtype.Int8)
	c.DType(out, dtype.Float16)
	if c.err != nil {
		return nil, c.err
	}
	weight := c.turned(x2, c.Bool("transposeX2"))
	n := weight.Dim(1)
	columns := func(t *Tensor, types ...dtype.Type) {
		if t == nil {
			return
		}
		c.plain(t)
		c.DType(t, types...)
		if t.Len() != 1 && (t.Len() != n || !t.Contiguous()) {
			c.Invalid("%v must have one element, or one for each of %d columns", t, n)
		}
	}
	columns(scale, dtype.Float16)
	columns(offset, dtype.Float16)
	columns(bias, dtype.Float16, dtype.Float32)
	dense := c.scratch(dtype.Float16, weight.Shape...)
	p := product{out: out, a: left(c.turned(x1, c.Bool("transposeX1"))), b: right(dense), alpha: 1, types: cubeTypes}
	row := func(t *Tensor) *Tensor { return c.reshaped(t, t.Len()) }
	if bias != nil {
		p.add, p.beta = row(bias), 1
	}
	if c.err != nil {
		return nil, c.err
	}
	run, err := c.product(p)
	factor := row(scale)
	if offset != nil {
		offset = row(offset)
	}
	before, times := c.Float("antiquantOffset"), c.Float("antiquantScale")
	return func(e *Exec) error {
		w, f := dense.View(), dtype.Float32
		wide, release := kernel.Temporary(w.Shape...)
		defer release()
		in := []kernel.Input{kernel.Of(weight.View()), kernel.Const(kernel.Real(before))}
		if err := kernel.Map(kernel.Add, f, wide, in, kernel.Real(1)); err != nil {
			return err
		}
		if err := kernel.Map(kernel.Mul, f, w, []kernel.Input{kernel.Of(wide), kernel.Const(kernel.Real(times))}); err != nil {
			return err
		}
		if offset != nil {
			if err := kernel.Map(kernel.Add, f, w, []kernel.Input{kernel.Of(w), kernel.Of(offset.View())}, kernel.Real(1)); err != nil {
				return err
			}
		}
		if err := kernel.Map(kernel.Mul, f, w, []kernel.Input{kernel.Of(w), kernel.Of(factor.View())}); err != nil {
			return err
		}
		return run(e)
	}, err
}

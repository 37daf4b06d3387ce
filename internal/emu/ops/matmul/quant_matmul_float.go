package matmul

import (
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	gemmkernel "github.com/goascend/cann/internal/emu/kernel/gemm"
	"github.com/goascend/cann/internal/emu/op"
)

// mixedProducts lists the products that quantise one factor or the result.
var mixedProducts = op.Table{"BatchMatmulQuant": matmulQuant, "QuantMatmulDequant": dynamicMatmul, "WeightQuantBatchMatmul": plainWeightMatmul}

// packedOffsets reads the offsets that op.PackScale stores beside the scales.
func packedOffsets(packed []int64) []float64 {
	offsets := make([]float64, len(packed))
	for i, p := range packed {
		offsets[i] = float64(int64(uint64(p)<<18) >> 55) // nine signed bits, starting at bit 37
	}
	return offsets
}

// matmulQuant quantises the product of float16 matrices to int8.
func matmulQuant(c *op.Call) (op.Run, error) {
	x1, x2, params, bias, out := c.Tensor("x1"), c.Tensor("x2"), c.Tensor("quantParam"), c.Optional("bias"), c.Tensor("out")
	c.Plain(x1, x2, out)
	c.DType(x1, dtype.Float16)
	c.DType(x2, dtype.Float16)
	c.DType(params, dtype.Uint64)
	c.DType(out, dtype.Int8)
	c.Rank(x1, 2, kernel.MaxRank)
	c.Rank(x2, 2, kernel.MaxRank)
	for _, t := range []*op.Tensor{x1, x2} {
		if t.Len() == 0 {
			c.Invalid("%v is empty", t)
		}
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	if out.Rank() == 0 {
		c.Invalid("%v must have the shape of the product", out)
		return nil, c.Err()
	}
	n := out.Dim(-1)
	if padded := (n + 15) / 16 * 16; params.Len() != 1 && params.Len() != n && params.Len() != padded || !params.Contiguous() {
		c.Invalid("%v must have one element without gaps, %d, one for each column, or %d, padded to sixteen", params, n, padded)
	}
	sums := c.Scratch(dtype.Float32, out.Shape...)
	p := Product{Out: sums, A: Left(c.Transposed(x1, c.Bool("transposeX1"))), B: Right(c.Transposed(x2, c.Bool("transposeX2"))), Alpha: 1, Types: op.FloatTypes}
	if bias != nil {
		c.Plain(bias)
		c.DType(bias, dtype.Float16)
		c.Shape(bias, []int64{n}, "one for each column")
		p.Add, p.Beta = bias, 1
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	run, err := Multiply(c, p)
	return func(e *op.Exec) error {
		if err := run(e); err != nil {
			return err
		}
		return requantise(out.View(), sums.View(), params)
	}, err
}

// givenScale checks the scale of x for m rows, if it is given with elements, and returns nil if not.
func givenScale(c *op.Call, given *op.Tensor, m int64, mode string) *op.Tensor {
	if given == nil || given.Len() == 0 {
		if mode == "pertensor" {
			c.Invalid("xQuantMode is pertensor without xScaleOptional; scales that are found are those of rows")
		}
		return nil
	}
	c.Plain(given)
	c.DType(given, dtype.Float32, dtype.Float16)
	if mode == "pertensor" {
		m = 1
	}
	c.Fits(given, []int64{m}, "the scales of "+mode)
	return given
}

// dynamicMatmul quantises the left factor, by given scales or by its own largest magnitudes,
// multiplies it by an int8 weight and dequantises the sums.
func dynamicMatmul(c *op.Call) (op.Run, error) {
	x, weight, scale, out := c.Tensor("x"), c.Tensor("weight"), c.Tensor("weightScale"), c.Tensor("out")
	given, smooth, mode := c.Optional("xScaleOptional"), c.Optional("smoothScaleOptional"), c.RequiredText("xQuantMode")
	for _, name := range []string{"biasOptional", "xOffsetOptional"} {
		if given := c.Optional(name); given != nil {
			c.Fail(op.NullPointer, "%v is given; %s must be null", given, name)
		}
	}
	c.Plain(x, scale, out)
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
	if x.Rank() != 2 {
		c.Unfit("%v must have 2 dimensions", x)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	w := byStorage(c, weight, 2)
	m, k := x.Dim(0), x.Dim(1)
	switch {
	case w.Rank() != 2:
		c.Invalid("%v must be [N,%d]", weight, k)
	case w.Dim(0)%16 != 0 || w.Dim(1)%16 != 0:
		c.Invalid("%v: N and K must be multiples of 16", weight)
	case w.Dim(1) != k:
		c.Unfit("%v does not fit %v: it must be [N,%d]", weight, x, k)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	c.Fits(scale, []int64{w.Dim(0)}, "one for each column")
	if smooth != nil && smooth.Len() > 0 {
		c.Plain(smooth)
		c.DType(smooth, dtype.Float16)
		c.Fits(smooth, []int64{k}, "one for each column of x")
	} else {
		smooth = nil
	}
	if given = givenScale(c, given, m, mode); c.Err() != nil {
		return nil, c.Err()
	}
	packed := scale.DType == dtype.Int64
	if packed != (given != nil && given.DType == dtype.Float16) {
		c.Invalid("%v and %v: an int64 scale, which holds that of x, goes with a float16 scale of x", scale, given)
	}
	small, rows := c.Scratch(dtype.Int8, m, k), c.Scratch(dtype.Float32, m)
	rowScales := rows
	if packed {
		rowScales = nil
	}
	multiply := c.Operate("QuantMatmulV4", QuantMatmul, map[string]any{"x1": small, "x2": w, "transposeX2": true, "scale": scale, "pertokenScaleOptional": rowScales, "out": out})
	if c.Err() != nil {
		return nil, c.Err()
	}
	return func(e *op.Exec) error {
		if m == 0 {
			return nil
		}
		if given == nil {
			if err := (gemmkernel.DynamicQuantizer{Smooth: op.OptionalView(smooth)}).Quantize(small.View(), rows.View(), x.View()); err != nil {
				return err
			}
			return multiply(e)
		}
		if err := quantiseRows(small, rows, x, given, smooth); err != nil {
			return err
		}
		return multiply(e)
	}, nil
}

// quantiseRows divides x, smoothed if requested, by given scales and stores the result. rows
// receives one scale per row.
func quantiseRows(small, rows, x, given, smooth *op.Tensor) error {
	from := x.View()
	if smooth != nil {
		scaled, release := kernel.Temporary(x.Shape...)
		defer release()
		if err := elementwise.Map(elementwise.Mul, dtype.Float32, scaled, []elementwise.Input{elementwise.Of(from), elementwise.Of(smooth.View())}); err != nil {
			return err
		}
		from = scaled
	}
	if err := elementwise.Map(elementwise.Identity, dtype.Float32, rows.View(), []elementwise.Input{elementwise.Of(given.View())}); err != nil {
		return err
	}
	column := rows.As([]int64{x.Dim(0), 1}, []int64{1, 0})
	return gemmkernel.Quantizer{Factor: column, Divide: true, Round: elementwise.Round}.Quantize(small.View(), from)
}

// plainWeightMatmul multiplies by ((x2 + antiquantOffset)·antiquantScale + addOffset)·mulScale.
// The device uses the diagonal matrix and its scales to compute the same.
func plainWeightMatmul(c *op.Call) (op.Run, error) {
	x1, x2, scale, offset, bias, out := c.Tensor("x1"), c.Tensor("x2"), c.Tensor("mulScale"), c.Optional("addOffset"), c.Optional("bias"), c.Tensor("out")
	c.Plain(x1, x2, out)
	c.Rank(x1, 2, 2)
	c.Rank(x2, 2, 2)
	c.DType(x1, dtype.Float16)
	c.DType(x2, dtype.Int8)
	c.DType(out, dtype.Float16)
	if c.Err() != nil {
		return nil, c.Err()
	}
	weight := c.Transposed(x2, c.Bool("transposeX2"))
	n := weight.Dim(1)
	columns := func(t *op.Tensor, types ...dtype.Type) {
		if t == nil {
			return
		}
		c.Plain(t)
		c.DType(t, types...)
		if t.Len() != 1 && (t.Len() != n || !t.Contiguous()) {
			c.Invalid("%v must have one element, or one for each of %d columns", t, n)
		}
	}
	columns(scale, dtype.Float16)
	columns(offset, dtype.Float16)
	columns(bias, dtype.Float16, dtype.Float32)
	dense := c.Scratch(dtype.Float16, weight.Shape...)
	p := Product{Out: out, A: Left(c.Transposed(x1, c.Bool("transposeX1"))), B: Right(dense), Alpha: 1, Types: op.FloatTypes}
	row := func(t *op.Tensor) *op.Tensor { return c.Reshaped(t, t.Len()) }
	if bias != nil {
		p.Add, p.Beta = row(bias), 1
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	run, err := Multiply(c, p)
	factor := row(scale)
	if offset != nil {
		offset = row(offset)
	}
	before, times := c.Float("antiquantOffset"), c.Float("antiquantScale")
	return func(e *op.Exec) error {
		w, f := dense.View(), dtype.Float32
		wide, release := kernel.Temporary(w.Shape...)
		defer release()
		in := []elementwise.Input{elementwise.Of(weight.View()), elementwise.Const(elementwise.Real(before))}
		if err := elementwise.Map(elementwise.Add, f, wide, in, elementwise.Real(1)); err != nil {
			return err
		}
		if err := elementwise.Map(elementwise.Mul, f, w, []elementwise.Input{elementwise.Of(wide), elementwise.Const(elementwise.Real(times))}); err != nil {
			return err
		}
		if offset != nil {
			if err := elementwise.Map(elementwise.Add, f, w, []elementwise.Input{elementwise.Of(w), elementwise.Of(offset.View())}, elementwise.Real(1)); err != nil {
				return err
			}
		}
		if err := elementwise.Map(elementwise.Mul, f, w, []elementwise.Input{elementwise.Of(w), elementwise.Of(factor.View())}); err != nil {
			return err
		}
		return run(e)
	}, err
}

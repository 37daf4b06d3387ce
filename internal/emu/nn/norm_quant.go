package nn

import (
	"slices"
	"strings"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// quantNorms normalise, some of them a sum, and quantise the result to int8 once or twice.
var quantNorms = table{
	"RmsNormQuant": quantNorm, "RmsNormQuantV3": quantNorm, "LayerNormQuant": quantNorm,
	"AddRmsNormQuant": quantNorm, "AddRmsNormQuantV2": quantNorm, "AddLayerNormQuant": quantNorm, "AddLayerNormQuantV2": quantNorm,
	"RmsNormDynamicQuant": quantNorm, "AddRmsNormDynamicQuant": quantNorm, "AddRmsNormDynamicQuantV2": quantNorm,
}

// int8Result is one result of a quantising norm.
type int8Result struct {
	y             *Tensor
	scale, offset *Tensor // of a static quantisation; the first, or null, smooths a dynamic one
	extent        *Tensor // scales that a dynamic quantisation finds
}

// optionalOf is the argument with the first of the names that the declaration has, or nil.
func (c *Call) optionalOf(names ...string) *Tensor {
	if name := c.either(names...); c.Has(name) {
		return c.Optional(name)
	}
	return nil
}

// dynamicNorm reports whether the call quantises by extremes.
func (c *Call) dynamicNorm() bool {
	i := slices.IndexFunc(c.op.params, func(p param) bool { return p.name == "quantMode" })
	switch {
	case i < 0:
		return strings.Contains(c.op.name, "Dynamic")
	case c.op.params[i].class == intClass:
		if mode := c.Int("quantMode"); mode != 0 && mode != 1 {
			c.Invalid("quantMode %d is unknown; 0 is static, 1 dynamic", mode)
		}
		return c.Int("quantMode") == 1
	}
	mode := c.Text("quantMode")
	if mode != "static" && mode != "dynamic" {
		c.Invalid("quantMode %q is unknown; use static or dynamic", mode)
	}
	return mode == "dynamic"
}

// quantisedOnce checks one result of x; gamma has the normalised dimensions.
func (c *Call) quantisedOnce(q int8Result, x *Tensor, gamma []int64, dynamic bool) int8Result {
	c.plain(q.y)
	c.DType(q.y, dtype.Int8)
	c.SameShape(x, q.y)
	for _, t := range []*Tensor{q.scale, q.offset} {
		if t == nil || c.Err() != nil {
			continue
		}
		c.plain(t)
		c.DType(t, dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Int32, dtype.Int8)
		if shape, ok := broadcastShape(t.Shape, gamma); !ok || !slices.Equal(shape, gamma) && t.Len() != 1 {
			c.Invalid("%v must have one element, or the shape %s of the normalised dimensions", t, dims(gamma))
		}
	}
	switch {
	case dynamic && q.offset != nil:
		c.Invalid("%v: a dynamic quantisation has no zero points; pass null", q.offset)
	case dynamic:
		rows := x.Shape[:x.Rank()-1]
		c.DType(q.extent, dtype.Float32)
		if flat := []int64{count(rows)}; !slices.Equal(q.extent.Shape, flat) || !q.extent.Contiguous() {
			c.Shape(q.extent, rows, "one for each row of "+x.name)
		}
		if len(gamma) != 1 {
			c.Invalid("%v: a dynamic quantisation takes rows, of one dimension, not of %s", x, dims(gamma))
		}
	case q.scale == nil:
		c.Fail(nullPointer, "the scales of %v are null; a static quantisation needs them", q.y)
	}
	return q
}

// run writes the result of a normalised t.
func (q int8Result) run(t kernel.View, dynamic, divide bool) error {
	if dynamic {
		rows := t.Shape[:len(t.Shape)-1]
		extent := q.extent.View()
		if len(extent.Shape) != len(rows) {
			extent = q.extent.As(rows, ContiguousStrides(rows))
		}
		return kernel.DynamicQuantizer{Smooth: optionalView(q.scale)}.Quantize(q.y.View(), extent, t)
	}
	return kernel.Quantizer{Factor: q.scale.View(), Offset: optionalView(q.offset), Divide: divide, Round: kernel.Round}.Quantize(q.y.View(), t)
}

// quantNorm normalises x, or x1 + x2 + bias, by rows or more dimensions.
func quantNorm(c *Call) (Run, error) {
	rms := strings.Contains(c.op.name, "RmsNorm")
	x, gamma := c.Tensor(c.either("x1", "x")), c.Tensor(c.either("gamma", "gammma"))
	x2, bias, beta := c.optionalOf("x2"), c.optionalOf("biasOptional"), c.optionalOf("beta", "betaOptional")
	sum := c.optionalOf("xOut")
	eps := c.Float("epsilon")
	dynamic := c.dynamicNorm()
	if c.Has("dstType") && c.Int("dstType") != int64(dtype.Int8) {
		c.Invalid("dstType is %v; only int8 (2) is supported", dtype.Type(c.Int("dstType")))
	}
	divide := !c.Has("divMode") || c.Bool("divMode")
	if c.Has("x2") && (x2 == nil || sum == nil) {
		c.Fail(nullPointer, "x2 or xOut is null")
	}
	c.plain(x, gamma)
	c.DType(x, transformerTypes...)
	c.SameDType(x, gamma)
	if c.Err() != nil {
		return nil, c.Err()
	}
	gamma, beta = c.rowFactors(gamma), c.rowFactors(beta)
	outer := gammaOf(c, x, gamma)
	for _, t := range []*Tensor{x2, sum} {
		if t != nil {
			c.Same(x, t)
		}
	}
	if beta != nil {
		c.Same(gamma, beta)
	}
	if bias != nil && !SameShape(bias.Shape, x.Shape) {
		c.Shape(bias, gamma.Shape, "that of gamma, or of x1")
	}
	results := c.quantisedResults(x, gamma.Shape, dynamic)
	plain := c.optionalOf("rmsNormOut", "layernormRes")
	if plain != nil {
		c.Same(x, plain)
	}
	var rstd *Tensor
	if c.Has("outputRstd") && c.Bool("outputRstd") {
		rstd = c.Tensor("rstd")
		c.DType(rstd, dtype.Float32)
		statistics(c, rstd, x, outer)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if x.Len() == 0 {
			return nil
		}
		from := x.View()
		if x2 != nil {
			t, release, err := sumOf(x, x2, bias, 1)
			defer release()
			if err == nil {
				err = kernel.Copy(sum.View(), t)
			}
			if err != nil {
				return err
			}
			from = t
		}
		t, release := kernel.Temporary(x.Shape...)
		defer release()
		var err error
		if rms {
			err = kernel.RMSNorm(t, leadingView(rstd, outer), from, gamma.View(), eps)
		} else {
			err = kernel.LayerNorm(t, kernel.View{}, kernel.View{}, from, outer, gamma.View(), optionalView(beta), eps)
		}
		if err == nil && plain != nil {
			err = kernel.Copy(plain.View(), t)
		}
		if err == nil && rms && beta != nil {
			err = kernel.Map(kernel.Add, dtype.Float32, t, []kernel.Input{kernel.Of(t), kernel.Of(beta.View())}, kernel.Real(1))
		}
		for _, r := range results {
			if err == nil {
				err = r.run(t, dynamic, divide)
			}
		}
		return err
	}, nil
}

// rowFactors is gamma or beta written as [1, n] without the first dimension; the device
// takes both forms.
func (c *Call) rowFactors(t *Tensor) *Tensor {
	if t == nil || t.Rank() != 2 || t.Shape[0] != 1 {
		return t
	}
	t.Shape, t.Strides = t.Shape[1:], t.Strides[1:]
	return t
}

// quantisedResults reads the one or two results of a call.
func (c *Call) quantisedResults(x *Tensor, gamma []int64, dynamic bool) []int8Result {
	first := int8Result{
		y:      c.Tensor(c.either("y1Out", "y", "res", "yOut")),
		scale:  c.optionalOf("scales1", "scales1Optional", "smoothScale1Optional", "smoothScalesOptional", "scale"),
		offset: c.optionalOf("zeroPoints1Optional", "zeroPointsOptional", "offset"),
	}
	second := int8Result{
		scale:  c.optionalOf("scales2Optional", "smoothScale2Optional"),
		offset: c.optionalOf("zeroPoints2Optional"),
	}
	mask := []bool{true, second.scale != nil}
	if c.Has("outputMask") {
		if given := c.Bools("outputMask"); len(given) == 2 {
			mask = given
		} else if len(given) != 0 {
			c.Invalid("outputMask has %d elements; it has one for each result", len(given))
		}
	}
	switch {
	case !mask[0] && !mask[1]:
		c.Invalid("outputMask asks for no result")
	case second.scale != nil && first.scale == nil && mask[0]:
		c.Invalid("the scales of the second result are given, those of the first are not")
	case second.scale == nil && second.offset != nil:
		c.Invalid("%v has no scales beside it", second.offset)
	case second.scale != nil && !mask[1] || first.scale != nil && !mask[0]:
		c.Invalid("there are scales of a result that outputMask leaves out")
	}
	if dynamic && mask[0] {
		first.extent = c.Tensor(c.either("scale1Out", "outScales1Out", "scaleOut"))
	}
	if mask[1] {
		second.y = c.Tensor("y2Out")
		if dynamic {
			second.extent = c.Tensor(c.either("scale2Out", "outScales2Out"))
		}
	}
	var results []int8Result
	for i, q := range []int8Result{first, second} {
		if mask[i] && c.Err() == nil {
			results = append(results, c.quantisedOnce(q, x, gamma, dynamic))
		}
	}
	return results
}

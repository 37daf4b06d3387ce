package normalization

import (
	"slices"
	"strings"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/gemm"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/op"
)

// quantNorms lists the operators that normalise a tensor or a sum and quantise the result to
// int8, or to int4 where the vendor's page has it, once or twice.
var quantNorms = op.Table{
	"RmsNormQuant": quantNorm, "RmsNormQuantV3": quantNorm, "LayerNormQuant": quantNorm,
	"AddRmsNormQuant": quantNorm, "AddRmsNormQuantV2": quantNorm, "AddLayerNormQuant": quantNorm, "AddLayerNormQuantV2": quantNorm,
	"RmsNormDynamicQuant": quantNorm, "AddRmsNormDynamicQuant": quantNorm, "AddRmsNormDynamicQuantV2": quantNorm,
}.Omits("RmsNormQuant", "RmsNormQuantV3", "AddRmsNormQuant", "AddRmsNormQuantV2", "RmsNormDynamicQuant", "AddRmsNormDynamicQuant", "AddRmsNormDynamicQuantV2")

// fourBitNorms lists the operators with results of int4, or of int32 that hold eight of them.
var fourBitNorms = []string{"AddRmsNormDynamicQuantV2", "RmsNormQuant", "RmsNormQuantV3"}

// quantResult is one output of a quantising norm.
type quantResult struct {
	y             *op.Tensor
	scale, offset *op.Tensor // of static quantisation; for dynamic, scale smooths or is null
	extent        *op.Tensor // the scales that dynamic quantisation computes
}

// dynamicNorm reports whether the call quantises dynamically.
func dynamicNorm(c *op.Call) bool {
	switch {
	case !c.Has("quantMode"):
		return strings.Contains(c.Op.Name, "Dynamic")
	case c.Class("quantMode") == op.IntClass:
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

// quantisedOnce checks one output of x. gamma has the normalised dimensions.
func quantisedOnce(c *op.Call, q quantResult, x *op.Tensor, gamma []int64, dynamic bool) quantResult {
	c.Plain(q.y)
	if slices.Contains(fourBitNorms, c.Op.Name) && q.y.DType != dtype.Int8 {
		c.DType(q.y, dtype.Int8, dtype.Int4, dtype.Int32)
		c.FourBits(q.y, x.Shape)
	} else {
		c.DType(q.y, dtype.Int8)
		c.SameShape(x, q.y)
	}
	for _, t := range []*op.Tensor{q.scale, q.offset} {
		if t == nil || c.Err() != nil {
			continue
		}
		c.Plain(t)
		c.DType(t, dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Int32, dtype.Int8)
		if shape, ok := op.BroadcastShape(t.Shape, gamma); !ok || !slices.Equal(shape, gamma) && t.Len() != 1 {
			c.Invalid("%v must have one element, or the shape %s of the normalised dimensions", t, op.Dims(gamma))
		}
	}
	switch {
	case dynamic && q.offset != nil:
		c.Invalid("%v: a dynamic quantisation has no zero points; pass null", q.offset)
	case dynamic:
		rows := x.Shape[:x.Rank()-1]
		c.DType(q.extent, dtype.Float32)
		if flat := []int64{op.Count(rows)}; !slices.Equal(q.extent.Shape, flat) || !q.extent.Contiguous() {
			c.Shape(q.extent, rows, "one for each row of "+x.Name)
		}
		if len(gamma) != 1 {
			c.Invalid("%v: a dynamic quantisation takes rows, of one dimension, not of %s", x, op.Dims(gamma))
		}
	case q.scale == nil:
		c.Fail(op.NullPointer, "the scales of %v are null; a static quantisation needs them", q.y)
	}
	return q
}

// run quantises the normalised tensor t to the output.
func (q quantResult) run(t kernel.View, dynamic, divide bool) error {
	return op.WithInt8(q.y, t.Shape, func(into kernel.View) error {
		if !dynamic {
			return gemm.Quantizer{Factor: q.scale.View(), Offset: op.OptionalView(q.offset), Divide: divide, Round: elementwise.Round}.Quantize(into, t)
		}
		rows := t.Shape[:len(t.Shape)-1]
		extent := q.extent.View()
		if len(extent.Shape) != len(rows) {
			extent = q.extent.As(rows, op.ContiguousStrides(rows))
		}
		d := gemm.DynamicQuantizer{Smooth: op.OptionalView(q.scale)}
		if q.y.DType != dtype.Int8 {
			d.Most = gemm.MostInt4
		}
		return d.Quantize(into, extent, t)
	})
}

// quantNorm normalises x, or x1 + x2 + bias, over one or more trailing dimensions.
func quantNorm(c *op.Call) (op.Run, error) {
	rms := strings.Contains(c.Op.Name, "RmsNorm")
	x, gamma := c.Tensor(c.Either("x1", "x")), c.Tensor(c.Either("gamma", "gammma"))
	x2, bias, beta := c.OptionalOf("x2"), c.OptionalOf("biasOptional"), c.OptionalOf("beta", "betaOptional")
	sum := c.OptionalOf("xOut")
	eps := c.Float("epsilon")
	dynamic := dynamicNorm(c)
	if c.Has("dstType") && c.Int("dstType") != int64(dtype.Int8) {
		c.Invalid("dstType is %v; only int8 (2) is supported", dtype.Type(c.Int("dstType")))
	}
	divide := !c.Has("divMode") || c.Bool("divMode")
	if c.Has("x2") && (x2 == nil || sum == nil) {
		c.Fail(op.NullPointer, "x2 or xOut is null")
	}
	c.Plain(x, gamma)
	c.DType(x, op.FloatTypes...)
	c.SameDType(x, gamma)
	if c.Err() != nil {
		return nil, c.Err()
	}
	gamma, beta = rowFactors(c, gamma), rowFactors(c, beta)
	outer := gammaOf(c, x, gamma)
	for _, t := range []*op.Tensor{x2, sum} {
		if t != nil {
			c.Same(x, t)
		}
	}
	if beta != nil {
		c.Same(gamma, beta)
	}
	if bias != nil {
		c.Countable(bias)
		if !op.SameShape(bias.Shape, x.Shape) {
			c.Shape(bias, gamma.Shape, "that of gamma, or of x1")
		}
	}
	results := quantisedResults(c, x, gamma.Shape, dynamic)
	plain := c.OptionalOf("rmsNormOut", "layernormRes")
	if plain != nil {
		c.Same(x, plain)
	}
	var rstd *op.Tensor
	if c.Has("outputRstd") && c.Bool("outputRstd") {
		rstd = c.Tensor("rstd")
		c.DType(rstd, dtype.Float32)
		statistics(c, rstd, x, outer)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if x.Len() == 0 {
			return nil
		}
		from, releaseSum, err := summed(x, x2, bias, sum)
		defer releaseSum()
		if err != nil {
			return err
		}
		t, release := kernel.Temporary(x.Shape...)
		defer release()
		if rms {
			err = rowwise.RMSNorm(t, leadingView(rstd, outer), from, gamma.View(), eps)
		} else {
			err = rowwise.LayerNorm(t, kernel.View{}, kernel.View{}, from, outer, gamma.View(), op.OptionalView(beta), eps)
		}
		if err == nil && plain != nil {
			err = elementwise.Copy(plain.View(), t)
		}
		if err == nil && rms && beta != nil {
			err = elementwise.Map(elementwise.Add, dtype.Float32, t, []elementwise.Input{elementwise.Of(t), elementwise.Of(beta.View())}, elementwise.Real(1))
		}
		for _, r := range results {
			if err == nil {
				err = r.run(t, dynamic, divide)
			}
		}
		return err
	}, nil
}

// summed returns x or, with x2, the sum to normalise, which is also written to sum in rounded
// form. bias may be nil.
func summed(x, x2, bias, sum *op.Tensor) (v kernel.View, release func(), err error) {
	if x2 == nil {
		return x.View(), func() {}, nil
	}
	v, release, err = sumOf(x, x2, bias, 1)
	if err == nil {
		err = elementwise.Copy(sum.View(), v)
	}
	return v, release, err
}

// rowFactors drops the first dimension of gamma or beta if it is given as [1, n]. The device
// accepts both forms.
func rowFactors(c *op.Call, t *op.Tensor) *op.Tensor {
	if t == nil || t.Rank() != 2 || t.Shape[0] != 1 {
		return t
	}
	t.Shape, t.Strides = t.Shape[1:], t.Strides[1:]
	return t
}

// quantisedResults reads the one or two outputs of a call.
func quantisedResults(c *op.Call, x *op.Tensor, gamma []int64, dynamic bool) []quantResult {
	first := quantResult{
		y:      c.Tensor(c.Either("y1Out", "y", "res", "yOut")),
		scale:  c.OptionalOf("scales1", "scales1Optional", "smoothScale1Optional", "smoothScalesOptional", "scale"),
		offset: c.OptionalOf("zeroPoints1Optional", "zeroPointsOptional", "offset"),
	}
	second := quantResult{
		scale:  c.OptionalOf("scales2Optional", "smoothScale2Optional"),
		offset: c.OptionalOf("zeroPoints2Optional"),
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
		first.extent = c.Tensor(c.Either("scale1Out", "outScales1Out", "scaleOut"))
	}
	if mask[1] {
		second.y = c.Tensor("y2Out")
		if dynamic {
			second.extent = c.Tensor(c.Either("scale2Out", "outScales2Out"))
		}
	}
	var results []quantResult
	for i, q := range []quantResult{first, second} {
		if mask[i] && c.Err() == nil {
			results = append(results, quantisedOnce(c, q, x, gamma, dynamic))
		}
	}
	return results
}

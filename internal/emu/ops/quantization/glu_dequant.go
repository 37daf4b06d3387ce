package quantization

import (
	"math"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/gemm"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/op"
)

// dequantGates lists the operators that dequantise the sums of a product, apply a gated linear
// unit and quantise the result.
var dequantGates = op.Table{"DequantSwigluQuant": dequantGate, "DequantSwigluQuantV2": dequantGate}.Selects()

// dequantising is a call of the family. Rows belong to groups, each with its own parameters;
// without a list of groups all rows form one group.
type dequantising struct {
	*op.Call
	x, columns, lines, bias *op.Tensor // columns and lines scale the columns and rows of x
	scale, offset, groups   *op.Tensor
	y, extent               *op.Tensor
	rows, width, parts      int64 // width is the number of columns of x
	dynamic                 bool
	gate                    func(out, x kernel.View) error
}

func dequantGate(c *op.Call) (op.Run, error) {
	d := &dequantising{
		Call: c, x: c.Tensor("x"), columns: c.Optional("weightScaleOptional"), lines: c.Optional("activationScaleOptional"), bias: c.Optional("biasOptional"),
		scale: c.Optional("quantScaleOptional"), offset: c.Optional("quantOffsetOptional"), groups: c.Optional("groupIndexOptional"),
		y: c.Tensor("yOut"), extent: c.Tensor("scaleOut"), parts: 1,
	}
	d.modes()
	c.Plain(d.x, d.y)
	c.DType(d.x, dtype.Float16, dtype.BFloat16, dtype.Int32)
	c.DType(d.y, dtype.Int8)
	c.Rank(d.x, 2, kernel.MaxRank)
	if c.Err() != nil {
		return nil, c.Err()
	}
	last := d.x.Rank() - 1
	d.width, d.rows = d.x.Dim(-1), op.Count(d.x.Shape[:last])
	c.Shape(d.y, op.Halved(c, d.x, last), "x with half its last dimension")
	d.parameters(last)
	for _, t := range []*op.Tensor{d.x, d.columns, d.lines, d.bias, d.scale, d.offset, d.y, d.extent} {
		if t != nil && !t.Contiguous() {
			c.Invalid("%v must be contiguous", t)
		}
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error { return d.run() }, nil
}

// modes reads the kind of gated unit and of quantisation.
func (d *dequantising) modes() {
	switch mode := d.Text("quantModeOptional"); mode {
	case "dynamic":
		d.dynamic = true
	case "", "static":
	default:
		d.Invalid("quantModeOptional %q is not supported; use static or dynamic", mode)
	}
	left := d.Bool("activateLeft")
	plain := rowwise.SwishGate
	plain.Left = left
	d.gate = func(out, x kernel.View) error { return plain.Forward(out, kernel.View{}, x, 1) }
	if !d.Has("swigluMode") {
		return
	}
	if d.Int("dstType") != int64(dtype.Int8) {
		d.Invalid("dstType is %v; only int8 (2) is supported", dtype.Type(d.Int("dstType")))
	}
	if mode := d.Text("roundModeOptional"); mode != "" && mode != "rint" {
		d.Invalid("roundModeOptional is %q; int8 results are rounded by rint", mode)
	}
	if axis := d.Axis(d.x, d.Int("activateDim")); d.x.Rank() > 0 && axis != d.x.Rank()-1 {
		d.Invalid("activateDim is %d; only the last dimension is supported", d.Int("activateDim"))
	}
	switch mode := d.Int("swigluMode"); mode {
	case 0:
	case 1, 2:
		if mode == 1 && !left {
			d.Invalid("swigluMode 1 activates the even elements; activateLeft must be true")
		}
		limit := d.Float("clampLimit")
		if limit <= 0 || math.IsNaN(limit) {
			d.Invalid("clampLimit is %g; it must be above 0", limit)
		}
		clipped := rowwise.ClippedGate{Alpha: d.Float("gluAlpha"), Limit: limit, Bias: d.Float("gluBias"), Interleaved: mode == 1}
		d.gate = func(out, x kernel.View) error { return clipped.Forward(out, x, kernel.View{}) }
	default:
		d.Invalid("swigluMode is %d; 0 is SwiGLU, 1 and 2 clamp, of even and odd elements or of halves", mode)
	}
}

// parameters checks the scales, the biases and the groups.
func (d *dequantising) parameters(last int) {
	if d.groups != nil {
		d.DType(d.groups, op.IndexTypes...)
		d.Rank(d.groups, 1, 1)
		d.parts = max(d.groups.Len(), 1)
	}
	if d.x.DType == dtype.Int32 && d.columns == nil {
		d.Fail(op.NullPointer, "weightScaleOptional is null; int32 sums need it")
	}
	for _, p := range []struct {
		t     *op.Tensor
		types []dtype.Type
	}{{d.columns, []dtype.Type{dtype.Float32}}, {d.lines, []dtype.Type{dtype.Float32}}, {d.bias, []dtype.Type{dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Int32}}} {
		switch {
		case p.t == nil:
		case d.x.DType != dtype.Int32:
			d.Invalid("%v is for int32 sums, but x is %v; pass null", p.t, d.x)
		default:
			d.Plain(p.t)
			d.DType(p.t, p.types...)
			if p.t == d.lines {
				if d.lines.Len() != d.rows {
					d.Invalid("%v must have one for each of %d rows", d.lines, d.rows)
				}
			} else if p.t.Len() != d.parts*d.width {
				d.Invalid("%v must be [%d,%d], for each group and column of x", p.t, d.parts, d.width)
			}
		}
	}
	if !d.dynamic && (d.scale == nil || d.offset == nil) {
		d.Fail(op.NullPointer, "quantScaleOptional or quantOffsetOptional is null; a static quantisation needs both")
	}
	if d.dynamic {
		d.DType(d.extent, dtype.Float32)
		d.Shape(d.extent, d.x.Shape[:last], "one for each row of x")
		if d.offset != nil {
			d.Invalid("%v: a dynamic quantisation has no offsets; pass null", d.offset)
		}
	}
	for _, t := range []*op.Tensor{d.scale, d.offset} {
		if t != nil {
			d.Plain(t)
			d.DType(t, dtype.Float32)
			if n := t.Len(); n != d.parts && n != d.parts*d.width/2 {
				d.Invalid("%v must be [%d] or [%d,%d], for each group", t, d.parts, d.parts, d.width/2)
			}
		}
	}
}

// numbers dequantises rows [first, first+n) of group g to out.
func (d *dequantising) numbers(out kernel.View, g int, first, n int64) error {
	x := d.x.As([]int64{d.rows, d.width}, []int64{d.width, 1}).Narrow(0, first, n)
	if d.x.DType != dtype.Int32 {
		return elementwise.Copy(out, x)
	}
	step := func(op elementwise.Op, a, b kernel.View, params ...elementwise.Number) error {
		return elementwise.Map(op, dtype.Float32, out, []elementwise.Input{elementwise.Of(a), elementwise.Of(b)}, params...)
	}
	whole := d.bias != nil && d.bias.DType == dtype.Int32
	if whole {
		sums, release := kernel.TemporaryInt64(n, d.width)
		defer release()
		if err := elementwise.Map(elementwise.Add, dtype.Int64, sums, []elementwise.Input{elementwise.Of(x), elementwise.Of(ofGroup(d.bias, d.parts, g))}, elementwise.Whole(1)); err != nil {
			return err
		}
		x = sums
	}
	if err := step(elementwise.Mul, x, ofGroup(d.columns, d.parts, g)); err != nil {
		return err
	}
	if d.lines != nil {
		if err := step(elementwise.Mul, out, d.lines.As([]int64{d.rows, 1}, []int64{1, 1}).Narrow(0, first, n)); err != nil {
			return err
		}
	}
	if d.bias == nil || whole {
		return nil
	}
	return step(elementwise.Add, out, ofGroup(d.bias, d.parts, g), elementwise.Real(1))
}

func (d *dequantising) run() error {
	if d.y.Len() == 0 {
		return nil
	}
	ends, err := op.GroupEnds(d.groups, d.rows, true)
	if err != nil {
		return err
	}
	shape := []int64{d.rows, d.width / 2}
	y := d.y.As(shape, op.ContiguousStrides(shape))
	return op.EachGroup(ends, func(g int, first, n int64) error {
		t, release := kernel.Temporary(n, d.width)
		defer release()
		if err := d.numbers(t, g, first, n); err != nil {
			return err
		}
		act, releaseAct := kernel.Temporary(slices.Concat([]int64{n}, shape[1:])...)
		defer releaseAct()
		if err := d.gate(act, t); err != nil {
			return err
		}
		into := y.Narrow(0, first, n)
		if !d.dynamic {
			return gemm.Quantizer{Factor: ofGroup(d.scale, d.parts, g), Offset: ofGroup(d.offset, d.parts, g), Divide: true, Round: elementwise.Round}.Quantize(into, act)
		}
		extent := d.extent.As([]int64{d.rows}, []int64{1}).Narrow(0, first, n)
		return gemm.DynamicQuantizer{Smooth: ofGroup(d.scale, d.parts, g)}.Quantize(into, extent, act)
	})
}

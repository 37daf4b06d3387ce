package gemm

import (
	"cmp"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
)

// Quantizer computes round(x · factor + offset), or with Divide round(x / factor + offset),
// saturated to the integer type of the output.
type Quantizer struct {
	Factor kernel.View
	Offset kernel.View // may lack data
	Divide bool
	Root   bool // apply the factor twice
	Round  elementwise.Op
}

// Quantize sets out, of an integer type, to the quantised x. Factor and Offset broadcast to x.
func (q Quantizer) Quantize(out, x kernel.View) error {
	c := rowwise.NewChain(x)
	t := c.Temp(x.Shape)
	op := elementwise.Mul
	if q.Divide {
		op = elementwise.Div
	}
	c.Set(t, op, nil, elementwise.Of(x), elementwise.Of(q.Factor))
	if q.Root {
		c.Set(t, op, nil, elementwise.Of(t), elementwise.Of(q.Factor))
	}
	if q.Offset.Data != nil {
		c.Set(t, elementwise.Add, []elementwise.Number{elementwise.Real(1)}, elementwise.Of(t), elementwise.Of(q.Offset))
	}
	c.Set(out, q.Round, nil, elementwise.Of(t))
	return c.End()
}

// Dequantize sets out to (x + offset) · factor; offset may lack data. With root the factor
// applies twice.
func Dequantize(out, x, factor, offset kernel.View, root bool) error {
	c := rowwise.NewChain(out)
	t := c.Temp(out.Shape)
	if offset.Data != nil {
		c.Set(t, elementwise.Add, []elementwise.Number{elementwise.Real(1)}, elementwise.Of(x), elementwise.Of(offset))
	} else {
		c.Set(t, elementwise.Identity, nil, elementwise.Of(x))
	}
	c.Mul(t, t, factor)
	if root {
		c.Mul(t, t, factor)
	}
	c.Set(out, elementwise.Identity, nil, elementwise.Of(t))
	return c.End()
}

// Range of the int8 elements that quantisation produces.
const lowestInt8, highestInt8 = -128, 127

// DynamicQuantizer quantises each row, or the whole tensor, with a scale computed from its
// largest and smallest elements.
type DynamicQuantizer struct {
	Smooth kernel.View // factors along the last dimension, one row per group; may have no data
	Ends   []int64     // end row of each group; nil for one group
	Whole  bool        // one scale for the tensor
	Most   float64     // the largest element: the integers range from -Most-1 to Most; 127 if 0
	// Offset gets the zero point in asymmetric mode. Without data the mode is symmetric.
	Offset kernel.View
}

// Quantize sets out (int8) to the quantised elements of x. scale (float32, one element per row,
// or a single one with Whole) gets the factor that dequantises them.
func (q DynamicQuantizer) Quantize(out, scale, x kernel.View) error {
	c := rowwise.NewChain(x)
	last := len(x.Shape) - 1
	t := c.Temp(x.Shape)
	c.Set(t, elementwise.Identity, nil, elementwise.Of(x))
	if q.Smooth.Data != nil {
		q.smooth(c, t)
	}
	axes := []int{last}
	if q.Whole {
		axes = kernel.AxesFrom(0, len(x.Shape))
	}
	shape := kernel.Others(x.Shape, axes)
	wide, most, least := c.Temp(shape), c.Temp(shape), c.Temp(shape)
	c.Reduce(rowwise.ReduceMax, most, t, axes, 0)
	c.Reduce(rowwise.ReduceMin, least, t, axes, 0)
	symmetric := q.Offset.Data == nil
	highest := cmp.Or(q.Most, highestInt8)
	if symmetric {
		c.Set(least, elementwise.Neg, nil, elementwise.Of(least))
		c.Set(wide, elementwise.Max, nil, elementwise.Of(most), elementwise.Of(least))
		c.Set(wide, elementwise.Div, nil, elementwise.Of(wide), elementwise.Const(elementwise.Real(highest)))
	} else {
		c.Sub(wide, most, least)
		c.Set(wide, elementwise.Div, nil, elementwise.Of(wide), elementwise.Const(elementwise.Real(2*highest+1)))
	}
	if scale.Data != nil {
		c.Set(kernel.View{Data: scale.Data, DType: scale.DType, Shape: shape, Strides: scale.Strides[:len(shape)]}, elementwise.Identity, nil, elementwise.Of(wide))
	}
	// A row of zero range stores the scale 0, and is quantised to its offset rather than NaN.
	c.Set(wide, elementwise.Max, nil, elementwise.Of(wide), elementwise.Const(elementwise.Real(1e-30)))
	c.Set(t, elementwise.Div, nil, elementwise.Of(t), elementwise.Of(kernel.Kept(wide, len(x.Shape), axes)))
	if !symmetric {
		c.Set(most, elementwise.Div, nil, elementwise.Of(most), elementwise.Of(wide))
		c.Set(most, elementwise.ReverseSub, []elementwise.Number{elementwise.Real(1)}, elementwise.Of(most), elementwise.Const(elementwise.Real(highest)))
		c.Set(kernel.View{Data: q.Offset.Data, DType: q.Offset.DType, Shape: shape, Strides: q.Offset.Strides[:len(shape)]}, elementwise.Identity, nil, elementwise.Of(most))
		c.Set(t, elementwise.Add, []elementwise.Number{elementwise.Real(1)}, elementwise.Of(t), elementwise.Of(kernel.Kept(most, len(x.Shape), axes)))
	}
	c.Set(out, elementwise.Round, nil, elementwise.Of(t))
	return c.End()
}

// smooth multiplies the rows of a contiguous tensor by their group's factors.
func (q DynamicQuantizer) smooth(c *rowwise.Chain, t kernel.View) {
	if q.Ends == nil {
		c.Mul(t, t, q.Smooth)
		return
	}
	n := t.Shape[len(t.Shape)-1]
	rows := kernel.View{Data: t.Data, DType: t.DType, Shape: []int64{t.Len() / max(n, 1), n}, Strides: []int64{n, 1}}
	first := int64(0)
	for i, end := range q.Ends {
		part := rows.Narrow(0, first, end-first)
		c.Mul(part, part, q.Smooth.Select(0, int64(i)))
		first = end
	}
}

// QuantProduct is a product of integer matrices with scaled sums:
// (A·B + Bias) · Scale · Rows + Offset for an int32 Bias, A·B · Scale · Rows + Bias + Offset for
// a floating-point Bias. Scale, Rows, Bias and Offset broadcast to Out and may have no data. An
// int8 result is rounded and saturated.
type QuantProduct struct {
	Out, A, B                 kernel.View
	Scale, Rows, Bias, Offset kernel.View
	NZ                        int64 // as in Product
	// Most is an upper bound of the product of two elements of A and B; 0 means that of int8.
	Most int64
}

// Run computes Out.
func (p QuantProduct) Run() error {
	c := rowwise.NewChain()
	sums, release := kernel.TemporaryOf(dtype.Int32, p.Out.Shape...)
	defer release()
	if err := p.sum(sums); err != nil {
		return err
	}
	whole := p.Bias.Data != nil && p.Bias.DType == dtype.Int32
	if whole {
		if err := elementwise.Map(elementwise.Add, dtype.Int32, sums, []elementwise.Input{elementwise.Of(sums), elementwise.Of(p.Bias)}, elementwise.Whole(1)); err != nil {
			return err
		}
	}
	if p.Out.DType == dtype.Int32 {
		return elementwise.Copy(p.Out, sums)
	}
	t := c.Temp(p.Out.Shape)
	c.Set(t, elementwise.Identity, nil, elementwise.Of(sums))
	for _, factor := range []kernel.View{p.Scale, p.Rows} {
		if factor.Data != nil {
			c.Mul(t, t, factor)
		}
	}
	for i, term := range []kernel.View{p.Bias, p.Offset} {
		if term.Data != nil && (i > 0 || !whole) {
			c.Set(t, elementwise.Add, []elementwise.Number{elementwise.Real(1)}, elementwise.Of(t), elementwise.Of(term))
		}
	}
	op := elementwise.Identity
	if p.Out.DType == dtype.Int8 {
		op = elementwise.Round
	}
	c.Set(p.Out, op, nil, elementwise.Of(t))
	return c.End()
}

// sum computes the integer product A·B.
func (p QuantProduct) sum(sums kernel.View) error {
	most, k := p.Most, p.A.Shape[len(p.A.Shape)-1]
	if most == 0 {
		most = lowestInt8 * lowestInt8
	}
	// Sums up to 2^24 are exact in float32, which multiplies faster than integers. The conversion
	// does not pay off for few rows.
	if k*most > 1<<24 || p.NZ > 0 || min(p.Out.Shape[len(p.Out.Shape)-2], p.Out.Shape[len(p.Out.Shape)-1]) < 16 {
		return Gemm(Product{Out: sums, A: p.A, B: p.B, Alpha: 1, NZ: p.NZ})
	}
	a, releaseA, err := widened(p.A)
	defer releaseA()
	if err != nil {
		return err
	}
	b, releaseB, err := widened(p.B)
	defer releaseB()
	if err != nil {
		return err
	}
	t, release := kernel.TemporaryOf(dtype.Float32, p.Out.Shape...)
	defer release()
	if err := Gemm(Product{Out: t, A: a, B: b, Alpha: 1}); err != nil {
		return err
	}
	return elementwise.Copy(sums, t)
}

// widened converts int8 matrices to bfloat16, which represents every int8 exactly.
func widened(v kernel.View) (kernel.View, func(), error) {
	once := kernel.View{DType: v.DType, Data: v.Data, Shape: slices.Clone(v.Shape), Strides: v.Strides}
	for i, s := range v.Strides {
		if s == 0 {
			once.Shape[i] = min(once.Shape[i], 1) // read repeated matrices only once
		}
	}
	n := len(v.Shape)
	down := v.Strides[n-2] == 1 && v.Strides[n-1] != 1
	swap := func(x kernel.View) kernel.View {
		if down { // keep the columns contiguous
			x.Shape, x.Strides = slices.Clone(x.Shape), slices.Clone(x.Strides)
			x.Shape[n-2], x.Shape[n-1] = x.Shape[n-1], x.Shape[n-2]
			x.Strides[n-2], x.Strides[n-1] = x.Strides[n-1], x.Strides[n-2]
		}
		return x
	}
	from := swap(once)
	t, release := kernel.TemporaryOf(dtype.BFloat16, from.Shape...)
	if err := elementwise.Copy(t, from); err != nil {
		return t, release, err
	}
	wide, err := swap(t).Broadcast(v.Shape)
	return wide, release, err
}

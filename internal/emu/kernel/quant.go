package kernel

import (
	"cmp"
	"slices"

	"github.com/goascend/cann/internal/dtype"
)

// Quantizer computes round(x · factor + offset), or with Divide round(x / factor + offset),
// saturated to the integer type of the output.
type Quantizer struct {
	Factor View
	Offset View // may lack data
	Divide bool
	Root   bool // apply the factor twice
	Round  Op
}

// Quantize sets out, of an integer type, to the quantised x. Factor and Offset broadcast to x.
func (q Quantizer) Quantize(out, x View) error {
	c := newChain(x)
	t := c.temp(x.Shape)
	op := Mul
	if q.Divide {
		op = Div
	}
	c.set(t, op, nil, Of(x), Of(q.Factor))
	if q.Root {
		c.set(t, op, nil, Of(t), Of(q.Factor))
	}
	if q.Offset.Data != nil {
		c.set(t, Add, []Number{Real(1)}, Of(t), Of(q.Offset))
	}
	c.set(out, q.Round, nil, Of(t))
	return c.end()
}

// Dequantize sets out to (x + offset) · factor; offset may lack data. With root the factor
// applies twice.
func Dequantize(out, x, factor, offset View, root bool) error {
	c := newChain(out)
	t := c.temp(out.Shape)
	if offset.Data != nil {
		c.set(t, Add, []Number{Real(1)}, Of(x), Of(offset))
	} else {
		c.set(t, Identity, nil, Of(x))
	}
	c.mul(t, t, factor)
	if root {
		c.mul(t, t, factor)
	}
	c.set(out, Identity, nil, Of(t))
	return c.end()
}

// Range of the int8 elements that quantisation produces.
const lowestInt8, highestInt8 = -128, 127

// DynamicQuantizer quantises each row, or the whole tensor, with a scale computed from its
// largest and smallest elements.
type DynamicQuantizer struct {
	Smooth View    // factors along the last dimension, one row per group; may have no data
	Ends   []int64 // end row of each group; nil for one group
	Whole  bool    // one scale for the tensor
	Most   float64 // the largest element: the integers range from -Most-1 to Most; 127 if 0
	// Offset gets the zero point in asymmetric mode. Without data the mode is symmetric.
	Offset View
}

// Quantize sets out (int8) to the quantised elements of x. scale (float32, one element per row,
// or a single one with Whole) gets the factor that dequantises them.
func (q DynamicQuantizer) Quantize(out, scale, x View) error {
	c := newChain(x)
	last := len(x.Shape) - 1
	t := c.temp(x.Shape)
	c.set(t, Identity, nil, Of(x))
	if q.Smooth.Data != nil {
		q.smooth(c, t)
	}
	axes := []int{last}
	if q.Whole {
		axes = axesFrom(0, len(x.Shape))
	}
	shape := others(x.Shape, axes)
	wide, most, least := c.temp(shape), c.temp(shape), c.temp(shape)
	c.reduce(ReduceMax, most, t, axes, 0)
	c.reduce(ReduceMin, least, t, axes, 0)
	symmetric := q.Offset.Data == nil
	highest := cmp.Or(q.Most, highestInt8)
	if symmetric {
		c.set(least, Neg, nil, Of(least))
		c.set(wide, Max, nil, Of(most), Of(least))
		c.set(wide, Div, nil, Of(wide), Const(Real(highest)))
	} else {
		c.sub(wide, most, least)
		c.set(wide, Div, nil, Of(wide), Const(Real(2*highest+1)))
	}
	if scale.Data != nil {
		c.set(View{Data: scale.Data, DType: scale.DType, Shape: shape, Strides: scale.Strides[:len(shape)]}, Identity, nil, Of(wide))
	}
	// A row of zero range stores the scale 0, and is quantised to its offset rather than NaN.
	c.set(wide, Max, nil, Of(wide), Const(Real(1e-30)))
	c.set(t, Div, nil, Of(t), Of(kept(wide, len(x.Shape), axes)))
	if !symmetric {
		c.set(most, Div, nil, Of(most), Of(wide))
		c.set(most, ReverseSub, []Number{Real(1)}, Of(most), Const(Real(highest)))
		c.set(View{Data: q.Offset.Data, DType: q.Offset.DType, Shape: shape, Strides: q.Offset.Strides[:len(shape)]}, Identity, nil, Of(most))
		c.set(t, Add, []Number{Real(1)}, Of(t), Of(kept(most, len(x.Shape), axes)))
	}
	c.set(out, Round, nil, Of(t))
	return c.end()
}

// smooth multiplies the rows of a contiguous tensor by their group's factors.
func (q DynamicQuantizer) smooth(c *chain, t View) {
	if q.Ends == nil {
		c.mul(t, t, q.Smooth)
		return
	}
	n := t.Shape[len(t.Shape)-1]
	rows := View{Data: t.Data, DType: t.DType, Shape: []int64{t.Len() / max(n, 1), n}, Strides: []int64{n, 1}}
	first := int64(0)
	for i, end := range q.Ends {
		part := rows.Narrow(0, first, end-first)
		c.mul(part, part, q.Smooth.Select(0, int64(i)))
		first = end
	}
}

// QuantProduct is a product of integer matrices with scaled sums:
// (A·B + Bias) · Scale · Rows + Offset for an int32 Bias, A·B · Scale · Rows + Bias + Offset for
// a floating-point Bias. Scale, Rows, Bias and Offset broadcast to Out and may have no data. An
// int8 result is rounded and saturated.
type QuantProduct struct {
	Out, A, B                 View
	Scale, Rows, Bias, Offset View
	NZ                        int64 // as in Product
	// Most is an upper bound of the product of two elements of A and B; 0 means that of int8.
	Most int64
}

// Run computes Out.
func (p QuantProduct) Run() error {
	c := newChain()
	sums, release := temporary(dtype.Int32, p.Out.Shape)
	defer release()
	if err := p.sum(sums); err != nil {
		return err
	}
	whole := p.Bias.Data != nil && p.Bias.DType == dtype.Int32
	if whole {
		if err := Map(Add, dtype.Int32, sums, []Input{Of(sums), Of(p.Bias)}, Whole(1)); err != nil {
			return err
		}
	}
	if p.Out.DType == dtype.Int32 {
		return Copy(p.Out, sums)
	}
	t := c.temp(p.Out.Shape)
	c.set(t, Identity, nil, Of(sums))
	for _, factor := range []View{p.Scale, p.Rows} {
		if factor.Data != nil {
			c.mul(t, t, factor)
		}
	}
	for i, term := range []View{p.Bias, p.Offset} {
		if term.Data != nil && (i > 0 || !whole) {
			c.set(t, Add, []Number{Real(1)}, Of(t), Of(term))
		}
	}
	op := Identity
	if p.Out.DType == dtype.Int8 {
		op = Round
	}
	c.set(p.Out, op, nil, Of(t))
	return c.end()
}

// sum computes the integer product A·B.
func (p QuantProduct) sum(sums View) error {
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
	t, release := temporary(dtype.Float32, p.Out.Shape)
	defer release()
	if err := Gemm(Product{Out: t, A: a, B: b, Alpha: 1}); err != nil {
		return err
	}
	return Copy(sums, t)
}

// widened converts int8 matrices to bfloat16, which represents every int8 exactly.
func widened(v View) (View, func(), error) {
	once := View{DType: v.DType, Data: v.Data, Shape: slices.Clone(v.Shape), Strides: v.Strides}
	for i, s := range v.Strides {
		if s == 0 {
			once.Shape[i] = min(once.Shape[i], 1) // read repeated matrices only once
		}
	}
	n := len(v.Shape)
	down := v.Strides[n-2] == 1 && v.Strides[n-1] != 1
	swap := func(x View) View {
		if down { // keep the columns contiguous
			x.Shape, x.Strides = slices.Clone(x.Shape), slices.Clone(x.Strides)
			x.Shape[n-2], x.Shape[n-1] = x.Shape[n-1], x.Shape[n-2]
			x.Strides[n-2], x.Strides[n-1] = x.Strides[n-1], x.Strides[n-2]
		}
		return x
	}
	from := swap(once)
	t, release := temporary(dtype.BFloat16, from.Shape)
	if err := Copy(t, from); err != nil {
		return t, release, err
	}
	wide, err := swap(t).Broadcast(v.Shape)
	return wide, release, err
}

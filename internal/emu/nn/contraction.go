package nn

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// contractions are products of tensors whose dimensions stand in another order than those
// of matrices.
var contractions = table{
	"Einsum": einsum, "TransposeBatchMatMul": transposedProduct, "TransposeBatchMatMulWeightNz": transposedProduct,
}

// einsumTypes are what the emulator multiplies of the device's types: it has no products of
// unsigned integers of more than eight bits.
var einsumTypes = []dtype.Type{dtype.Float32, dtype.Float16, dtype.Int16, dtype.Int32, dtype.Int64}

// einsum knows the two equations that the device knows: products of the rows of a matrix
// with matrices, and the outer product of vectors.
func einsum(c *Call) (Run, error) {
	tensors, out, equation := c.Tensors("tensors"), c.Tensor("output"), c.RequiredText("equation")
	if len(tensors) != 2 {
		c.Invalid("tensors has %d members; an equation has two terms", len(tensors))
		return nil, c.Err()
	}
	a, b := tensors[0], tensors[1]
	c.SameDType(a, b, out)
	p := product{out: out, alpha: 1, types: einsumTypes}
	switch equation {
	case "a,b->ab":
		c.Rank(a, 1, 1)
		c.Rank(b, 1, 1)
		if c.Err() == nil {
			p.a, p.b = columnOf(a), rowOf(b)
		}
	case "abcd,abced->abce":
		c.Rank(a, 4, 4)
		c.Rank(b, 5, 5)
		if c.Err() != nil {
			break
		}
		if !slices.Equal(a.Shape[:3], b.Shape[:3]) {
			c.Invalid("%v and %v must have the same first three dimensions", a, b)
		}
		p.a, p.b = left(a), right(b)
		p.a.shape, p.a.strides = slices.Insert(slices.Clone(a.Shape), 3, 1), slices.Insert(slices.Clone(a.Strides), 3, 0)
		p.b.transpose()
		c.Shape(out, b.Shape[:4], "abce of the equation")
		p.out = out.rearranged(0, 1, 2, 3)
		p.out.Shape, p.out.Strides = slices.Insert(p.out.Shape, 3, 1), slices.Insert(p.out.Strides, 3, 0)
	default:
		c.Invalid("equation %q is unknown; use \"abcd,abced->abce\" or \"a,b->ab\"", equation)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	if a.Len() == 0 || b.Len() == 0 {
		c.Invalid("%v and %v must not be empty", a, b)
	}
	return c.product(p)
}

// rearranged is t itself with its dimensions in another order. The call owns its copy of the
// tensor, so it may be changed.
func (t *Tensor) rearranged(order ...int64) *Tensor {
	shape, strides := make([]int64, len(order)), make([]int64, len(order))
	for i, o := range order {
		shape[i], strides[i] = t.Shape[o], t.Strides[o]
	}
	t.Shape, t.Strides = shape, strides
	return t
}

// transposedProduct multiplies a batch of matrices given in one of two orders each, and
// writes rows before the batch: [M, B, N], or in parts of the batch [parts, M, B/parts·N].
// With a scale for every column of each matrix the float16 product becomes int8 rows of
// [M, 1, B·N].
func transposedProduct(c *Call) (Run, error) {
	x1, x2, out, scale := c.Tensor("x1"), c.Tensor("x2"), c.Tensor("out"), c.Optional("scale")
	parts := c.Int("batchSplitFactor")
	if t := c.Optional("bias"); t != nil {
		c.Invalid("%v is given; the operator has no bias yet, pass null", t)
	}
	c.cubeMathType()
	for _, t := range []*Tensor{x1, x2, out} {
		c.Rank(t, 3, 3)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	if c.op.name == "TransposeBatchMatMulWeightNz" {
		c.weightNz("x2")
	}
	perm := func(name string, allowed ...[]int64) []int64 {
		p := c.Ints(name)
		if !slices.ContainsFunc(allowed, func(a []int64) bool { return slices.Equal(a, p) }) {
			c.Invalid("%s is %s; use one of %v", name, dims(p), allowed)
		}
		return p
	}
	straight, turned, batchSecond := []int64{0, 1, 2}, []int64{0, 2, 1}, []int64{1, 0, 2}
	p1, p2 := perm("permX1", straight, batchSecond), perm("permX2", straight, turned)
	perm("permY", batchSecond)
	if c.Err() != nil {
		return nil, c.Err()
	}
	p := product{a: left(x1.rearranged(p1...)), b: right(x2), alpha: 1, types: cubeTypes}
	if slices.Equal(p2, turned) {
		p.b.transpose()
	}
	batch, m, n := x1.Shape[0], p.a.rows(), p.b.cols()
	if p.b.shape[0] != batch {
		c.Invalid("%v and %v have batches of %d and %d; they must be equal", x1, x2, batch, p.b.shape[0])
	}
	if parts < 1 || batch%max(parts, 1) != 0 || scale != nil && parts != 1 {
		c.Invalid("batchSplitFactor is %d; it must divide the batch of %d, and be 1 with a scale", parts, batch)
		return nil, c.Err()
	}
	each := batch / parts
	switch {
	case scale != nil:
		c.Shape(out, []int64{m, 1, batch * n}, "[M, 1, B·N] with a scale")
	case parts > 1:
		c.Shape(out, []int64{parts, m, each * n}, "[parts, M, B/parts·N]")
	default:
		c.Shape(out, []int64{m, batch, n}, "[M, B, N]")
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	s := out.Strides
	switch {
	case scale != nil:
		out.Shape, out.Strides = []int64{batch, m, n}, []int64{n * s[2], s[0], s[2]}
		return c.quantised(p, out, scale)
	case parts > 1:
		out.Shape, out.Strides = []int64{parts, each, m, n}, []int64{s[0], n * s[2], s[1], s[2]}
		p.a, p.b = p.a.parted(parts), p.b.parted(parts)
	default:
		out.rearranged(1, 0, 2)
	}
	p.out = out
	return c.product(p)
}

// parted is a factor whose batch of one dimension is seen as parts of equal size.
func (f factor) parted(parts int64) factor {
	each := f.shape[0] / parts
	f.shape = slices.Concat([]int64{parts, each}, f.shape[1:])
	f.strides = slices.Concat([]int64{each * f.strides[0], f.strides[0]}, f.strides[1:])
	return f
}

// quantised is the Run of a product whose float sums are scaled by column and rounded to
// int8. Scales are as TransQuantParamV2 packs them.
func (c *Call) quantised(p product, out, scale *Tensor) (Run, error) {
	batch, n := out.Shape[0], out.Shape[2]
	for _, t := range []*Tensor{p.a.t, p.b.t} {
		c.DType(t, dtype.Float16)
	}
	c.DType(out, dtype.Int8)
	c.DType(scale, dtype.Uint64, dtype.Int64)
	c.Shape(scale, []int64{batch * n}, "one scale for each column of each matrix")
	sums := &Tensor{DType: dtype.Float32, Format: dtype.ND, Shape: slices.Clone(out.Shape), Strides: ContiguousStrides(out.Shape)}
	p.out = sums
	multiply, err := c.product(p)
	if err != nil {
		return nil, err
	}
	c.Workspace(4 * sums.Len())
	return func(x *Exec) error {
		if out.Len() == 0 {
			return nil
		}
		sums.host = x.Workspace()
		if err := multiply(x); err != nil {
			return err
		}
		factor := scaleView(scale.View())
		factor.Shape, factor.Strides = []int64{batch, 1, n}, []int64{n * factor.Strides[0], 0, factor.Strides[0]}
		return kernel.Quantizer{Factor: factor, Round: kernel.Round}.Quantize(out.View(), sums.View())
	}, nil
}

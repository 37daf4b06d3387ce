package matmul

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	gemmkernel "github.com/goascend/cann/internal/emu/kernel/gemm"
	"github.com/goascend/cann/internal/emu/op"
)

// contractions lists the products of tensors whose dimensions are not in the order of batched
// matrices.
var contractions = op.Table{
	"Einsum": einsum, "TransposeBatchMatMul": transposedProduct, "TransposeBatchMatMulWeightNz": transposedProduct,
}

// signed maps the unsigned integers to those with a sign, whose products have the same bits.
var signed = map[dtype.Type]dtype.Type{dtype.Uint16: dtype.Int16, dtype.Uint32: dtype.Int32, dtype.Uint64: dtype.Int64}

// einsumTypes are the device's element types but for the unsigned integers.
var einsumTypes = []dtype.Type{dtype.Float32, dtype.Float16, dtype.Int16, dtype.Int32, dtype.Int64}

// einsum supports the two equations that the device supports: products of the rows of a matrix
// with matrices, and the outer product of vectors.
func einsum(c *op.Call) (op.Run, error) {
	tensors, out, equation := c.Tensors("tensors"), c.Tensor("output"), c.RequiredText("equation")
	if len(tensors) != 2 {
		c.Invalid("tensors has %d members; an equation has two terms", len(tensors))
		return nil, c.Err()
	}
	a, b := tensors[0], tensors[1]
	c.SameDType(a, b, out)
	if d, ok := signed[out.DType]; ok && c.Err() == nil {
		a.DType, b.DType, out.DType = d, d, d // the call has its own descriptors
	}
	p := Product{Out: out, Alpha: 1, Types: einsumTypes}
	switch equation {
	case "a,b->ab":
		c.Rank(a, 1, 1)
		c.Rank(b, 1, 1)
		if c.Err() == nil {
			p.A, p.B = columnOf(a), rowOf(b)
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
		p.A, p.B = Left(a), Right(b)
		p.A.shape, p.A.strides = slices.Insert(slices.Clone(a.Shape), 3, 1), slices.Insert(slices.Clone(a.Strides), 3, 0)
		p.B.transpose()
		c.Shape(out, b.Shape[:4], "abce of the equation")
		p.Out = rearranged(out, 0, 1, 2, 3)
		p.Out.Shape, p.Out.Strides = slices.Insert(p.Out.Shape, 3, 1), slices.Insert(p.Out.Strides, 3, 0)
	default:
		c.Invalid("equation %q is unknown; use \"abcd,abced->abce\" or \"a,b->ab\"", equation)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	if a.Len() == 0 || b.Len() == 0 {
		c.Invalid("%v and %v must not be empty", a, b)
	}
	return Multiply(c, p)
}

// rearranged permutes the dimensions of t in place. The call owns its copy of the tensor
// descriptor, so it may be changed.
func rearranged(t *op.Tensor, order ...int64) *op.Tensor {
	shape, strides := make([]int64, len(order)), make([]int64, len(order))
	for i, o := range order {
		shape[i], strides[i] = t.Shape[o], t.Strides[o]
	}
	t.Shape, t.Strides = shape, strides
	return t
}

// transposedProduct multiplies two batches of matrices, each in one of two dimension orders, and
// writes the rows before the batch: [M, B, N], or [parts, M, B/parts·N] when the batch is split.
// With a scale for every column of each matrix the float16 product is quantised to int8, as
// [M, 1, B·N].
func transposedProduct(c *op.Call) (op.Run, error) {
	x1, x2, out, scale := c.Tensor("x1"), c.Tensor("x2"), c.Tensor("out"), c.Optional("scale")
	parts := c.Int("batchSplitFactor")
	if t := c.Optional("bias"); t != nil {
		c.Invalid("%v is given; the operator has no bias yet, pass null", t)
	}
	c.CubeMathType()
	for _, t := range []*op.Tensor{x1, x2, out} {
		c.Rank(t, 3, 3)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	if c.Op.Name == "TransposeBatchMatMulWeightNz" {
		c.WeightNZ("x2")
	}
	perm := func(name string, allowed ...[]int64) []int64 {
		p := c.Ints(name)
		if !slices.ContainsFunc(allowed, func(a []int64) bool { return slices.Equal(a, p) }) {
			c.Invalid("%s is %s; use one of %v", name, op.Dims(p), allowed)
		}
		return p
	}
	straight, transposed, batchSecond := []int64{0, 1, 2}, []int64{0, 2, 1}, []int64{1, 0, 2}
	p1, p2 := perm("permX1", straight, batchSecond), perm("permX2", straight, transposed)
	perm("permY", batchSecond)
	if c.Err() != nil {
		return nil, c.Err()
	}
	p := Product{A: Left(rearranged(x1, p1...)), B: Right(x2), Alpha: 1, Types: op.FloatTypes}
	if slices.Equal(p2, transposed) {
		p.B.transpose()
	}
	batch, m, n := x1.Shape[0], p.A.rows(), p.B.cols()
	if p.B.shape[0] != batch {
		c.Invalid("%v and %v have batches of %d and %d; they must be equal", x1, x2, batch, p.B.shape[0])
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
		return newQuantised(c, p, out, scale)
	case parts > 1:
		out.Shape, out.Strides = []int64{parts, each, m, n}, []int64{s[0], n * s[2], s[1], s[2]}
		p.A, p.B = p.A.parted(parts), p.B.parted(parts)
	default:
		rearranged(out, 1, 0, 2)
	}
	p.Out = out
	return Multiply(c, p)
}

// parted splits the single batch dimension of a factor into parts of equal size.
func (f Factor) parted(parts int64) Factor {
	each := f.shape[0] / parts
	f.shape = slices.Concat([]int64{parts, each}, f.shape[1:])
	f.strides = slices.Concat([]int64{each * f.strides[0], f.strides[0]}, f.strides[1:])
	return f
}

// newQuantised returns the Run of a product whose float32 sums are scaled by column and rounded
// to int8. Scales have the format that TransQuantParamV2 writes.
func newQuantised(c *op.Call, p Product, out, scale *op.Tensor) (op.Run, error) {
	batch, n := out.Shape[0], out.Shape[2]
	for _, t := range []*op.Tensor{p.A.t, p.B.t} {
		c.DType(t, dtype.Float16)
	}
	c.DType(out, dtype.Int8)
	c.DType(scale, dtype.Uint64, dtype.Int64)
	c.Shape(scale, []int64{batch * n}, "one scale for each column of each matrix")
	sums := &op.Tensor{DType: dtype.Float32, Format: dtype.ND, Shape: slices.Clone(out.Shape), Strides: op.ContiguousStrides(out.Shape)}
	p.Out = sums
	multiply, err := Multiply(c, p)
	if err != nil {
		return nil, err
	}
	c.Workspace(4 * sums.Len())
	return func(x *op.Exec) error {
		if out.Len() == 0 {
			return nil
		}
		sums.Data = x.Workspace()
		if err := multiply(x); err != nil {
			return err
		}
		factor := scaleView(scale.View())
		factor.Shape, factor.Strides = []int64{batch, 1, n}, []int64{n * factor.Strides[0], 0, factor.Strides[0]}
		return gemmkernel.Quantizer{Factor: factor, Round: elementwise.Round}.Quantize(out.View(), sums.View())
	}, nil
}

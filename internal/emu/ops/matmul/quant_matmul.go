package matmul

import (
	"slices"
	"strings"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/fractal"
	gemmkernel "github.com/goascend/cann/internal/emu/kernel/gemm"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/op"
)

// quantOperand is a matrix of int8, of contiguous int4 elements, or of int32 elements that each
// hold eight int4 elements.
type quantOperand struct {
	t          *op.Tensor
	transposed bool
}

// shape returns the shape of the operand, transposed if requested.
func (o quantOperand) shape() []int64 {
	s := slices.Clone(o.t.Shape)
	if o.t.DType == dtype.Int32 {
		s[len(s)-1] *= 8
	}
	return o.arranged(s)
}

// arranged swaps the last two values if the operand is transposed.
func (o quantOperand) arranged(s []int64) []int64 {
	if n := len(s); o.transposed {
		s[n-1], s[n-2] = s[n-2], s[n-1]
	}
	return s
}

// view returns the operand as int8. release frees the temporary memory that widening int4 needs.
func (o quantOperand) view() (v kernel.View, release func(), err error) {
	v, release = o.t.View(), func() {}
	if o.t.DType != dtype.Int8 {
		shape, packed := o.arranged(o.shape()), o.t.Data
		v, release = kernel.TemporaryInt8(shape...)
		if op.IsNZ(o.t.Format) {
			plain, releasePlain := kernel.TemporaryInt8(op.Count(shape) / 2)
			defer releasePlain()
			packed = plain.Data
			tile := o.t.NZColumns()
			if o.t.DType == dtype.Int32 {
				tile *= 8
			}
			err = fractal.Unpack(kernel.View{Data: packed, DType: dtype.Int4, Shape: shape, Strides: op.ContiguousStrides(shape)}, o.t.Data, tile)
		}
		if err == nil {
			err = gemmkernel.UnpackInt4(v, packed)
		}
	}
	v.Shape, v.Strides = o.arranged(slices.Clone(v.Shape)), o.arranged(slices.Clone(v.Strides))
	return v, release, err
}

// most returns the largest magnitude of an element.
func (o quantOperand) most() int64 {
	if o.t.DType == dtype.Int8 {
		return 128
	}
	return 8
}

// tile returns the number of columns of a FRACTAL_NZ tile of the view, or 0 for other formats.
func (o quantOperand) tile() int64 {
	if o.t.DType != dtype.Int8 {
		return 0 // widening produces row-major order
	}
	return o.t.NZColumns()
}

// newQuantOperand checks one factor of a quantised product.
func newQuantOperand(c *op.Call, t *op.Tensor, transposed bool) quantOperand {
	c.DType(t, dtype.Int8, dtype.Int4, dtype.Int32)
	c.Rank(t, 2, 6)
	if t.DType != dtype.Int8 && (!t.Contiguous() || op.IsPrivate(t.Format) && !op.IsNZ(t.Format) || t.DType == dtype.Int4 && t.Rank() > 0 && t.Dim(-1)%2 != 0) {
		c.Invalid("%v must be contiguous, in ND format or FRACTAL_NZ, of an even number of columns: int4 elements share bytes", t)
	}
	return quantOperand{t, transposed}
}

// columns checks a per-column factor or term of the product: it has one element, or one per
// column.
func columns(c *op.Call, t *op.Tensor, n int64, types ...dtype.Type) {
	if t == nil {
		return
	}
	c.Plain(t)
	c.DType(t, types...)
	if t.Len() != 1 && (t.Len() != n || t.Rank() == 0 || t.Dim(-1) != n) {
		c.Invalid("%v must have one element or one for each of %d columns", t, n)
	}
}

// fusedWith returns the activation that the call applies to the product; ok is false if there is
// no activation.
func fusedWith(c *op.Call) (op elementwise.Op, ok bool) {
	if !c.Has("fusedOpType") {
		return elementwise.Identity, false
	}
	switch name := c.RequiredText("fusedOpType"); name {
	case "gelu_tanh":
		op = elementwise.GeluTanh
	case "gelu_erf":
		op = elementwise.Gelu
	default:
		c.Invalid("fusedOpType is %q; use gelu_tanh or gelu_erf", name)
	}
	return op, true
}

// QuantMatmul multiplies int8 matrices and scales the sums by column and, optionally, by row. V5
// does the same under other parameter names. The fused operators apply an activation to the
// scaled sums.
func QuantMatmul(c *op.Call) (op.Run, error) {
	if c.Op.Name == "QuantMatmulV5" && c.Int("groupSize") != 0 {
		return groupQuantMatmul(c)
	}
	x1, x2, out := c.Tensor("x1"), c.Tensor("x2"), c.Tensor("out")
	scaleName, rowsName, offsetName := scaleNames(c)
	activation, fused := fusedWith(c)
	scale, offset, bias, rows, shift := c.Tensor(scaleName), c.OptionalOf(offsetName, "x2OffsetOptional"), c.OptionalOf("bias", "biasOptional"), c.OptionalOf(rowsName), c.OptionalOf("yOffset")
	c.Plain(x1, out)
	checkQuantWeight(c, x2)
	if fused {
		rows = c.Tensor(rowsName)
		c.DType(out, dtype.Float16, dtype.BFloat16)
	}
	c.DType(out, dtype.Int8, dtype.Float16, dtype.BFloat16, dtype.Int32)
	left := newQuantOperand(c, x1, c.Flag("transposeX1", "adjX1"))
	right := newQuantOperand(c, x2, c.Flag("transposeX2", "adjX2"))
	if c.Err() != nil {
		return nil, c.Err()
	}
	m, k, n := left.shape()[x1.Rank()-2], left.shape()[x1.Rank()-1], right.shape()[x2.Rank()-1]
	batch, ok := op.BroadcastShape(x1.Shape[:x1.Rank()-2], x2.Shape[:x2.Rank()-2])
	if !ok || right.shape()[x2.Rank()-2] != k {
		c.Invalid("%v and %v cannot be multiplied", x1, x2)
		return nil, c.Err()
	}
	c.Shape(out, slices.Concat(batch, []int64{m, n}), "the product of x1 and x2")
	if padded := (n + 15) / 16 * 16; c.Has("deqScale") && scale.Rank() == 1 && scale.Len() == padded {
		scale.Shape = []int64{n} // TransQuantParam pads the scales to sixteen
	}
	columns(c, scale, n, dtype.Uint64, dtype.Int64, dtype.Float32, dtype.BFloat16)
	columns(c, offset, n, dtype.Float32)
	columns(c, bias, n, dtype.Int32, dtype.BFloat16, dtype.Float16, dtype.Float32)
	if rows != nil {
		c.DType(rows, dtype.Float32)
		c.Shape(rows, []int64{m}, "one for each row of x1")
	}
	if offset != nil && rows != nil {
		c.Invalid("%v and %v exclude each other", offset, rows)
	}
	mixed := checkShift(c, x1, x2, k, n, scale, bias, shift, rows, out)
	if !mixed && slices.Contains([]string{"QuantMatmulV3", "QuantMatmulV4", "QuantMatmulV5"}, c.Op.Name) {
		checkQuantTypes(c, x1, x2, scale, offset, bias, rows, out)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if out.Len() == 0 {
			return nil
		}
		a, release, err := left.view()
		defer release()
		if err == nil {
			a, err = a.Broadcast(slices.Concat(batch, []int64{m, k}))
		}
		if err != nil {
			return err
		}
		b, release, err := right.view()
		defer release()
		if err == nil {
			b, err = b.Broadcast(slices.Concat(batch, []int64{k, n}))
		}
		if err != nil {
			return err
		}
		p := gemmkernel.QuantProduct{Out: out.View(), A: a, B: b, Scale: scaleView(scale.View()), Bias: op.OptionalView(bias), Offset: op.OptionalView(offset), NZ: right.tile(), Most: left.most() * right.most()}
		if rows != nil {
			p.Rows = rows.As([]int64{m, 1}, []int64{rows.Strides[0], 0})
		}
		switch {
		case mixed:
			return runShifted(p, shift.View())
		case fused:
			return runActivated(p, activation)
		}
		return p.Run()
	}, nil
}

// checkRows refuses a product of int8 by int4 of more rows than CANN's kernels take.
func checkRows(c *op.Call, x1, x2 *op.Tensor, rows int64) {
	if x1.DType == dtype.Int8 && x2.DType != dtype.Int8 && rows > 29576 {
		c.Invalid("%v has %d rows; a product of int8 and int4 has at most 29576", x2, rows)
	}
}

// checkShift checks the yOffset of a product of int8 by int4, which is added before the scales of the rows, and
// reports whether the call is such a product. Other products have none.
func checkShift(c *op.Call, x1, x2 *op.Tensor, k, n int64, scale, bias, shift, rows, out *op.Tensor) (mixed bool) {
	checkRows(c, x1, x2, k)
	mixed = c.Has("yOffset") && x1.DType == dtype.Int8 && x2.DType != dtype.Int8
	switch {
	case mixed && (shift == nil || rows == nil):
		c.Invalid("yOffset or x1Scale is null; a product of int8 and int4 needs them")
	case mixed:
		c.Plain(shift)
		c.DType(shift, dtype.Float32)
		c.DType(scale, dtype.Uint64, dtype.Int64)
		c.DType(out, dtype.Float16, dtype.BFloat16)
		c.Shape(shift, []int64{n}, "one for each column")
		if bias != nil {
			c.Invalid("%v is given; a product of int8 and int4 has yOffset instead", bias)
		}
	case shift != nil && shift.Len() > 0:
		c.Invalid("%v is given; it is not supported with %v and %v", shift, x1, x2)
	}
	return mixed
}

// runShifted computes (A·B·Scale + shift)·Rows.
func runShifted(p gemmkernel.QuantProduct, shift kernel.View) error {
	out, rows := p.Out, p.Rows
	t, release := kernel.Temporary(out.Shape...)
	defer release()
	p.Out, p.Rows, p.Bias = t, kernel.View{}, shift
	if err := p.Run(); err != nil {
		return err
	}
	return elementwise.Map(elementwise.Mul, dtype.Float32, out, []elementwise.Input{elementwise.Of(t), elementwise.Of(rows)})
}

// runActivated computes a product in float32 and applies an element-wise operator to it.
func runActivated(p gemmkernel.QuantProduct, activation elementwise.Op) error {
	out := p.Out
	t, release := kernel.Temporary(out.Shape...)
	defer release()
	p.Out = t
	if err := p.Run(); err != nil {
		return err
	}
	return elementwise.Map(activation, dtype.Float32, out, []elementwise.Input{elementwise.Of(t)})
}

// scaleNames are the names of the column scales, the row scales and the offset. V5 and the fused
// operators use other names and declare inputs that are not supported.
func scaleNames(c *op.Call) (scale, rows, offset string) {
	scale, rows, offset = "scale", "pertokenScaleOptional", "offset"
	if c.Has("deqScale") {
		scale = "deqScale"
	}
	if c.Has("x2Scale") {
		scale, rows, offset = "x2Scale", "x1Scale", "x2Offset"
		code := op.InvalidParam
		if c.Has("x3Optional") {
			code = op.NullPointer // the fused operators return it for all that they do not have
		}
		for _, name := range []string{"yScale", "x1Offset", "yScaleOptional", "x1OffsetOptional", "yOffsetOptional", "x3Optional"} {
			if t := c.OptionalOf(name); t != nil && t.Len() > 0 {
				c.Fail(code, "%v is given; it is not supported", t)
			}
		}
		if group := c.Int(c.Either("groupSize", "groupSizeOptional")); group != 0 {
			c.Fail(code, "groupSize is %d; only 0 is supported", group)
		}
	}
	return scale, rows, offset
}

// checkQuantWeight checks the memory layout of a weight.
func checkQuantWeight(c *op.Call, x2 *op.Tensor) {
	switch {
	case strings.HasSuffix(c.Op.Name, "WeightNz"):
		c.WeightNZ("x2")
	case op.IsNZ(x2.Format):
		c.CheckNZ(x2)
	default:
		c.Plain(x2)
	}
}

// quantMatmulSum sums the scaled products of a batch. The weights are in FRACTAL_NZ.
func quantMatmulSum(c *op.Call) (op.Run, error) {
	x1, x2, rows, columns, out := c.Tensor("x1"), c.Tensor("x2"), c.Tensor("x1Scale"), c.Tensor("x2Scale"), c.Tensor("out")
	c.NoneOf("yScale", "x1Offset", "x2Offset", "yOffset", "bias")
	c.Rank(x2, 3, 3)
	if c.Err() != nil {
		return nil, c.Err()
	}
	x2.Format = dtype.FractalNZ
	c.CheckNZ(x2)
	c.Plain(x1, rows, columns, out)
	c.DType(x1, dtype.Int8)
	c.SameDType(x1, x2)
	c.DType(rows, dtype.Float32)
	c.DType(columns, dtype.BFloat16)
	c.DType(out, dtype.BFloat16)
	c.Rank(x1, 3, 3)
	if c.Bool("transposeX1") || c.Bool("transposeX2") || c.Int("groupSize") != 0 || c.Bool("keepDims") {
		c.Invalid("transposeX1 is %v, transposeX2 %v, groupSize %d and keepDims %v; only false, false, 0 and false are supported",
			c.Bool("transposeX1"), c.Bool("transposeX2"), c.Int("groupSize"), c.Bool("keepDims"))
	}
	if list := c.Ints("dims"); !slices.Equal(list, []int64{0}) {
		c.Invalid("dims is %s; only the batch, [0], is supported", op.Dims(list))
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	batch, m, k, n := x1.Shape[0], x1.Shape[1], x1.Shape[2], x2.Shape[2]
	c.Shape(x2, []int64{batch, k, n}, "a weight for each matrix of x1")
	c.Shape(rows, []int64{batch, m}, "one for each row of x1")
	c.Shape(columns, []int64{n}, "one for each column of x2")
	c.Shape(out, []int64{m, n}, "the sum of the products")
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if out.Len() == 0 {
			return nil
		}
		each, release := kernel.Temporary(batch, m, n)
		defer release()
		p := gemmkernel.QuantProduct{
			Out: each, A: x1.View(), B: x2.View(), Scale: columns.View(), NZ: x2.NZColumns(),
			Rows: rows.As([]int64{batch, m, 1}, append(slices.Clone(rows.Strides), 0)),
		}
		if err := p.Run(); err != nil {
			return err
		}
		return rowwise.Reduce(rowwise.ReduceSum, out.View(), each, []int{0}, 0)
	}, nil
}

// quantProducts lists the products of int8 or int4 matrices with scaled sums.
var quantProducts = op.Table{
	"QuantMatmul": quantMatmulByNumber, "QuantMatmulV3": QuantMatmul, "QuantMatmulV4": QuantMatmul, "QuantMatmulV5": QuantMatmul,
	"QuantMatmulV2": QuantMatmul, "QuantMatmulWeightNz": QuantMatmul, "FusedQuantMatmul": QuantMatmul, "FusedQuantMatmulWeightNz": QuantMatmul,
	"QuantMatmulReduceSumWeightNz": quantMatmulSum,
	"WeightQuantBatchMatmulV2":     WeightQuantMatmul, "WeightQuantBatchMatmulV3": WeightQuantMatmul,
}

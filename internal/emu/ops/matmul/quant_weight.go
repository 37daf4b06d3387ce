package matmul

import (
	"slices"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	gemmkernel "github.com/goascend/cann/internal/emu/kernel/gemm"
	"github.com/goascend/cann/internal/emu/op"
)

// weightProduct is a product of floats with a matrix of few bits.
type weightProduct struct {
	x, weight, y        *op.Tensor
	scale, offset, bias *op.Tensor
	params              *op.Tensor   // scales and offsets that quantise the result, or nil
	tiled               bool         // the weight is int4 in FRACTAL_NZ
	stored              quantOperand // the weight as it is in memory
	order               []int64      // strides of the elements of a weight that share bytes, or nil
	k, n, group         int64        // group is the number of rows that share a scale
}

// WeightQuantMatmul multiplies by an int8 or int4 matrix with scales per column, or per group of
// rows of each column.
func WeightQuantMatmul(c *op.Call) (op.Run, error) {
	x, weight, y := c.Tensor("x"), c.Tensor("weight"), c.Tensor("y")
	p := &weightProduct{
		x: x, weight: weight, y: y, stored: quantOperand{t: weight}, scale: c.Tensor("antiquantScale"), offset: c.Optional("antiquantOffsetOptional"),
		bias: c.Optional("biasOptional"), params: c.Optional("quantScaleOptional"), tiled: weight.DType == dtype.Int4 && op.IsNZ(weight.Format),
	}
	c.Plain(x, y, p.scale)
	if p.tiled {
		// The matrix in memory may be the transpose of the view.
		swapped := weight.Swapped()
		p.stored = quantOperand{c.Transposed(weight, swapped), swapped}
		c.CheckNZ(p.stored.t)
	} else {
		c.Plain(weight)
	}
	c.DType(x, dtype.Float16, dtype.BFloat16)
	p.checkResult(c, c.Optional("quantOffsetOptional"))
	c.DType(weight, dtype.Int8, dtype.Int4, dtype.Int32)
	c.Rank(x, 2, 2)
	c.Rank(weight, 2, 2)
	if c.Err() != nil {
		return nil, c.Err()
	}
	p.k, p.n = weight.Dim(0), weight.Dim(1)
	if weight.DType == dtype.Int32 {
		p.n *= 8
	}
	if p.tiled && p.stored.t.Dim(1)%2 != 0 {
		c.Invalid("%v must have an even number of columns in memory: int4 elements share bytes", weight)
	}
	if weight.DType != dtype.Int8 && !p.tiled {
		p.order = packedOrder(c, weight, p.k, p.n)
	}
	if x.Dim(1) != p.k {
		c.Invalid("%v and %v cannot be multiplied", x, weight)
	}
	c.Shape(y, []int64{x.Dim(0), p.n}, "the product of x and weight")
	groups := int64(1)
	if p.group = c.Int("antiquantGroupSize"); p.group > 0 {
		groups = (p.k + p.group - 1) / p.group
	} else {
		p.group = max(p.k, 1)
	}
	p.checkScales(c, groups)
	columns(c, p.bias, p.n, dtype.Float16, dtype.BFloat16, dtype.Float32)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return p.run, nil
}

// checkResult checks the type of y, and the parameters of its quantisation. The device reads the offsets that
// the parameters hold, and not those of offset.
func (p *weightProduct) checkResult(c *op.Call, offset *op.Tensor) {
	if p.params == nil {
		c.SameDType(p.x, p.y)
		if offset != nil {
			c.Invalid("%v is given without quantScaleOptional", offset)
		}
		return
	}
	c.Plain(p.params)
	c.DType(p.params, dtype.Uint64)
	c.DType(p.y, dtype.Int8)
	c.Rank(p.y, 2, 2)
	if op.IsNZ(p.weight.Format) {
		c.Invalid("%v is in FRACTAL_NZ; %v needs the weight in ND format", p.weight, p.y)
	}
	if c.Err() != nil {
		return
	}
	if n := p.y.Dim(1); !p.params.Contiguous() || p.params.Rank() == 0 || p.params.Len() != 1 && (p.params.Len() != n || p.params.Dim(-1) != n) {
		c.Invalid("%v must be contiguous, of one element or one for each of %d columns", p.params, n)
	}
	if offset != nil {
		c.DType(offset, dtype.Float32)
		c.SameShape(p.params, offset)
	}
}

// checkScales checks the scales and offsets of the weight: one per column and group of rows, or one for all.
// Scales that are float32 numbers in 64-bit integers have offsets of int32, and the device takes them for
// small products of float16 with a transposed int8 weight alone.
func (p *weightProduct) checkScales(c *op.Call, groups int64) {
	types := []dtype.Type{p.x.DType, p.x.DType}
	if p.scale.DType == dtype.Uint64 || p.scale.DType == dtype.Int64 {
		types = []dtype.Type{p.scale.DType, dtype.Int32}
		c.DType(p.x, dtype.Float16)
		c.DType(p.weight, dtype.Int8)
		c.DType(p.y, dtype.Float16)
		if op.IsNZ(p.weight.Format) || !p.weight.Swapped() || p.x.Swapped() || p.x.Dim(0) > 96 || p.k%64 != 0 || p.n%64 != 0 || p.scale.Len() != p.n || groups != 1 {
			c.Unfit("%v needs one element for each column, a transposed weight whose sizes are multiples of 64, and at most 96 rows of x; %v and %v do not fit", p.scale, p.x, p.weight)
		}
	}
	for i, t := range []*op.Tensor{p.scale, p.offset} {
		if t == nil {
			continue
		}
		c.DType(t, types[i])
		if t.Rank() < 1 || t.Rank() > 2 || groups > 1 && !slices.Equal(t.Shape, []int64{groups, p.n}) || groups == 1 && t.Len() != 1 && (t.Len() != p.n || t.Dim(-1) != p.n) {
			c.Invalid("%v must be [%d,%d], one for each group of rows and column, or of one element", t, groups, p.n)
		}
	}
}

func (p *weightProduct) run(*op.Exec) error {
	if p.y.Len() == 0 {
		return nil
	}
	offset, release, err := asFloats(asMatrix(op.OptionalView(p.offset)))
	defer release()
	if err != nil {
		return err
	}
	w := gemmkernel.QuantWeight{Weight: p.weight.View(), Scale: scaleView(asMatrix(p.scale.View())), Offset: offset, Group: p.group}
	if p.tiled {
		wide, release, err := p.stored.view()
		defer release()
		if err != nil {
			return err
		}
		w.Weight = wide
	}
	if p.order != nil {
		w.Packed = unsafe.Pointer(p.weight.Data)
		w.Weight = kernel.View{DType: dtype.Int8, Shape: []int64{p.k, p.n}, Strides: p.order}
	}
	if p.params == nil {
		return w.Product(p.y.View(), p.x.View(), op.OptionalView(p.bias))
	}
	sums, releaseSums := kernel.Temporary(p.y.Shape...)
	defer releaseSums()
	if err := w.Product(sums, p.x.View(), op.OptionalView(p.bias)); err != nil {
		return err
	}
	return requantise(p.y.View(), sums, p.params)
}

// packedOrder checks a weight of k by n int4 elements that share bytes, and returns the strides of its
// elements: row by row, or column by column if the weight is transposed.
func packedOrder(c *op.Call, weight *op.Tensor, k, n int64) (strides []int64) {
	if weight.DType == dtype.Int4 && weight.Swapped() {
		if k%2 != 0 {
			c.Invalid("%v must have an even number of rows when it is transposed: int4 elements share bytes", weight)
		}
		return []int64{1, k}
	}
	if !weight.Contiguous() || n%2 != 0 {
		c.Invalid("%v must be contiguous, of an even number of columns: int4 elements share bytes", weight)
	}
	return []int64{n, 1}
}

// asFloats returns v, or a float32 copy of whole numbers. The caller must call release.
func asFloats(v kernel.View) (floats kernel.View, release func(), err error) {
	if v.Data == nil || v.DType != dtype.Int32 {
		return v, func() {}, nil
	}
	floats, release = kernel.Temporary(v.Shape...)
	return floats, release, elementwise.Copy(floats, v)
}

// requantise sets out, of int8, to sums quantised by the scales and offsets that TransQuantParam packs: one
// element, or one for each column, which may be padded.
func requantise(out, sums kernel.View, params *op.Tensor) error {
	count := min(params.Len(), out.Shape[len(out.Shape)-1])
	scales := params.As([]int64{count}, []int64{1})
	packed, err := elementwise.Indices(kernel.View{Data: scales.Data, DType: dtype.Int64, Shape: scales.Shape, Strides: scales.Strides})
	if err != nil {
		return err
	}
	offsets, release := kernel.Temporary(count)
	defer release()
	if err := elementwise.SetFloats(offsets, packedOffsets(packed)); err != nil {
		return err
	}
	return gemmkernel.Quantizer{Factor: scaleView(scales), Offset: offsets, Round: elementwise.Round}.Quantize(out, sums)
}

package matmul

import (
	"slices"
	"strings"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	gemmkernel "github.com/goascend/cann/internal/emu/kernel/gemm"
	"github.com/goascend/cann/internal/emu/op"
)

// groupedDequants lists dynamicMatmul with a weight for each group of rows.
var groupedDequants = op.Table{"QuantGroupedMatmulDequant": groupedDequant, "QuantGroupedMatmulDequantWeightNZ": groupedDequant}

// groupedDequant quantises x as dynamicMatmul does, multiplies the rows of each group by its int8 weight and dequantises the sums.
func groupedDequant(c *op.Call) (op.Run, error) {
	x, weight, scale, groups, out := c.Tensor("x"), c.Tensor("weight"), c.Tensor("weightScale"), c.Tensor("groupList"), c.Tensor("out")
	given, smooth, mode := c.Optional("xScaleOptional"), c.Optional("smoothScaleOptional"), c.RequiredText("xQuantMode")
	for _, name := range []string{"biasOptional", "xOffsetOptional"} {
		if t := c.Optional(name); t != nil {
			c.Fail(op.NullPointer, "%v is given; %s must be null", t, name)
		}
	}
	if !c.Bool("transposeWeight") {
		c.Invalid("transposeWeight is false; only true is supported")
	}
	if strings.HasSuffix(c.Op.Name, "NZ") {
		weight.Format = dtype.FractalNZ
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	c.DType(x, dtype.Float16)
	c.SameDType(x, out)
	c.DType(weight, dtype.Int8)
	c.DType(scale, dtype.Float32, dtype.Int64)
	c.DType(groups, dtype.Int64)
	factor := dtype.Float32
	if scale.DType == dtype.Int64 {
		factor = dtype.Float16
	}
	if given != nil {
		c.DType(given, factor)
	}
	if smooth != nil {
		c.DType(smooth, dtype.Float16)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	for _, t := range []*op.Tensor{x, weight, scale, groups} {
		if t.Len() == 0 {
			return func(*op.Exec) error { return nil }, nil
		}
	}
	if !weight.Contiguous() || !out.Contiguous() {
		c.Invalid("%v and %v must be contiguous", weight, out)
	}
	c.Plain(x, scale, groups, out)
	q := &quantGroups{Call: c, scale: scale, groups: groups, transposed: true}
	if q.dequantWeight(weight, x); c.Err() != nil {
		return nil, c.Err()
	}
	if mode != "pertoken" && mode != "pertensor" {
		c.Unfit("xQuantMode is %q; use pertoken or pertensor", mode)
	}
	if given != nil && given.Len() == 0 {
		given = nil
	}
	if given == nil && (mode == "pertensor" || scale.DType == dtype.Int64) {
		c.Unfit("xScaleOptional is not given with xQuantMode %s and %v; scales that are found are those of rows, which the result is multiplied by", mode, scale)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	m := x.Dim(0)
	if given = givenScale(c, given, m, mode); given != nil && given.DType == dtype.Float16 && mode == "pertoken" {
		// The host's checks of types take this, and the vendor's tests expect that they do; the kernel's tiling refuses it.
		c.FailLaunch(op.TilingRefused, "%v has a scale of float16 for each row; use one for all, with xQuantMode pertensor", given)
	}
	if smooth != nil && smooth.Len() == 0 {
		smooth = nil
	}
	if smooth != nil {
		c.Plain(smooth)
		c.Fits(smooth, []int64{q.k}, "one for each column of x")
	}
	c.Fits(out, []int64{m, q.n}, "the product of x and a weight")
	if c.Err() != nil {
		return nil, c.Err()
	}
	q.x, q.rows = c.Scratch(dtype.Int8, m, q.k), c.Scratch(dtype.Float32, m)
	return func(*op.Exec) error {
		if given == nil {
			if err := (gemmkernel.DynamicQuantizer{Smooth: op.OptionalView(smooth)}).Quantize(q.x.View(), q.rows.View(), x.View()); err != nil {
				return err
			}
		} else if err := quantiseRows(q.x, q.rows, x, given, smooth); err != nil {
			return err
		}
		if scale.DType == dtype.Int64 { // it includes the scale of x
			if err := elementwise.Fill(q.rows.View(), elementwise.Real(1)); err != nil {
				return err
			}
		}
		return q.run(func(_, first int64, product kernel.View) error {
			return elementwise.Copy(out.View().Narrow(0, first, product.Shape[0]), product)
		})
	}, nil
}

// dequantWeight checks a weight [groups,N,K] against its scales [groups,N] and the rows x. In FRACTAL_NZ the storage decides, and
// its last tiles may be partly empty.
func (q *quantGroups) dequantWeight(weight, x *op.Tensor) {
	if x.Rank() != 2 {
		q.Unfit("%v must have 2 dimensions", x)
		return
	}
	q.k = x.Dim(1)
	nd := !op.IsNZ(weight.Format)
	switch {
	case nd && weight.Rank() != 3:
		q.Invalid("%v must be [groups,N,%d], or have a storage of [groups,K/32,N/16,16,32]", weight, q.k)
	case !nd && len(weight.Storage) != 5:
		q.Invalid("%v must have a storage of [groups,K/32,N/16,16,32], not of %s", weight, op.Dims(weight.Storage))
	case nd && (weight.Dim(1)%16 != 0 || weight.Dim(2)%16 != 0):
		q.Invalid("%v: N and K must be multiples of 16", weight)
	}
	if q.scale.Rank() != 2 {
		q.Unfit("%v must be [groups,N]", q.scale)
	}
	if q.Err() != nil {
		return
	}
	number := weight.Dim(0)
	if !nd {
		number = weight.Storage[0]
	}
	q.n = q.scale.Dim(1)
	shape := []int64{number, q.n, q.k}
	if storage := op.NZShape(shape, false, 32); nd && !slices.Equal(weight.Shape, shape) || !nd && !slices.Equal(weight.Storage, storage) {
		q.Unfit("%v with a storage of %s does not fit %v and %v: it must be %s, in FRACTAL_NZ with a storage of %s", weight, op.Dims(weight.Storage), x, q.scale, op.Dims(shape), op.Dims(storage))
	}
	q.Fits(q.scale, []int64{number, q.n}, "one for each column of each weight")
	if q.Fits(q.groups, []int64{number}, "the end of the rows of each weight"); nd {
		q.weight = weight
		return
	}
	v := *weight
	v.Shape, v.Strides = shape, op.ContiguousStrides(shape)
	q.weight = q.Alias(v, weight)
}

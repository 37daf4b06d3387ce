package layout

import (
	"slices"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/fractal"
	"github.com/goascend/cann/internal/emu/op"
)

var formatTable = op.Table{
	"NpuFormatCast":     npuFormatCast,
	"TransMatmulWeight": transMatmulWeight,
	"SliceNz":           sliceNz,
}.Selects("SliceNz").Overwrites("TransMatmulWeight")

// CastTypes are the element types of format casts.
var CastTypes = []dtype.Type{
	dtype.Int8, dtype.Uint8, dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Int32, dtype.Uint32,
}

// npuFormatCast converts a tensor between ND and FRACTAL_NZ storage. Its error codes follow
// CANN's implementation, which differs from CANN's documentation: a null tensor gives 161002, an
// empty one 361001.
func npuFormatCast(c *op.Call) (op.Run, error) {
	src, dst := c.Optional("srcTensor"), c.Optional("dstTensor")
	if src == nil || dst == nil {
		c.Invalid("srcTensor or dstTensor is null")
		return nil, c.Err()
	}
	toNz, fromNz := op.IsNZ(dst.Format) && !op.IsPrivate(src.Format), op.IsNZ(src.Format) && !op.IsPrivate(dst.Format)
	for _, t := range []*op.Tensor{src, dst} {
		c.Dense(t)
		c.DType(t, CastTypes...)
	}
	if !toNz && !fromNz {
		c.Fail(op.Unsupported, "no cast from %v to %v; cast between ND and FRACTAL_NZ", src, dst)
	}
	c.Same(src, dst)
	c.Rank(src, 2, 6)
	if src.Len() == 0 {
		c.Fail(op.Unsupported, "%v is empty", src)
	}
	c.CheckNZ(src)
	c.CheckNZ(dst)
	if c.Err() != nil {
		return nil, c.Err()
	}
	if toNz {
		return func(*op.Exec) error { return fractal.Pack(dst.Data, dst.NZColumns(), src.View()) }, nil
	}
	return func(*op.Exec) error { return fractal.Unpack(dst.View(), src.Data, src.NZColumns()) }, nil
}

// transMatmulWeight turns a weight into FRACTAL_NZ in place. As on the device, the caller's
// tensor has the new format and storage shape when phase one returns.
func transMatmulWeight(c *op.Call) (op.Run, error) {
	t := c.Tensor("mmWeightRef")
	c.DType(t, dtype.Float16, dtype.BFloat16, dtype.Int8)
	if c.Err() == nil && t.Format != dtype.ND {
		c.Invalid("%v must be in ND format; a weight is transformed once", t)
	}
	if c.Err() != nil || t.Len() == 0 {
		return func(*op.Exec) error { return nil }, c.Err()
	}
	c.Rank(t, 2, 6)
	if c.Err() != nil {
		return nil, c.Err()
	}
	view := *t
	t.Recast(dtype.FractalNZ, op.NZShape(t.Shape, false, op.DefaultC0(t.DType)))
	size := op.Count(t.Storage) * int64(t.DType.Size())
	c.Workspace(size)
	return func(x *op.Exec) error {
		view.Data = t.Data
		if err := fractal.Pack(x.Workspace(), t.NZColumns(), view.View()); err != nil {
			return err
		}
		copy(unsafe.Slice((*byte)(t.Data), size), unsafe.Slice((*byte)(x.Workspace()), size))
		return nil
	}, nil
}

// sliceNz concatenates columns [start, end) of the ranks of self, [ranks, total], and stores as
// many elements as out, [batch…, K, N], holds in FRACTAL_NZ. One pass thus copies a gathered
// weight and casts its format.
func sliceNz(c *op.Call) (op.Run, error) {
	self, out := c.Tensor("self"), c.Tensor("out")
	dim, start, end := c.Int("dim"), c.Int("start"), c.Int("end")
	c.DType(self, CastTypes...)
	c.SameDType(self, out)
	c.Rank(self, 2, 2)
	c.Rank(out, 2, 6)
	if c.Err() != nil {
		return nil, c.Err()
	}
	switch {
	case dim != 1 && dim != -1:
		c.Invalid("dim %d of %v cannot be sliced; columns (dim 1) can", dim, self)
	case !self.Contiguous() || op.IsPrivate(self.Format):
		c.Invalid("%v must be contiguous and in ND format", self)
	case !op.IsNZ(out.Format) || !slices.Equal(out.Strides, op.ContiguousStrides(out.Shape)):
		c.Invalid("%v must be in FRACTAL_NZ format with dense strides", out)
	case start < 0 || end < start || end > self.Dim(1):
		c.Invalid("columns %d to %d do not lie in %v", start, end, self)
	case self.Dim(0)*(end-start) < out.Len():
		c.Invalid("columns %d to %d of %v hold %d elements; %v needs %d", start, end, self, self.Dim(0)*(end-start), out, out.Len())
	}
	c.CheckNZ(out)
	if c.Err() != nil {
		return nil, c.Err()
	}
	return func(*op.Exec) error {
		return fractal.PackSlice(out.Data, out.NZColumns(), out.Shape, self.View(), start, end)
	}, nil
}

package nn

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/rt"
)

var formatTable = table{
	"NpuFormatCast":     npuFormatCast,
	"TransMatmulWeight": transMatmulWeight,
	"SliceNz":           sliceNz,
}

// castTypes are the element types of format casts.
var castTypes = []dtype.Type{
	dtype.Int8, dtype.Uint8, dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Int32, dtype.Uint32,
}

const unsupported = int32(abi.ACLNN_ERR_RUNTIME_ERROR)

// npuFormatCast moves a tensor between ND and FRACTAL_NZ storage. Its codes are those of
// CANN's code, which differ from CANN's documentation: null is 161002, empty is 361001.
func npuFormatCast(c *Call) (Run, error) {
	src, dst := c.Optional("srcTensor"), c.Optional("dstTensor")
	if src == nil || dst == nil {
		c.Invalid("srcTensor or dstTensor is null")
		return nil, c.err
	}
	toNz, fromNz := isNz(dst.Format) && !isPrivate(src.Format), isNz(src.Format) && !isPrivate(dst.Format)
	for _, t := range []*Tensor{src, dst} {
		if !t.Contiguous() {
			c.Invalid("%v must be contiguous", t)
		}
		c.DType(t, castTypes...)
	}
	if !toNz && !fromNz {
		c.Fail(unsupported, "no cast from %v to %v; cast between ND and FRACTAL_NZ", src, dst)
	}
	c.Same(src, dst)
	c.Rank(src, 2, 6)
	if src.Len() == 0 {
		c.Fail(unsupported, "%v is empty", src)
	}
	c.checkNz(src)
	c.checkNz(dst)
	if c.err != nil {
		return nil, c.err
	}
	if toNz {
		return func(*Exec) error { return kernel.ToNZ(dst.host, dst.nzColumns(), src.View()) }, nil
	}
	return func(*Exec) error { return kernel.FromNZ(dst.View(), src.host, src.nzColumns()) }, nil
}

// transMatmulWeight turns a weight into FRACTAL_NZ in place. As on the device, the caller's
// tensor has the new format and storage shape when phase one returns.
func transMatmulWeight(c *Call) (Run, error) {
	t := c.Tensor("mmWeightRef")
	c.DType(t, dtype.Float16, dtype.BFloat16, dtype.Int8)
	if c.err == nil && t.Format != dtype.ND {
		c.Invalid("%v must be in ND format; a weight is transformed once", t)
	}
	if c.err != nil || t.Len() == 0 {
		return func(*Exec) error { return nil }, c.err
	}
	c.Rank(t, 2, 6)
	if c.err != nil {
		return nil, c.err
	}
	view := *t
	t.Format = dtype.FractalNZ
	t.Storage = nzShape(t.Shape, false, defaultC0(t.DType))
	t.object.Format, t.object.Storage = t.Format, slices.Clone(t.Storage)
	size := count(t.Storage) * int64(t.DType.Size())
	c.Workspace(size)
	return func(x *Exec) error {
		view.host = t.host
		if err := kernel.ToNZ(x.Workspace(), t.nzColumns(), view.View()); err != nil {
			return err
		}
		copy(unsafe.Slice((*byte)(t.host), size), unsafe.Slice((*byte)(x.Workspace()), size))
		return nil
	}, nil
}

// sliceNz joins columns [start, end) of self, [ranks, total], and stores the first elements
// that fill out, [batch…, K, N], in FRACTAL_NZ: the copy-out of a gathered weight and its
// format cast in one pass.
func sliceNz(c *Call) (Run, error) {
	self, out := c.Tensor("self"), c.Tensor("out")
	dim, start, end := c.Int("dim"), c.Int("start"), c.Int("end")
	c.DType(self, castTypes...)
	c.SameDType(self, out)
	c.Rank(self, 2, 2)
	c.Rank(out, 2, 6)
	if c.err != nil {
		return nil, c.err
	}
	switch {
	case dim != 1 && dim != -1:
		c.Invalid("dim %d of %v cannot be sliced; columns (dim 1) can", dim, self)
	case !self.Contiguous() || isPrivate(self.Format):
		c.Invalid("%v must be contiguous and in ND format", self)
	case !isNz(out.Format) || !slices.Equal(out.Strides, ContiguousStrides(out.Shape)):
		c.Invalid("%v must be in FRACTAL_NZ format with dense strides", out)
	case start < 0 || end < start || end > self.Dim(1):
		c.Invalid("columns %d to %d do not lie in %v", start, end, self)
	case self.Dim(0)*(end-start) < out.Len():
		c.Invalid("columns %d to %d of %v hold %d elements; %v needs %d", start, end, self, self.Dim(0)*(end-start), out, out.Len())
	}
	c.checkNz(out)
	if c.err != nil {
		return nil, c.err
	}
	return func(*Exec) error {
		return kernel.SliceToNZ(out.host, out.nzColumns(), out.Shape, self.View(), start, end)
	}, nil
}

// formatShape answers aclnnNpuFormatCastCalculateSizeAndFormat(srcTensor, dstFormat,
// additionalDtype, dstShape, dstShapeSize, actualFormat): storage shape and format for a
// cast. The caller releases the shape, with delete[] in C++.
func (l *Library) formatShape(t *rt.Thread, a []uint64) uint64 {
	const name = "aclnnNpuFormatCastCalculateSizeAndFormat"
	refuse := func(code int32, format string, args ...any) uint64 {
		return l.fail(t, &Error{Code: code, Text: name + ": " + fmt.Sprintf(format, args...)})
	}
	src, ok := rt.Lookup[*Tensor](&l.rt.Handles, a[0])
	if !ok {
		return refuse(invalidParam, "srcTensor is null or was destroyed")
	}
	if slices.Contains(a[3:6], 0) {
		return refuse(invalidParam, "dstShape, dstShapeSize or actualFormat is null")
	}
	format, additional := dtype.Format(int32(a[1])), dtype.Type(int32(a[2]))
	if additional == dtype.Undefined {
		additional = src.DType
	}
	switch {
	case !slices.Contains(castTypes, src.DType):
		return refuse(invalidParam, "%v has a dtype that is not supported; use one of %v", src, castTypes)
	case src.Rank() < 2 || src.Rank() > 6:
		return refuse(invalidParam, "%v must have 2 to 6 dimensions", src)
	case src.Len() == 0:
		return refuse(unsupported, "%v is empty", src)
	case additional.Bits() == 0 || additional.Bits() > 32:
		return refuse(invalidParam, "additionalDtype %v gives no tile; use -1 or the dtype the weight is multiplied in", additional)
	}
	shape := slices.Clone(src.Shape)
	switch {
	case format == dtype.ND && isNz(src.Format):
	case isNz(format) && !isPrivate(src.Format):
		c0 := (&Tensor{Format: format, DType: additional, Storage: nil, Shape: src.Shape}).nzColumns()
		shape = nzShape(src.Shape, false, c0)
	default:
		return refuse(unsupported, "no cast of %v to %v; cast between ND and FRACTAL_NZ", src, format)
	}
	p := rt.Malloc(8 * len(shape))
	copy(unsafe.Slice((*int64)(p), len(shape)), shape)
	rt.Write(a[3], p)
	rt.Write(a[4], uint64(len(shape)))
	rt.Write(a[5], int32(format))
	return 0
}

// weightSize answers aclnnCalculateMatmulWeightSize(tensorShape, weightTensorSize): the
// elements of a weight with both dimensions rounded to 16.
func (l *Library) weightSize(t *rt.Thread, a []uint64) uint64 {
	return l.calculateWeight(t, "aclnnCalculateMatmulWeightSize", a[0], a[1], kernel.NZRows, false)
}

// weightSizeV2 answers aclnnCalculateMatmulWeightSizeV2(tensorShape, dataType,
// weightTensorSize), which rounds columns to 32 for types of other than 16 bits.
func (l *Library) weightSizeV2(t *rt.Thread, a []uint64) uint64 {
	columns := int64(32)
	if d := dtype.Type(int32(a[1])); d == dtype.Float16 || d == dtype.BFloat16 {
		columns = 16
	}
	return l.calculateWeight(t, "aclnnCalculateMatmulWeightSizeV2", a[0], a[2], columns, true)
}

func (l *Library) calculateWeight(t *rt.Thread, name string, array, out uint64, columns int64, positive bool) uint64 {
	refuse := func(code int32, text string) uint64 {
		return l.fail(t, &Error{Code: code, Text: name + ": " + text})
	}
	if array == 0 || out == 0 {
		return refuse(nullPointer, "tensorShape or weightTensorSize is null")
	}
	shape, ok := rt.Lookup[*intArray](&l.rt.Handles, array)
	if !ok {
		return l.stale(t, "aclIntArray", array)
	}
	d := shape.values
	if len(d) < 2 || len(d) > 6 {
		return refuse(invalidParam, fmt.Sprintf("shape %s must have 2 to 6 dimensions", dims(d)))
	}
	if positive && slices.Contains(d, 0) {
		return refuse(invalidParam, fmt.Sprintf("shape %s must not be empty", dims(d)))
	}
	n := len(d)
	z := kernel.NZ{Rows: d[n-2], Cols: d[n-1], C0: columns}
	rt.Write(out, uint64(count(d[:n-2])*z.Len()))
	return 0
}

package nn

import (
	"fmt"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/ops/layout"
	"github.com/goascend/cann/internal/emu/rt"
)

// aclnnNpuFormatCastCalculateSizeAndFormat returns the storage shape and the format for a cast. The
// caller releases the shape, with delete[] in C++.
func (l *Library) aclnnNpuFormatCastCalculateSizeAndFormat(srcTensor rt.Handle, dstFormat, additionalDtype int32, dstShape *rt.Address, dstShapeSize *uint64, actualFormat *int32) error {
	const name = "aclnnNpuFormatCastCalculateSizeAndFormat"
	refuse := func(code int32, format string, args ...any) error {
		return &op.Error{Code: code, Text: name + ": " + fmt.Sprintf(format, args...)}
	}
	src, ok := rt.Lookup[*op.Tensor](&l.rt.Handles, srcTensor)
	if !ok {
		return refuse(op.InvalidParam, "srcTensor is null or was destroyed")
	}
	if dstShape == nil || dstShapeSize == nil || actualFormat == nil {
		return refuse(op.InvalidParam, "dstShape, dstShapeSize or actualFormat is null")
	}
	format, additional := dtype.Format(dstFormat), dtype.Type(additionalDtype)
	if additional == dtype.Undefined {
		additional = src.DType
	}
	switch {
	case !slices.Contains(layout.CastTypes, src.DType):
		return refuse(op.InvalidParam, "%v has a dtype that is not supported; use one of %v", src, layout.CastTypes)
	case src.Rank() < 2 || src.Rank() > 6:
		return refuse(op.InvalidParam, "%v must have 2 to 6 dimensions", src)
	case src.Len() == 0:
		return refuse(op.Unsupported, "%v is empty", src)
	case additional.Bits() == 0 || additional.Bits() > 32:
		return refuse(op.InvalidParam, "additionalDtype %v gives no tile; use -1 or the dtype the weight is multiplied in", additional)
	}
	shape := slices.Clone(src.Shape)
	switch {
	case format == dtype.ND && op.IsNZ(src.Format):
	case op.IsNZ(format) && !op.IsPrivate(src.Format):
		c0 := (&op.Tensor{Format: format, DType: additional, Storage: nil, Shape: src.Shape}).NZColumns()
		shape = op.NZShape(src.Shape, false, c0)
	default:
		return refuse(op.Unsupported, "no cast of %v to %v; cast between ND and FRACTAL_NZ", src, format)
	}
	*dstShape, *dstShapeSize, *actualFormat = inC(shape), uint64(len(shape)), int32(format)
	return nil
}

package nn

import (
	"fmt"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/rt"
)

// aclnnCalculateMatmulWeightSize returns the number of elements of a weight whose dimensions are
// both rounded up to multiples of 16.
func (l *Library) aclnnCalculateMatmulWeightSize(tensorShape rt.Handle, weightTensorSize *uint64) error {
	return l.calculateWeight("aclnnCalculateMatmulWeightSize", tensorShape, weightTensorSize, kernel.NZRows, false)
}

// aclnnCalculateMatmulWeightSizeV2 rounds the columns to multiples of 32 instead, unless the
// element type is float16 or bfloat16.
func (l *Library) aclnnCalculateMatmulWeightSizeV2(tensorShape rt.Handle, dataType dtype.Type, weightTensorSize *uint64) error {
	columns := int64(32)
	if dataType == dtype.Float16 || dataType == dtype.BFloat16 {
		columns = 16
	}
	return l.calculateWeight("aclnnCalculateMatmulWeightSizeV2", tensorShape, weightTensorSize, columns, true)
}

func (l *Library) calculateWeight(name string, array rt.Handle, size *uint64, columns int64, positive bool) error {
	refuse := func(code int32, text string) error { return &op.Error{Code: code, Text: name + ": " + text} }
	if array == 0 || size == nil {
		return refuse(op.NullPointer, "tensorShape or weightTensorSize is null")
	}
	shape, ok := rt.Lookup[*intArray](&l.rt.Handles, array)
	if !ok {
		return stale("aclIntArray", array)
	}
	d := shape.values
	if len(d) < 2 || len(d) > 6 {
		return refuse(op.InvalidParam, fmt.Sprintf("shape %s must have 2 to 6 dimensions", op.Dims(d)))
	}
	if positive && slices.Contains(d, 0) {
		return refuse(op.InvalidParam, fmt.Sprintf("shape %s must not be empty", op.Dims(d)))
	}
	n := len(d)
	z := kernel.NZ{Rows: d[n-2], Cols: d[n-1], C0: columns}
	*size = uint64(op.Count(d[:n-2]) * z.Len())
	return nil
}

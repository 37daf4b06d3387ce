package nn

import (
	"fmt"
	"slices"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/fractal"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/ops/convolution"
	"github.com/goascend/cann/internal/emu/rt"
)

// aclnnCalculateMatmulWeightSize returns the number of elements of a weight whose dimensions are
// both rounded up to multiples of 16.
func (l *Library) aclnnCalculateMatmulWeightSize(tensorShape rt.Handle, weightTensorSize *uint64) error {
	return l.calculateWeight("aclnnCalculateMatmulWeightSize", tensorShape, weightTensorSize, fractal.Rows, false)
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
	z := fractal.Layout{Rows: d[n-2], Cols: d[n-1], C0: columns}
	*size = uint64(op.Count(d[:n-2]) * z.Len())
	return nil
}

// aclnnCalculateConvolutionWeightSize returns the number of elements of a float16 weight in FRACTAL_Z
// storage, which only the Ascend310P has.
func (l *Library) aclnnCalculateConvolutionWeightSize(tensorShape rt.Handle, transposed bool, groups int64, dataType dtype.Type, weightTensorSize *uint64) error {
	const name = "aclnnCalculateConvolutionWeightSize"
	refuse := func(format string, args ...any) error {
		return &op.Error{Code: op.InvalidParam, Text: name + ": " + fmt.Sprintf(format, args...)}
	}
	if tensorShape == 0 || weightTensorSize == nil {
		return null(name, "tensorShape or weightTensorSize")
	}
	shape, ok := rt.Lookup[*intArray](&l.rt.Handles, tensorShape)
	if !ok {
		return stale("aclIntArray", tensorShape)
	}
	d := shape.values
	switch {
	case len(d) != 4:
		return refuse("shape %s must have 4 dimensions", op.Dims(d))
	case transposed:
		return refuse("transposed is true; only weights of forward convolutions are supported")
	case l.chip != acceptance.Ascend310P:
		return refuse("only the Ascend310P has weights in FRACTAL_Z")
	case dataType != dtype.Float16:
		return refuse("dataType is %v; only float16 is supported", dataType)
	case slices.Min(d) < 0:
		return refuse("shape %s has negative sizes", op.Dims(d))
	case groups < 1 || groups > 65535 || d[0]%groups != 0:
		return refuse("groups is %d; use 1 to 65535, a divisor of the filters of %s", groups, op.Dims(d))
	}
	*weightTensorSize = 0
	if !slices.Contains(d, 0) {
		*weightTensorSize = uint64(op.Count(convolution.WeightShape(d, groups)))
	}
	return nil
}

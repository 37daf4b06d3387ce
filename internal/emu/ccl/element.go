package ccl

import (
	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
)

// element describes an HcclDataType.
type element struct {
	name  string
	size  uint64
	dtype dtype.Type // Undefined for types that can be copied but not reduced
}

var elements = [...]element{
	abi.HCCL_DATA_TYPE_INT8:   {"int8", 1, dtype.Int8},
	abi.HCCL_DATA_TYPE_INT16:  {"int16", 2, dtype.Int16},
	abi.HCCL_DATA_TYPE_INT32:  {"int32", 4, dtype.Int32},
	abi.HCCL_DATA_TYPE_FP16:   {"float16", 2, dtype.Float16},
	abi.HCCL_DATA_TYPE_FP32:   {"float32", 4, dtype.Float32},
	abi.HCCL_DATA_TYPE_INT64:  {"int64", 8, dtype.Int64},
	abi.HCCL_DATA_TYPE_UINT64: {"uint64", 8, dtype.Uint64},
	abi.HCCL_DATA_TYPE_UINT8:  {"uint8", 1, dtype.Uint8},
	abi.HCCL_DATA_TYPE_UINT16: {"uint16", 2, dtype.Uint16},
	abi.HCCL_DATA_TYPE_UINT32: {"uint32", 4, dtype.Uint32},
	abi.HCCL_DATA_TYPE_FP64:   {"float64", 8, dtype.Float64},
	abi.HCCL_DATA_TYPE_BFP16:  {"bfloat16", 2, dtype.BFloat16},
	abi.HCCL_DATA_TYPE_INT128: {"int128", 16, dtype.Undefined},
	// CANN 9 has these; they can only be copied.
	abi.HCCL_DATA_TYPE_HIF8:    {"hifloat8", 1, dtype.Undefined},
	abi.HCCL_DATA_TYPE_FP8E4M3: {"float8_e4m3", 1, dtype.Undefined},
	abi.HCCL_DATA_TYPE_FP8E5M2: {"float8_e5m2", 1, dtype.Undefined},
	abi.HCCL_DATA_TYPE_FP8E8M0: {"float8_e8m0", 1, dtype.Undefined},
}

var opNames = [...]string{"sum", "prod", "max", "min"}

var opKernels = [...]elementwise.Op{elementwise.Add, elementwise.Mul, elementwise.Max, elementwise.Min}

// elementOf looks up an HcclDataType.
func elementOf(t int32) (e element, known bool) {
	if t < 0 || int(t) >= len(elements) {
		return e, false
	}
	e = elements[t]
	return e, e.size > 0
}

// maxCount is the largest number of elements of one call.
const maxCount = 1<<35 - 1

// reduces holds the functions that have a reduction operator.
var reduces = map[string]bool{
	"HcclAllReduce": true, "HcclReduce": true, "HcclReduceScatter": true, "HcclReduceScatterV": true,
}

// checkElements refuses element types that the function does not take, and operators that it
// does not support for a type. Like CANN's own check, it accepts types that only the
// documentation excludes for some chips, such as sums of float64 on Atlas A2.
func (l *Library) checkElements(function string, t, op int32) (element, error) {
	e, known := elementOf(t)
	early := t >= abi.HCCL_DATA_TYPE_HIF8 && (l.rt.API() == abi.V81RC1 || l.rt.API() == abi.V850)
	switch {
	case !known || early:
		return e, refuse(notSupported, "EI0003: %s: data type %d is unknown", function, t)
	case !reduces[function]:
		return e, nil
	case op < 0 || int(op) >= len(opNames):
		return e, refuse(notSupported, "EI0003: %s: reduce operation %d is unknown", function, op)
	case e.dtype == dtype.Undefined:
		return e, refuse(notSupported, "EI0003: %s: %s elements can be copied but not reduced", function, e.name)
	case op == abi.HCCL_REDUCE_PROD && (e.dtype == dtype.Int16 || e.dtype == dtype.BFloat16):
		return e, refuse(notSupported, "EI0003: %s: the product of %s elements is not supported on this chip", function, e.name)
	}
	return e, nil
}

func checkCount(function string, n uint64) error {
	if n > maxCount {
		return refuse(badParameter, "EI0003: %s: count %d; at most %d are possible", function, n, maxCount)
	}
	return nil
}

//go:build linux && cgo && (amd64 || arm64)

package cshim

// #include "shim.h"
import "C"

import "unsafe"

// The constants and the layouts of Go's types and of C's must agree. Each line below indexes an
// array of one element with a difference: any difference except 0 does not compile.
var equal [1]struct{}

var (
	_ = equal[Args-C.CANN_ARGS]
	_ = equal[maxParams-C.CANN_MAX_PARAMS]
	_ = equal[maxFloats-C.CANN_MAX_FLOATS]
	_ = equal[MaxRank-C.CANN_MAX_RANK]

	_ = equal[classTensor-C.CANN_TENSOR]
	_ = equal[classTensors-C.CANN_TENSORS]
	_ = equal[classScalar-C.CANN_SCALAR]
	_ = equal[classScalars-C.CANN_SCALARS]
	_ = equal[classString-C.CANN_STRING]
	_ = equal[classInts-C.CANN_INTS]
	_ = equal[classFloats-C.CANN_FLOATS]
	_ = equal[classBools-C.CANN_BOOLS]

	_ = equal[stageDone-C.CANN_DONE]
	_ = equal[stageBind-C.CANN_BIND]
	_ = equal[stageBuild-C.CANN_BUILD]
	_ = equal[stagePrepare-C.CANN_PREPARE]
	_ = equal[stageExecute-C.CANN_EXECUTE]
	_ = equal[stageWorkspace-C.CANN_WORKSPACE]
)

// struct cann_call: Go's type goes on behind message.
var (
	_ = equal[unsafe.Offsetof(Call{}.Out)-unsafe.Offsetof(C.struct_cann_call{}.out)]
	_ = equal[unsafe.Offsetof(Call{}.HostArg)-unsafe.Offsetof(C.struct_cann_call{}.host)]
	_ = equal[unsafe.Offsetof(Call{}.Rebinds)-unsafe.Offsetof(C.struct_cann_call{}.rebinds)]
	_ = equal[unsafe.Offsetof(Call{}.value)-unsafe.Offsetof(C.struct_cann_call{}.value)]
	_ = equal[unsafe.Offsetof(Call{}.bind)-unsafe.Offsetof(C.struct_cann_call{}.bind)]
	_ = equal[unsafe.Offsetof(Call{}.fn)-unsafe.Offsetof(C.struct_cann_call{}.fn)]
	_ = equal[unsafe.Offsetof(Call{}.context)-unsafe.Offsetof(C.struct_cann_call{}.context)]
	_ = equal[unsafe.Offsetof(Call{}.ret)-unsafe.Offsetof(C.struct_cann_call{}.ret)]
	_ = equal[unsafe.Offsetof(Call{}.message)-unsafe.Offsetof(C.struct_cann_call{}.message)]
)

// struct cann_launch.
var (
	_ = equal[unsafe.Sizeof(head{})-C.sizeof_struct_cann_launch]
	_ = equal[unsafe.Offsetof(head{}.execute)-unsafe.Offsetof(C.struct_cann_launch{}.execute)]
	_ = equal[unsafe.Offsetof(head{}.context)-unsafe.Offsetof(C.struct_cann_launch{}.context)]
	_ = equal[unsafe.Offsetof(head{}.stream)-unsafe.Offsetof(C.struct_cann_launch{}.stream)]
	_ = equal[unsafe.Offsetof(head{}.workspace)-unsafe.Offsetof(C.struct_cann_launch{}.workspace)]
	_ = equal[unsafe.Offsetof(head{}.size)-unsafe.Offsetof(C.struct_cann_launch{}.size)]
	_ = equal[unsafe.Offsetof(head{}.words)-unsafe.Offsetof(C.struct_cann_launch{}.words)]
	_ = equal[unsafe.Offsetof(head{}.records)-unsafe.Offsetof(C.struct_cann_launch{}.records)]
	_ = equal[unsafe.Offsetof(head{}.word)-unsafe.Offsetof(C.struct_cann_launch{}.word)]
	_ = equal[unsafe.Offsetof(head{}.floats)-unsafe.Offsetof(C.struct_cann_launch{}.floats)]
	_ = equal[unsafe.Offsetof(head{}.objects)-unsafe.Offsetof(C.struct_cann_launch{}.objects)]
	_ = equal[unsafe.Offsetof(head{}.code)-unsafe.Offsetof(C.struct_cann_launch{}.code)]
	_ = equal[unsafe.Offsetof(head{}.stage)-unsafe.Offsetof(C.struct_cann_launch{}.stage)]
	_ = equal[unsafe.Offsetof(head{}.kind)-unsafe.Offsetof(C.struct_cann_launch{}.kind)]
	_ = equal[unsafe.Offsetof(head{}.object)-unsafe.Offsetof(C.struct_cann_launch{}.object)]
	_ = equal[unsafe.Offsetof(head{}.executor)-unsafe.Offsetof(C.struct_cann_launch{}.executor)]
	_ = equal[unsafe.Offsetof(head{}.need)-unsafe.Offsetof(C.struct_cann_launch{}.need)]
	_ = equal[unsafe.Offsetof(head{}.message)-unsafe.Offsetof(C.struct_cann_launch{}.message)]
)

// struct cann_tensor and struct cann_record, which arguments are encoded as.
var (
	_ = equal[unsafe.Sizeof(TensorDesc{})-C.sizeof_struct_cann_tensor]
	_ = equal[unsafe.Offsetof(TensorDesc{}.Format)-unsafe.Offsetof(C.struct_cann_tensor{}.format)]
	_ = equal[unsafe.Offsetof(TensorDesc{}.Address)-unsafe.Offsetof(C.struct_cann_tensor{}.address)]
	_ = equal[unsafe.Offsetof(TensorDesc{}.Dims)-unsafe.Offsetof(C.struct_cann_tensor{}.dims)]
	_ = equal[unsafe.Offsetof(TensorDesc{}.Strides)-unsafe.Offsetof(C.struct_cann_tensor{}.strides)]
	_ = equal[unsafe.Offsetof(TensorDesc{}.Storage)-unsafe.Offsetof(C.struct_cann_tensor{}.storage)]

	_ = equal[unsafe.Offsetof(TensorDesc{}.Address)-unsafe.Offsetof(smallDesc{}.Address)]
	_ = equal[unsafe.Offsetof(TensorDesc{}.Dims)-unsafe.Offsetof(smallDesc{}.Dims)]

	_ = equal[unsafe.Sizeof(record{})-C.sizeof_struct_cann_record]
	_ = equal[unsafe.Sizeof(Exception{})-C.sizeof_struct_cann_exception]
	_ = equal[keptExceptions-C.CANN_EXCEPTIONS]
	_ = equal[unsafe.Offsetof(record{}.dtype)-unsafe.Offsetof(C.struct_cann_record{}.dtype)]
	_ = equal[unsafe.Offsetof(record{}.count)-unsafe.Offsetof(C.struct_cann_record{}.count)]
)

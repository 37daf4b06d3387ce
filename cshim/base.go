//go:build linux && cgo && (amd64 || arm64)

package cshim

// #include "shim.h"
import "C"

import "sync"

// baseFuncs are the functions the C side of the shim calls itself.
var baseFuncs = [C.CANN_BASE_COUNT]struct {
	library Library
	name    string
}{
	C.CANN_SET_CONTEXT:      {ACL, "aclrtSetCurrentContext"},
	C.CANN_ERROR_TEXT:       {ACL, "aclGetRecentErrMsg"},
	C.CANN_CREATE_TENSOR:    {NNOp, "aclCreateTensor"},
	C.CANN_DESTROY_TENSOR:   {NNOp, "aclDestroyTensor"},
	C.CANN_CREATE_TENSORS:   {NNOp, "aclCreateTensorList"},
	C.CANN_DESTROY_TENSORS:  {NNOp, "aclDestroyTensorList"},
	C.CANN_CREATE_SCALAR:    {NNOp, "aclCreateScalar"},
	C.CANN_DESTROY_SCALAR:   {NNOp, "aclDestroyScalar"},
	C.CANN_CREATE_SCALARS:   {NNOp, "aclCreateScalarList"},
	C.CANN_DESTROY_SCALARS:  {NNOp, "aclDestroyScalarList"},
	C.CANN_CREATE_INTS:      {NNOp, "aclCreateIntArray"},
	C.CANN_DESTROY_INTS:     {NNOp, "aclDestroyIntArray"},
	C.CANN_CREATE_FLOATS:    {NNOp, "aclCreateFloatArray"},
	C.CANN_DESTROY_FLOATS:   {NNOp, "aclDestroyFloatArray"},
	C.CANN_CREATE_BOOLS:     {NNOp, "aclCreateBoolArray"},
	C.CANN_DESTROY_BOOLS:    {NNOp, "aclDestroyBoolArray"},
	C.CANN_DESTROY_EXECUTOR: {NNOp, "aclDestroyAclOpExecutor"},
	C.CANN_SET_REPEATABLE:   {NNOp, "aclSetAclOpExecutorRepeatable"},
	C.CANN_SET_INPUT:        {NNOp, "aclSetInputTensorAddr"},
	C.CANN_SET_OUTPUT:       {NNOp, "aclSetOutputTensorAddr"},
	C.CANN_BYPASS_CACHE:     {NNOp, "InitPTACacheThreadLocal"},
	C.CANN_USE_CACHE:        {NNOp, "UnInitPTACacheThreadLocal"},
	C.CANN_EXCEPTION_TASK:   {ACL, "aclrtGetTaskIdFromExceptionInfo"},
	C.CANN_EXCEPTION_STREAM: {ACL, "aclrtGetStreamIdFromExceptionInfo"},
	C.CANN_EXCEPTION_THREAD: {ACL, "aclrtGetThreadIdFromExceptionInfo"},
	C.CANN_EXCEPTION_DEVICE: {ACL, "aclrtGetDeviceIdFromExceptionInfo"},
	C.CANN_EXCEPTION_CODE:   {ACL, "aclrtGetErrorCodeFromExceptionInfo"},
}

// optional reports whether launches work without the function. No header of CANN has those that
// take the cache of executors out of the way of Prepare.
func optional(i int) bool { return i >= C.CANN_BYPASS_CACHE }

// bindRuntime finds the two runtime functions every call relies on. Without them calls
// still work, for a library that has no contexts: the error surfaces at the call itself.
var bindRuntime = sync.OnceFunc(func() {
	for _, i := range []int{C.CANN_SET_CONTEXT, C.CANN_ERROR_TEXT} {
		if p, err := resolve(baseFuncs[i].library, baseFuncs[i].name); err == nil {
			C.cann_set_base(C.int(i), C.uint64_t(p))
		}
	}
})

// bindExceptions finds what reads the record of a failed task.
var bindExceptions = sync.OnceFunc(func() {
	for i := C.CANN_EXCEPTION_TASK; i <= C.CANN_EXCEPTION_CODE; i++ {
		if p, err := resolve(baseFuncs[i].library, baseFuncs[i].name); err == nil {
			C.cann_set_base(C.int(i), C.uint64_t(p))
		}
	}
})

// bindBase finds the aclnn object functions that launches need.
var bindBase = sync.OnceValue(func() error {
	bindRuntime()
	for i, f := range baseFuncs {
		p, err := resolve(f.library, f.name)
		if err != nil && optional(i) {
			continue
		}
		if err != nil {
			return err
		}
		C.cann_set_base(C.int(i), C.uint64_t(p))
	}
	return nil
})

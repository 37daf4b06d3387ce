package ccl

import (
	"errors"
	"fmt"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/rt"
)

// Result codes that this package returns.
const (
	badParameter = int32(abi.HCCL_E_PARA)
	nullPointer  = int32(abi.HCCL_E_PTR)
	internal     = int32(abi.HCCL_E_INTERNAL)
	notSupported = int32(abi.HCCL_E_NOT_SUPPORT)
	unavailable  = int32(abi.HCCL_E_UNAVAIL)
	timedOut     = int32(abi.HCCL_E_TIMEOUT)
	runtimeError = int32(abi.HCCL_E_RUNTIME)
	tryAgain     = int32(abi.HCCL_E_AGAIN)
	remoteError  = int32(abi.HCCL_E_REMOTE)
	suspending   = int32(abi.HCCL_E_SUSPENDING)
)

// Codes that the stream's next synchronising call returns after a collective failed.
const (
	faultTimeout  = int32(abi.ACL_ERROR_RT_FFTS_PLUS_TIMEOUT)
	faultMismatch = int32(abi.ACL_ERROR_RT_FFTS_PLUS_EXCEPTION)
	faultKernel   = int32(abi.ACL_ERROR_RT_AICORE_EXCEPTION) // an operator's kernel gives up
	faultLost     = int32(abi.ACL_ERROR_RT_SUSPECT_REMOTE_ERROR)
	faultAborted  = int32(abi.ACL_ERROR_RT_STREAM_ABORT)
)

// Error is an error that a call returns immediately, unlike an error of the stream.
type Error struct {
	Code int32 // HcclResult
	Text string
}

func (e *Error) Error() string { return e.Text }

func refuse(code int32, format string, args ...any) error {
	return &Error{Code: code, Text: fmt.Sprintf(format, args...)}
}

func null(function, argument string) error {
	return refuse(nullPointer, "EI0003: %s: %s is null", function, argument)
}

func fault(code int32, format string, args ...any) *rt.Fault {
	return &rt.Fault{Code: code, Text: fmt.Sprintf(format, args...)}
}

// answer returns the result code for err and stores the error text on the thread.
func answer(t *rt.Thread, err error) rt.Code {
	if err == nil {
		return 0
	}
	code := internal
	var e *Error
	if errors.As(err, &e) {
		code = e.Code
	}
	return t.Fail(code, "%v", err)
}

// texts holds the strings of HcclGetErrorString, by code.
var texts = [...]string{
	"no error", "parameter error", "empty pointer", "memory error", "internal error", "feature not supported",
	"not found", "resource unavailable", "system call failed", "timeout", "file cannot be opened",
	"TCP connection failed", "RoCE connection failed", "TCP transfer failed", "RoCE transfer failed",
	"runtime call failed", "driver call failed", "profiling call failed", "CCE call failed", "network call failed",
	"try again", "error cqe", "communicator is suspended", "retry constraint", "out of memory",
}

const unknownText = "unknown error"

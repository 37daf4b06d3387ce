package rt

import "github.com/goascend/cann/internal/abi"

// The error codes that this package returns. For a wrong parameter the acl layer returns
// InvalidParam and the runtime layer below it ParamInvalid; each function returns the one that
// CANN's function returns.
const (
	InvalidParam        = int32(abi.ACL_ERROR_INVALID_PARAM)
	Uninitialized       = int32(abi.ACL_ERROR_UNINITIALIZE)
	RepeatInitialize    = int32(abi.ACL_ERROR_REPEAT_INITIALIZE)
	InvalidFile         = int32(abi.ACL_ERROR_INVALID_FILE)
	ParseFile           = int32(abi.ACL_ERROR_PARSE_FILE)
	FeatureUnsupported  = int32(abi.ACL_ERROR_FEATURE_UNSUPPORTED)
	RepeatFinalize      = int32(abi.ACL_ERROR_REPEAT_FINALIZE)
	Failure             = int32(abi.ACL_ERROR_FAILURE)
	InternalError       = int32(abi.ACL_ERROR_INTERNAL_ERROR)
	ParamInvalid        = int32(abi.ACL_ERROR_RT_PARAM_INVALID)
	InvalidDevice       = int32(abi.ACL_ERROR_RT_INVALID_DEVICEID)
	ContextNull         = int32(abi.ACL_ERROR_RT_CONTEXT_NULL)
	StreamContext       = int32(abi.ACL_ERROR_RT_STREAM_CONTEXT)
	TimestampInvalid    = int32(abi.ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID)
	StreamSubscribe     = int32(abi.ACL_ERROR_RT_STREAM_SUBSCRIBE)
	ThreadSubscribe     = int32(abi.ACL_ERROR_RT_THREAD_SUBSCRIBE)
	StreamNoCallback    = int32(abi.ACL_ERROR_RT_STREAM_NO_CB_REG)
	MemoryType          = int32(abi.ACL_ERROR_RT_INVALID_MEMORY_TYPE)
	SysParamNotSet      = int32(abi.ACL_ERROR_RT_SYSPARAMOPT_NOT_SET)
	DeviceTaskAbort     = int32(abi.ACL_ERROR_RT_DEVICE_TASK_ABORT)
	StreamAbort         = int32(abi.ACL_ERROR_RT_STREAM_ABORT)
	FeatureNotSupported = int32(abi.ACL_ERROR_RT_FEATURE_NOT_SUPPORT)
	MemoryAllocation    = int32(abi.ACL_ERROR_RT_MEMORY_ALLOCATION)
	NoDevice            = int32(abi.ACL_ERROR_RT_NO_DEVICE)
	NoEventResource     = int32(abi.ACL_ERROR_RT_NO_EVENT_RESOURCE)
	NoNotifyResource    = int32(abi.ACL_ERROR_RT_NO_NOTIFY_RESOURCE)
	WaitTimeout         = int32(abi.ACL_ERROR_RT_WAIT_TIMEOUT)
	NoStreamResource    = int32(abi.ACL_ERROR_RT_NO_STREAM_RESOURCE)
	RuntimeInternal     = int32(abi.ACL_ERROR_RT_INTERNAL_ERROR)
	ContextReleased     = int32(abi.ACL_ERROR_RT_CONTEXT_RELEASE_ERROR)
	ReportTimeout       = int32(abi.ACL_ERROR_RT_REPORT_TIMEOUT)
	AICPUException      = int32(abi.ACL_ERROR_RT_AICPU_EXCEPTION)
	VectorException     = int32(abi.ACL_ERROR_RT_VECTOR_CORE_EXCEPTION)
	StreamSyncTimeout   = int32(abi.ACL_ERROR_RT_STREAM_SYNC_TIMEOUT)
	EventSyncTimeout    = int32(abi.ACL_ERROR_RT_EVENT_SYNC_TIMEOUT)

	// Captures and graphs.
	ModelCaptured      = int32(abi.ACL_ERROR_RT_MODEL_CAPTURED)
	ModelRunning       = int32(abi.ACL_ERROR_RT_MODEL_RUNNING)
	ModelUpdateFailed  = int32(abi.ACL_ERROR_RT_MODEL_UPDATE_FAILED)
	CaptureDependency  = int32(abi.ACL_ERROR_RT_CAPTURE_DEPENDENCY)
	StreamUnjoined     = int32(abi.ACL_ERROR_RT_STREAM_UNJOINED)
	StreamCaptured     = int32(abi.ACL_ERROR_RT_STREAM_CAPTURED)
	EventCaptured      = int32(abi.ACL_ERROR_RT_EVENT_CAPTURED)
	StreamNotCaptured  = int32(abi.ACL_ERROR_RT_STREAM_NOT_CAPTURED)
	CaptureForbids     = int32(abi.ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT)
	CaptureImplicit    = int32(abi.ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT)
	CaptureUnmatched   = int32(abi.ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED)
	CaptureWrongThread = int32(abi.ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD)
	CaptureBlocksAsync = int32(107041) // ACL_ERROR_RT_CAPTURE_MODE_BLOCK_ASYNC, not in the table
	CaptureInvalidated = int32(abi.ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED)
)

// Null records the error of a null argument, with the code of the acl layer, and returns the code.
func (t *Thread) Null(function, argument string) Code {
	return t.Fail(InvalidParam, "EH0002: %s: %s is null", function, argument)
}

// NullBelow is Null with the code of the runtime layer, for a pointer that the acl layer passes on.
func (t *Thread) NullBelow(function, argument string) Code {
	return t.Fail(ParamInvalid, "EE1004: %s: %s is null", function, argument)
}

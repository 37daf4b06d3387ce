package rt

import "github.com/goascend/cann/internal/abi"

// The codes this package answers. The acl layer says invalidParam where the runtime layer
// below it says paramInvalid; which call says which is part of the behaviour.
const (
	invalidParam        = int32(abi.ACL_ERROR_INVALID_PARAM)
	repeatInitialize    = int32(abi.ACL_ERROR_REPEAT_INITIALIZE)
	invalidFile         = int32(abi.ACL_ERROR_INVALID_FILE)
	parseFile           = int32(abi.ACL_ERROR_PARSE_FILE)
	repeatFinalize      = int32(abi.ACL_ERROR_REPEAT_FINALIZE)
	failure             = int32(abi.ACL_ERROR_FAILURE)
	internalError       = int32(abi.ACL_ERROR_INTERNAL_ERROR)
	paramInvalid        = int32(abi.ACL_ERROR_RT_PARAM_INVALID)
	invalidDevice       = int32(abi.ACL_ERROR_RT_INVALID_DEVICEID)
	contextNull         = int32(abi.ACL_ERROR_RT_CONTEXT_NULL)
	streamContext       = int32(abi.ACL_ERROR_RT_STREAM_CONTEXT)
	timestampInvalid    = int32(abi.ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID)
	streamSubscribe     = int32(abi.ACL_ERROR_RT_STREAM_SUBSCRIBE)
	threadSubscribe     = int32(abi.ACL_ERROR_RT_THREAD_SUBSCRIBE)
	streamNoCallback    = int32(abi.ACL_ERROR_RT_STREAM_NO_CB_REG)
	sysParamNotSet      = int32(abi.ACL_ERROR_RT_SYSPARAMOPT_NOT_SET)
	deviceTaskAbort     = int32(abi.ACL_ERROR_RT_DEVICE_TASK_ABORT)
	streamAbort         = int32(abi.ACL_ERROR_RT_STREAM_ABORT)
	featureNotSupported = int32(abi.ACL_ERROR_RT_FEATURE_NOT_SUPPORT)
	memoryAllocation    = int32(abi.ACL_ERROR_RT_MEMORY_ALLOCATION)
	noDevice            = int32(abi.ACL_ERROR_RT_NO_DEVICE)
	noEventResource     = int32(abi.ACL_ERROR_RT_NO_EVENT_RESOURCE)
	noNotifyResource    = int32(abi.ACL_ERROR_RT_NO_NOTIFY_RESOURCE)
	waitTimeout         = int32(abi.ACL_ERROR_RT_WAIT_TIMEOUT)
	noStreamResource    = int32(abi.ACL_ERROR_RT_NO_STREAM_RESOURCE)
	runtimeInternal     = int32(abi.ACL_ERROR_RT_INTERNAL_ERROR)
	contextReleased     = int32(abi.ACL_ERROR_RT_CONTEXT_RELEASE_ERROR)
	reportTimeout       = int32(abi.ACL_ERROR_RT_REPORT_TIMEOUT)
	vectorException     = int32(abi.ACL_ERROR_RT_VECTOR_CORE_EXCEPTION)
	streamSyncTimeout   = int32(abi.ACL_ERROR_RT_STREAM_SYNC_TIMEOUT)
	eventSyncTimeout    = int32(abi.ACL_ERROR_RT_EVENT_SYNC_TIMEOUT)
)

// null refuses a null out-pointer or argument the acl layer checks.
func (t *Thread) null(function, argument string) uint64 {
	return t.Fail(invalidParam, "EH0002: %s: %s is null", function, argument)
}

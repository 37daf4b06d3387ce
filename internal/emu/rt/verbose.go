package rt

import "github.com/goascend/cann/internal/abi"

// errorInfoHead is the first part of C's aclrtErrorInfo. The details that follow describe broken
// memory, which the emulator does not have.
type errorInfoHead struct {
	_    [2]uint8 // try repair and has detail: always 0
	_    [2]uint8
	kind int32
}

// aclrtGetErrorVerbose reports a fault that is pending on the device or has stopped a context. The
// fault is never repairable.
func (r *Runtime) aclrtGetErrorVerbose(device *Device, errorInfo Out[errorInfoHead]) Code {
	head := errorInfoHead{kind: int32(abi.ACL_RT_NO_ERROR)}
	for _, s := range device.allStreams() {
		s.mu.Lock()
		if s.fault != nil || s.ctx.failure.Load() != nil {
			head.kind = int32(abi.ACL_RT_ERROR_OTHERS)
		}
		s.mu.Unlock()
	}
	errorInfo.Set(head)
	return 0
}

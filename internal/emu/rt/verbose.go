package rt

import "github.com/goascend/cann/internal/abi"

// errorInfoHead is the head of C's aclrtErrorInfo; the details behind it are of broken memory,
// which the emulator has not.
type errorInfoHead struct {
	tryRepair, hasDetail uint8
	_                    [2]uint8
	kind                 int32
}

// errorVerbose says whether a fault waits on the device for the call that reports it, or has
// stopped a context: never one that could be repaired.
func (r *Runtime) errorVerbose(t *Thread, a []uint64) uint64 {
	const function = "aclrtGetErrorVerbose"
	d, code := r.device(t, int32(a[0]))
	if d == nil {
		return code
	}
	if a[1] == 0 {
		return t.null(function, "errorInfo")
	}
	head := errorInfoHead{kind: int32(abi.ACL_RT_NO_ERROR)}
	for _, s := range d.allStreams() {
		s.mu.Lock()
		if s.fault != nil || s.ctx.failure.Load() != nil {
			head.kind = int32(abi.ACL_RT_ERROR_OTHERS)
		}
		s.mu.Unlock()
	}
	Write(a[1], head)
	return 0
}

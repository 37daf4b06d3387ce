package rt

func (r *Runtime) aclGetRecentErrMsg(t *Thread) uintptr { return uintptr(t.TakeText()) }

func (r *Runtime) aclrtPeekAtLastError(t *Thread, level int32) Code { return t.lastError(level, false) }

func (r *Runtime) aclrtGetLastError(t *Thread, level int32) Code { return t.lastError(level, true) }

// lastError returns the code of the thread's last failed call. The only level is 0, the thread.
func (t *Thread) lastError(level int32, clear bool) Code {
	if level != 0 {
		return Code(InvalidParam)
	}
	code := t.LastError
	if clear {
		t.LastError = 0
	}
	return Code(uint32(code))
}

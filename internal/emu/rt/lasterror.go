package rt

// errorFunctions read and clear what the thread's failed calls left.
func (r *Runtime) errorFunctions() table {
	return table{
		"aclGetRecentErrMsg":   func(t *Thread, _ []uint64) uint64 { return t.TakeText() },
		"aclrtPeekAtLastError": func(t *Thread, a []uint64) uint64 { return t.lastError(a, false) },
		"aclrtGetLastError":    func(t *Thread, a []uint64) uint64 { return t.lastError(a, true) },
		"aclrtGetErrorVerbose": r.errorVerbose,
	}
}

// lastError answers the code of the thread's last failed call. Only level 0, the thread's,
// exists.
func (t *Thread) lastError(a []uint64, clear bool) uint64 {
	if int32(a[0]) != 0 {
		return uint64(invalidParam)
	}
	code := t.LastError
	if clear {
		t.LastError = 0
	}
	return uint64(uint32(code))
}

package rt

// overflowStatus is the number of bytes of an overflow status.
const overflowStatus = 64

// overflowFunctions: the emulator computes with infinities, as a device in INF/NaN mode
// does, so no stream ever has an overflow to report.
func (r *Runtime) overflowFunctions() table {
	return table{
		"aclrtGetOverflowStatus":       r.getOverflow,
		"aclrtResetOverflowStatus":     r.resetOverflow,
		"aclrtSetStreamOverflowSwitch": r.setOverflowSwitch,
		"aclrtGetStreamOverflowSwitch": r.getOverflowSwitch,
	}
}

// getOverflow queues the writing of a status, which says that nothing overflowed.
func (r *Runtime) getOverflow(t *Thread, a []uint64) uint64 {
	const function = "aclrtGetOverflowStatus"
	if a[0] == 0 {
		return t.null(function, "outputAddr")
	}
	if a[1] != overflowStatus {
		return t.Fail(paramInvalid, "EE1003: %s: outputSize %d; a status has %d bytes", function, a[1], overflowStatus)
	}
	return r.memsetAsync(t, []uint64{a[0], a[1], 0, a[1], a[2]})
}

func (r *Runtime) resetOverflow(t *Thread, a []uint64) uint64 {
	_, code := r.Stream(t, a[0])
	return uint64(uint32(code))
}

func (r *Runtime) setOverflowSwitch(t *Thread, a []uint64) uint64 {
	s, code := r.Stream(t, a[0])
	if s == nil {
		return uint64(uint32(code))
	}
	if uint32(a[1]) > 1 {
		return t.Fail(paramInvalid, "EE1003: aclrtSetStreamOverflowSwitch: flag %d; 0 or 1 are possible", uint32(a[1]))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.overflow = uint32(a[1])
	return 0
}

func (r *Runtime) getOverflowSwitch(t *Thread, a []uint64) uint64 {
	return property(r, t, "aclrtGetStreamOverflowSwitch", a[0], a[1], func(s *Stream) uint32 {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.overflow
	})
}

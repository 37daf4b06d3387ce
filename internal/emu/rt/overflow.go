package rt

// overflowStatus is the size of an overflow status in bytes.
const overflowStatus = 64

// The emulator computes with infinities, as a device in INF/NaN mode does, so no stream ever has an
// overflow to report.

// aclrtGetOverflowStatus queues a task that writes a status without an overflow.
func (r *Runtime) aclrtGetOverflowStatus(t *Thread, outputAddr Address, outputSize uint64, stream *Stream) Code {
	const function = "aclrtGetOverflowStatus"
	if outputSize != overflowStatus {
		return t.Fail(ParamInvalid, "EE1003: %s: outputSize %d; a status has %d bytes", function, outputSize, overflowStatus)
	}
	return r.aclrtMemsetAsync(t, uintptr(outputAddr), outputSize, 0, outputSize, stream)
}

func (r *Runtime) aclrtResetOverflowStatus(*Stream) Code { return 0 }

func (r *Runtime) aclrtSetStreamOverflowSwitch(t *Thread, stream *Stream, flag uint32) Code {
	if flag > 1 {
		return t.Fail(ParamInvalid, "EE1003: aclrtSetStreamOverflowSwitch: flag %d; 0 or 1 are possible", flag)
	}
	stream.mu.Lock()
	defer stream.mu.Unlock()
	stream.overflow = flag
	return 0
}

func (r *Runtime) aclrtGetStreamOverflowSwitch(stream *Stream, flag Out[uint32]) Code {
	stream.mu.Lock()
	defer stream.mu.Unlock()
	flag.Set(stream.overflow)
	return 0
}

package rt

import "github.com/goascend/cann/internal/abi"

// coreLimits bound the cube and vector cores that operators may use; 0 sets no bound. The
// emulator keeps and answers them: they change how CANN's operators tile, not their results.
type coreLimits [2]uint32

func (r *Runtime) limitFunctions() table {
	return table{
		"aclrtSetDeviceResLimit":             r.setDeviceLimit,
		"aclrtGetDeviceResLimit":             r.getDeviceLimit,
		"aclrtResetDeviceResLimit":           r.resetDeviceLimit,
		"aclrtSetStreamResLimit":             r.setStreamLimit,
		"aclrtGetStreamResLimit":             r.getStreamLimit,
		"aclrtResetStreamResLimit":           r.resetStreamLimit,
		"aclrtUseStreamResInCurrentThread":   r.useStreamLimit,
		"aclrtUnuseStreamResInCurrentThread": r.unuseStreamLimit,
		"aclrtGetResInCurrentThread":         r.threadLimit,
	}
}

// cores is how many cores of a type the chip has; ok is false for an unknown type.
func (r *Runtime) cores(kind int32) (n uint32, ok bool) {
	chip := socs[r.config.SoC]
	switch kind {
	case int32(abi.ACL_RT_DEV_RES_CUBE_CORE):
		return uint32(chip.cube), true
	case int32(abi.ACL_RT_DEV_RES_VECTOR_CORE):
		return uint32(chip.vector), true
	}
	return 0, false
}

func (r *Runtime) checkLimit(t *Thread, function string, kind int32, value uint32) uint64 {
	if n, ok := r.cores(kind); !ok || value == 0 || value > n {
		return t.Fail(paramInvalid, "EE1003: %s: type %d, value %d; cube 0 or vector 1, and 1 to %d cores are possible", function, kind, value, n)
	}
	return 0
}

// effective is the first of the limits that is set, else what the chip has.
func (r *Runtime) effective(t *Thread, function string, kind int32, out uint64, limits ...coreLimits) uint64 {
	if out == 0 {
		return t.null(function, "value")
	}
	n, ok := r.cores(kind)
	if !ok {
		return t.Fail(paramInvalid, "EE1003: %s: type %d; cube 0 or vector 1 are possible", function, kind)
	}
	for _, l := range limits {
		if l[kind] != 0 {
			n = l[kind]
			break
		}
	}
	Write(out, n)
	return 0
}

func (d *Device) limits() coreLimits {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cores
}

func (s *Stream) limits() coreLimits {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cores
}

func (r *Runtime) setDeviceLimit(t *Thread, a []uint64) uint64 {
	d, code := r.device(t, int32(a[0]))
	if d == nil {
		return code
	}
	if code := r.checkLimit(t, "aclrtSetDeviceResLimit", int32(a[1]), uint32(a[2])); code != 0 {
		return code
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cores[a[1]] = uint32(a[2])
	return 0
}

func (r *Runtime) getDeviceLimit(t *Thread, a []uint64) uint64 {
	d, code := r.device(t, int32(a[0]))
	if d == nil {
		return code
	}
	return r.effective(t, "aclrtGetDeviceResLimit", int32(a[1]), a[2], d.limits())
}

func (r *Runtime) resetDeviceLimit(t *Thread, a []uint64) uint64 {
	d, code := r.device(t, int32(a[0]))
	if d == nil {
		return code
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cores = coreLimits{}
	return 0
}

func (r *Runtime) setStreamLimit(t *Thread, a []uint64) uint64 {
	s, code := r.Stream(t, a[0])
	if s == nil {
		return uint64(uint32(code))
	}
	if code := r.checkLimit(t, "aclrtSetStreamResLimit", int32(a[1]), uint32(a[2])); code != 0 {
		return code
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cores[a[1]] = uint32(a[2])
	return 0
}

func (r *Runtime) getStreamLimit(t *Thread, a []uint64) uint64 {
	s, code := r.Stream(t, a[0])
	if s == nil {
		return uint64(uint32(code))
	}
	return r.effective(t, "aclrtGetStreamResLimit", int32(a[1]), a[2], s.limits(), s.ctx.device.limits())
}

func (r *Runtime) resetStreamLimit(t *Thread, a []uint64) uint64 {
	s, code := r.Stream(t, a[0])
	if s == nil {
		return uint64(uint32(code))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cores = coreLimits{}
	return 0
}

func (r *Runtime) useStreamLimit(t *Thread, a []uint64) uint64 {
	s, code := r.Stream(t, a[0])
	if s == nil {
		return uint64(uint32(code))
	}
	t.limiter = s.handle
	return 0
}

func (r *Runtime) unuseStreamLimit(t *Thread, a []uint64) uint64 {
	if s, code := r.Stream(t, a[0]); s == nil {
		return uint64(uint32(code))
	}
	t.limiter = 0
	return 0
}

// threadLimit is what phase one of an operator asks: the limit of the stream in use by the
// thread, then the process's for the device, then the chip's.
func (r *Runtime) threadLimit(t *Thread, a []uint64) uint64 {
	c, code := r.current(t)
	if c == nil {
		return code
	}
	var own coreLimits
	if s, ok := Lookup[*Stream](&r.Handles, t.limiter); ok {
		own = s.limits()
	}
	return r.effective(t, "aclrtGetResInCurrentThread", int32(a[0]), a[1], own, c.device.limits())
}

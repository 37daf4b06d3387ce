package rt

import "github.com/goascend/cann/internal/abi"

// coreLimits limits the numbers of cube and vector cores that operators may use; 0 means no limit.
// The emulator only stores them: in CANN they change the tiling of operators, not their results.
type coreLimits [2]uint32

// cores returns the chip's number of cores of a type; ok is false for an unknown type.
func (r *Runtime) cores(kind int32) (n uint32, ok bool) {
	chip := r.chip()
	switch kind {
	case int32(abi.ACL_RT_DEV_RES_CUBE_CORE):
		return uint32(chip.Cube), true
	case int32(abi.ACL_RT_DEV_RES_VECTOR_CORE):
		return uint32(chip.Vector), true
	}
	return 0, false
}

func (r *Runtime) checkLimit(t *Thread, function string, kind int32, value uint32) Code {
	if n, ok := r.cores(kind); !ok || value == 0 || value > n {
		return t.Fail(ParamInvalid, "EE1003: %s: type %d, value %d; cube 0 or vector 1, and 1 to %d cores are possible", function, kind, value, n)
	}
	return 0
}

// effective writes the first limit that is set, or the chip's number of cores if none is.
func (r *Runtime) effective(t *Thread, function string, kind int32, value Out[uint32], limits ...coreLimits) Code {
	n, ok := r.cores(kind)
	if !ok {
		return t.Fail(ParamInvalid, "EE1003: %s: type %d; cube 0 or vector 1 are possible", function, kind)
	}
	for _, l := range limits {
		if l[kind] != 0 {
			n = l[kind]
			break
		}
	}
	value.Set(n)
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

func (r *Runtime) aclrtSetDeviceResLimit(t *Thread, device *Device, typ int32, value uint32) Code {
	code := r.checkLimit(t, "aclrtSetDeviceResLimit", typ, value)
	if code == 0 {
		device.mu.Lock()
		defer device.mu.Unlock()
		device.cores[typ] = value
	}
	return code
}

func (r *Runtime) aclrtGetDeviceResLimit(t *Thread, device *Device, typ int32, value Out[uint32]) Code {
	return r.effective(t, "aclrtGetDeviceResLimit", typ, value, device.limits())
}

func (r *Runtime) aclrtResetDeviceResLimit(device *Device) Code {
	device.mu.Lock()
	defer device.mu.Unlock()
	device.cores = coreLimits{}
	return 0
}

func (r *Runtime) aclrtSetStreamResLimit(t *Thread, stream *Stream, typ int32, value uint32) Code {
	code := r.checkLimit(t, "aclrtSetStreamResLimit", typ, value)
	if code == 0 {
		stream.mu.Lock()
		defer stream.mu.Unlock()
		stream.cores[typ] = value
	}
	return code
}

func (r *Runtime) aclrtGetStreamResLimit(t *Thread, stream *Stream, typ int32, value Out[uint32]) Code {
	return r.effective(t, "aclrtGetStreamResLimit", typ, value, stream.limits(), stream.ctx.device.limits())
}

func (r *Runtime) aclrtResetStreamResLimit(stream *Stream) Code {
	stream.mu.Lock()
	defer stream.mu.Unlock()
	stream.cores = coreLimits{}
	return 0
}

func (r *Runtime) aclrtUseStreamResInCurrentThread(t *Thread, stream *Stream) Code {
	t.limiter = stream.handle
	return 0
}

func (r *Runtime) aclrtUnuseStreamResInCurrentThread(t *Thread, _ *Stream) Code {
	t.limiter = 0
	return 0
}

// aclrtGetResInCurrentThread returns the limit that applies in phase one of an operator: the limit
// of the stream that the thread uses, else the process's limit for the device, else the chip's
// number.
func (r *Runtime) aclrtGetResInCurrentThread(t *Thread, typ int32, value Out[uint32]) Code {
	c, code := r.Current(t)
	if c == nil {
		return code
	}
	var own coreLimits
	if s, ok := Lookup[*Stream](&r.Handles, t.limiter); ok {
		own = s.limits()
	}
	return r.effective(t, "aclrtGetResInCurrentThread", typ, value, own, c.device.limits())
}

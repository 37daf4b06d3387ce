package rt

import (
	"slices"

	"github.com/goascend/cann/internal/abi"
)

func (r *Runtime) streamFunctions() table {
	return table{
		"aclrtCreateStream":                 r.createStream,
		"aclrtCreateStreamWithConfig":       r.createStreamWithConfig,
		"aclrtCreateStreamV2":               r.createStreamV2,
		"aclrtCreateStreamConfigHandle":     r.createStreamConfig,
		"aclrtSetStreamConfigOpt":           r.setStreamConfig,
		"aclrtDestroyStreamConfigHandle":    r.destroyStreamConfig,
		"aclrtDestroyStream":                r.destroyStream,
		"aclrtDestroyStreamForce":           r.destroyStreamForce,
		"aclrtSynchronizeStream":            r.synchronizeStream,
		"aclrtSynchronizeStreamWithTimeout": r.synchronizeStreamWithTimeout,
		"aclrtStreamQuery":                  r.queryStream,
		"aclrtStreamAbort":                  r.abortStream,
		"aclrtSetStreamFailureMode":         r.setFailureMode,
		"aclrtStreamGetId":                  r.streamID,
		"aclrtStreamGetPriority":            r.streamPriority,
		"aclrtStreamGetFlags":               r.streamFlags,
		"aclrtSetStreamAttribute":           r.setStreamAttribute,
		"aclrtGetStreamAttribute":           r.getStreamAttribute,
		"aclrtGetStreamAvailableNum":        r.availableStreams,
		"aclrtCtxGetCurrentDefaultStream":   r.currentDefaultStream,
	}
}

// makeStream creates a stream of the current context and writes its handle.
func (r *Runtime) makeStream(t *Thread, out uint64, flags, priority uint32) uint64 {
	if out == 0 {
		return t.null("aclrtCreateStream", "stream")
	}
	c, code := r.current(t)
	if c == nil {
		return code
	}
	const known = abi.ACL_STREAM_FAST_LAUNCH | abi.ACL_STREAM_FAST_SYNC | abi.ACL_STREAM_PERSISTENT |
		abi.ACL_STREAM_HUGE | abi.ACL_STREAM_CPU_SCHEDULE | abi.ACL_STREAM_DEVICE_USE_ONLY
	if flags&^uint32(known) != 0 {
		return t.Fail(paramInvalid, "EE1003: aclrtCreateStreamWithConfig: flag %#x is unknown", flags)
	}
	c.mu.Lock()
	s, f := c.newStream(flags, priority)
	c.mu.Unlock()
	if f != nil {
		return f.report(t)
	}
	Write(out, s.handle)
	return 0
}

func (r *Runtime) createStream(t *Thread, a []uint64) uint64 { return r.makeStream(t, a[0], 0, 0) }

func (r *Runtime) createStreamWithConfig(t *Thread, a []uint64) uint64 {
	return r.makeStream(t, a[0], uint32(a[2]), uint32(a[1]))
}

// streamConfig is what aclrtCreateStreamConfigHandle hands out.
type streamConfig struct {
	flag, priority uint32
}

func (r *Runtime) createStreamConfig(*Thread, []uint64) uint64 {
	return r.Handles.New(StreamConfigKind, &streamConfig{})
}

func (r *Runtime) setStreamConfig(t *Thread, a []uint64) uint64 {
	if a[2] == 0 {
		return t.null("aclrtSetStreamConfigOpt", "attrValue")
	}
	c, ok := Lookup[*streamConfig](&r.Handles, a[0])
	if !ok {
		return t.Fail(invalidParam, "EH0001: aclrtSetStreamConfigOpt: %#x is no live configuration", a[0])
	}
	sizes := map[int32][]uint64{
		int32(abi.ACL_RT_STREAM_WORK_ADDR_PTR): {8}, int32(abi.ACL_RT_STREAM_WORK_SIZE): {8},
		int32(abi.ACL_RT_STREAM_FLAG): {4, 8}, int32(abi.ACL_RT_STREAM_PRIORITY): {4}, // programs write flags either way
	}
	attr := int32(a[1])
	if !slices.Contains(sizes[attr], a[3]) {
		return t.Fail(invalidParam, "EH0001: aclrtSetStreamConfigOpt: attribute %d with a value of %d bytes", attr, a[3])
	}
	switch attr {
	case int32(abi.ACL_RT_STREAM_FLAG):
		c.flag = Read[uint32](a[2], 1)[0]
	case int32(abi.ACL_RT_STREAM_PRIORITY):
		c.priority = Read[uint32](a[2], 1)[0]
	}
	return 0 // the work area is a matter of the hardware
}

func (r *Runtime) destroyStreamConfig(t *Thread, a []uint64) uint64 {
	if _, ok := Lookup[*streamConfig](&r.Handles, a[0]); !ok {
		return t.Fail(invalidParam, "EH0001: aclrtDestroyStreamConfigHandle: %#x is no live configuration", a[0])
	}
	r.Handles.Delete(a[0])
	return 0
}

func (r *Runtime) createStreamV2(t *Thread, a []uint64) uint64 {
	c, ok := Lookup[*streamConfig](&r.Handles, a[1])
	if !ok {
		return t.Fail(invalidParam, "EH0001: aclrtCreateStreamV2: %#x is no live configuration", a[1])
	}
	return r.makeStream(t, a[0], c.flag, c.priority)
}

func (r *Runtime) endStream(t *Thread, h uint64, drain bool) uint64 {
	if h == 0 {
		return t.null("aclrtDestroyStream", "stream")
	}
	s, code := r.Stream(t, h)
	if s == nil {
		return uint64(uint32(code))
	}
	if drain && s.capture.Load() != nil {
		return t.Fail(streamCaptured, "EE1016: aclrtDestroyStream: the stream is capturing; end the capture first")
	}
	s.close(drain)
	return 0
}

func (r *Runtime) destroyStream(t *Thread, a []uint64) uint64 { return r.endStream(t, a[0], true) }

func (r *Runtime) destroyStreamForce(t *Thread, a []uint64) uint64 {
	return r.endStream(t, a[0], false)
}

// anyStream finds a stream for the calls that switch context themselves.
func (r *Runtime) anyStream(t *Thread, h uint64) (*Stream, uint64) {
	if h != 0 {
		if s, ok := Lookup[*Stream](&r.Handles, h); ok {
			return s, 0
		}
	}
	s, code := r.Stream(t, h)
	return s, uint64(uint32(code))
}

func (r *Runtime) synchronizeStream(t *Thread, a []uint64) uint64 { return r.syncStream(t, a[0], -1) }

func (r *Runtime) synchronizeStreamWithTimeout(t *Thread, a []uint64) uint64 {
	return r.syncStream(t, a[0], int32(a[1]))
}

func (r *Runtime) syncStream(t *Thread, h uint64, milliseconds int32) uint64 {
	w, ok := newWait(milliseconds)
	if !ok {
		return t.Fail(paramInvalid, "EE1003: aclrtSynchronizeStreamWithTimeout: timeout %d ms; use -1 or a positive number", milliseconds)
	}
	s, code := r.anyStream(t, h)
	if s == nil {
		return code
	}
	if s.capture.Load() != nil {
		return t.Fail(streamCaptured, "EE1016: aclrtSynchronizeStream: the stream is capturing")
	}
	if f := s.synchronize(w); f != nil {
		return f.report(t)
	}
	return 0
}

func (r *Runtime) queryStream(t *Thread, a []uint64) uint64 {
	if a[1] == 0 {
		return t.null("aclrtStreamQuery", "status")
	}
	s, code := r.Stream(t, a[0])
	if s == nil {
		return uint64(uint32(code))
	}
	if s.capture.Load() != nil {
		return t.Fail(streamCaptured, "EE1016: aclrtStreamQuery: the stream is capturing")
	}
	done, f := s.idle()
	if f != nil {
		return f.report(t)
	}
	status := int32(abi.ACL_STREAM_STATUS_NOT_READY)
	if done {
		status = int32(abi.ACL_STREAM_STATUS_COMPLETE)
	}
	Write(a[1], status)
	return 0
}

func (r *Runtime) abortStream(t *Thread, a []uint64) uint64 {
	if a[0] == 0 {
		return t.null("aclrtStreamAbort", "stream")
	}
	s, code := r.Stream(t, a[0])
	if s == nil {
		return uint64(uint32(code))
	}
	s.abort(streamAbort)
	return 0
}

func (r *Runtime) setFailureMode(t *Thread, a []uint64) uint64 {
	if a[0] == 0 {
		return t.null("aclrtSetStreamFailureMode", "stream")
	}
	s, code := r.Stream(t, a[0])
	if s == nil {
		return uint64(uint32(code))
	}
	if a[1] != uint64(abi.ACL_CONTINUE_ON_FAILURE) && a[1] != uint64(abi.ACL_STOP_ON_FAILURE) {
		return t.Fail(paramInvalid, "EE1003: aclrtSetStreamFailureMode: mode %d is unknown", a[1])
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stop && a[1] == uint64(abi.ACL_CONTINUE_ON_FAILURE) {
		return t.Fail(featureNotSupported, "EE1005: aclrtSetStreamFailureMode: stop-on-failure cannot be taken back")
	}
	s.stop = a[1] == uint64(abi.ACL_STOP_ON_FAILURE)
	return 0
}

// property answers a number of a stream.
func property[T any](r *Runtime, t *Thread, function string, h, out uint64, of func(*Stream) T) uint64 {
	if out == 0 {
		return t.null(function, "the result pointer")
	}
	s, code := r.Stream(t, h)
	if s == nil {
		return uint64(uint32(code))
	}
	Write(out, of(s))
	return 0
}

func (r *Runtime) streamID(t *Thread, a []uint64) uint64 {
	return property(r, t, "aclrtStreamGetId", a[0], a[1], func(s *Stream) int32 { return s.id })
}

func (r *Runtime) streamPriority(t *Thread, a []uint64) uint64 {
	return property(r, t, "aclrtStreamGetPriority", a[0], a[1], func(s *Stream) uint32 { return s.priority })
}

func (r *Runtime) streamFlags(t *Thread, a []uint64) uint64 {
	return property(r, t, "aclrtStreamGetFlags", a[0], a[1], func(s *Stream) uint32 { return s.flags })
}

// The attributes of a stream: failure mode, overflow check, user tag, cache op info,
// priority; each a union of 16 bytes.
const firstAttr, failureAttr, lastAttr = 1, 1, 5

func (r *Runtime) setStreamAttribute(t *Thread, a []uint64) uint64 {
	if a[2] == 0 {
		return t.null("aclrtSetStreamAttribute", "value")
	}
	s, code := r.Stream(t, a[0])
	if s == nil {
		return uint64(uint32(code))
	}
	attr := int32(a[1])
	if attr < firstAttr || attr > lastAttr {
		return t.Fail(paramInvalid, "EE1003: aclrtSetStreamAttribute: attribute %d is unknown", attr)
	}
	if attr == failureAttr {
		return r.setFailureMode(t, []uint64{s.handle, Read[uint64](a[2], 1)[0]})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.attrs == nil {
		s.attrs = make(map[int32][16]byte)
	}
	s.attrs[attr] = [16]byte(Read[byte](a[2], 16))
	return 0
}

func (r *Runtime) getStreamAttribute(t *Thread, a []uint64) uint64 {
	attr := int32(a[1])
	if attr < firstAttr || attr > lastAttr {
		return t.Fail(paramInvalid, "EE1003: aclrtGetStreamAttribute: attribute %d is unknown", attr)
	}
	return property(r, t, "aclrtGetStreamAttribute", a[0], a[2], func(s *Stream) [16]byte {
		s.mu.Lock()
		defer s.mu.Unlock()
		v := s.attrs[attr]
		if attr == failureAttr && s.stop {
			v[0] = 1
		}
		if attr == lastAttr {
			v[0] = byte(s.priority)
		}
		return v
	})
}

func (r *Runtime) availableStreams(t *Thread, a []uint64) uint64 {
	if a[0] == 0 {
		return t.null("aclrtGetStreamAvailableNum", "streamCount")
	}
	c, code := r.current(t)
	if c == nil {
		return code
	}
	c.device.mu.Lock()
	defer c.device.mu.Unlock()
	Write(a[0], uint32(maxStreams-c.device.streams))
	return 0
}

func (r *Runtime) currentDefaultStream(t *Thread, a []uint64) uint64 {
	if a[0] == 0 {
		return t.null("aclrtCtxGetCurrentDefaultStream", "stream")
	}
	s, code := r.Stream(t, 0)
	if s == nil {
		return uint64(uint32(code))
	}
	Write(a[0], s.handle)
	return 0
}

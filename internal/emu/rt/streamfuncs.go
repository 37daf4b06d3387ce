package rt

import (
	"slices"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/knob"
)

// anyStream is a stream argument of a call that switches to the context of the stream.
type anyStream = Stream

//npugen:decode aclrtStream
func (r *Runtime) anyStream(t *Thread, h Handle) (*anyStream, Code) {
	if h != 0 {
		if s, ok := Lookup[*Stream](&r.Handles, h); ok {
			return s, 0
		}
	}
	return r.Stream(t, h)
}

// makeStream creates a stream of the current context and writes its handle. Unknown flags have no effect, as in CANN.
func (r *Runtime) makeStream(t *Thread, stream Out[Handle], flags, priority uint32) Code {
	knob.Reread() // a test may make its own stream on a device of all tests
	c, code := r.Current(t)
	if c == nil {
		return code
	}
	c.mu.Lock()
	s, f := c.newStream(flags, priority)
	c.mu.Unlock()
	if f != nil {
		return f.Report(t)
	}
	stream.Set(s.handle)
	return 0
}

func (r *Runtime) aclrtCreateStream(t *Thread, stream Out[Handle]) Code {
	return r.makeStream(t, stream, 0, 0)
}

func (r *Runtime) aclrtCreateStreamWithConfig(t *Thread, stream Out[Handle], priority, flag uint32) Code {
	return r.makeStream(t, stream, flag, priority)
}

// streamConfig is the object behind aclrtCreateStreamConfigHandle.
type streamConfig struct {
	flag, priority uint32
}

//npugen:decode aclrtStreamConfigHandle
func (r *Runtime) streamConfig(t *Thread, function string, h Handle) (*streamConfig, Code) {
	c, ok := Lookup[*streamConfig](&r.Handles, h)
	if !ok {
		return nil, t.Fail(InvalidParam, "EH0001: %s: %#x is no live configuration", function, h)
	}
	return c, 0
}

func (r *Runtime) aclrtCreateStreamConfigHandle() Handle {
	return r.Handles.New(StreamConfigKind, &streamConfig{})
}

func (r *Runtime) aclrtSetStreamConfigOpt(t *Thread, handle *streamConfig, attr int32, attrValue In[uint32], valueSize uint64) Code {
	sizes := map[int32][]uint64{
		int32(abi.ACL_RT_STREAM_WORK_ADDR_PTR): {8}, int32(abi.ACL_RT_STREAM_WORK_SIZE): {8},
		int32(abi.ACL_RT_STREAM_FLAG): {4, 8}, int32(abi.ACL_RT_STREAM_PRIORITY): {4}, // flags have 4 or 8 bytes
	}
	if !slices.Contains(sizes[attr], valueSize) {
		return t.Fail(InvalidParam, "EH0001: aclrtSetStreamConfigOpt: attribute %d with a value of %d bytes", attr, valueSize)
	}
	switch attr {
	case int32(abi.ACL_RT_STREAM_FLAG):
		handle.flag = attrValue.Get()
	case int32(abi.ACL_RT_STREAM_PRIORITY):
		handle.priority = attrValue.Get()
	}
	return 0 // the work area only matters to hardware
}

func (r *Runtime) aclrtDestroyStreamConfigHandle(t *Thread, handle Handle) Code {
	_, code := r.streamConfig(t, "aclrtDestroyStreamConfigHandle", handle)
	if code == 0 {
		r.Handles.Delete(handle)
	}
	return code
}

func (r *Runtime) aclrtCreateStreamV2(t *Thread, stream Out[Handle], handle *streamConfig) Code {
	return r.makeStream(t, stream, handle.flag, handle.priority)
}

func (r *Runtime) aclrtDestroyStream(t *Thread, stream *Stream) Code {
	if stream.Capture.Load() != nil {
		return t.Fail(StreamCaptured, "EE1016: aclrtDestroyStream: the stream is capturing; end the capture first")
	}
	stream.close(true)
	return 0
}

func (r *Runtime) aclrtDestroyStreamForce(stream *Stream) Code {
	stream.close(false)
	return 0
}

func (r *Runtime) aclrtSynchronizeStream(t *Thread, stream *anyStream) Code {
	return r.aclrtSynchronizeStreamWithTimeout(t, stream, -1)
}

func (r *Runtime) aclrtSynchronizeStreamWithTimeout(t *Thread, stream *anyStream, timeout int32) Code {
	w, ok := NewWait(timeout)
	if !ok {
		return t.Fail(ParamInvalid, "EE1003: aclrtSynchronizeStreamWithTimeout: timeout %d ms; use -1 or a positive number", timeout)
	}
	if stream.Capture.Load() != nil {
		return t.Fail(StreamCaptured, "EE1016: aclrtSynchronizeStream: the stream is capturing")
	}
	if f := stream.Synchronize(w); f != nil {
		return f.Report(t)
	}
	return 0
}

func (r *Runtime) aclrtStreamQuery(t *Thread, stream *anyStream, status Out[int32]) Code {
	if stream.Capture.Load() != nil {
		return t.Fail(StreamCaptured, "EE1016: aclrtStreamQuery: the stream is capturing")
	}
	done, f := stream.idle()
	if f != nil {
		return f.Report(t)
	}
	if done {
		status.Set(int32(abi.ACL_STREAM_STATUS_COMPLETE))
	} else {
		status.Set(int32(abi.ACL_STREAM_STATUS_NOT_READY))
	}
	return 0
}

func (r *Runtime) aclrtStreamAbort(stream *Stream) Code {
	stream.abort(StreamAbort)
	return 0
}

// aclrtSetStreamFailureMode takes only the lowest bit of the mode into account, as CANN does.
func (r *Runtime) aclrtSetStreamFailureMode(t *Thread, stream *Stream, mode uint64) Code {
	mode &= abi.ACL_STOP_ON_FAILURE
	stream.mu.Lock()
	defer stream.mu.Unlock()
	if stream.stop && mode == abi.ACL_CONTINUE_ON_FAILURE {
		return t.Fail(FeatureNotSupported, "EE1005: aclrtSetStreamFailureMode: stop-on-failure cannot be taken back")
	}
	stream.stop = mode == abi.ACL_STOP_ON_FAILURE
	return 0
}

func (r *Runtime) aclrtStreamGetId(stream *Stream, streamID Out[int32]) Code {
	streamID.Set(stream.id)
	return 0
}

func (r *Runtime) aclrtStreamGetPriority(stream *Stream, priority Out[uint32]) Code {
	priority.Set(stream.priority)
	return 0
}

func (r *Runtime) aclrtStreamGetFlags(stream *Stream, flags Out[uint32]) Code {
	flags.Set(stream.flags)
	return 0
}

// The range of stream attributes: failure mode, overflow check, user tag, cache op info, priority.
// Each value is a union of 16 bytes.
const firstAttr, failureAttr, lastAttr = 1, 1, 5

// attrValue is aclrtStreamAttrValue.
type attrValue [16]byte

func (r *Runtime) aclrtSetStreamAttribute(t *Thread, stream *Stream, stmAttrType int32, value In[attrValue]) Code {
	if stmAttrType < firstAttr || stmAttrType > lastAttr {
		return t.Fail(ParamInvalid, "EE1003: aclrtSetStreamAttribute: attribute %d is unknown", stmAttrType)
	}
	if stmAttrType == failureAttr {
		return r.aclrtSetStreamFailureMode(t, stream, In[uint64](value).Get())
	}
	stream.mu.Lock()
	defer stream.mu.Unlock()
	if stream.attrs == nil {
		stream.attrs = make(map[int32]attrValue)
	}
	stream.attrs[stmAttrType] = value.Get()
	return 0
}

func (r *Runtime) aclrtGetStreamAttribute(t *Thread, stream *Stream, stmAttrType int32, value Out[attrValue]) Code {
	if stmAttrType < firstAttr || stmAttrType > lastAttr {
		return t.Fail(ParamInvalid, "EE1003: aclrtGetStreamAttribute: attribute %d is unknown", stmAttrType)
	}
	stream.mu.Lock()
	defer stream.mu.Unlock()
	v := stream.attrs[stmAttrType]
	if stmAttrType == failureAttr && stream.stop {
		v[0] = 1
	}
	if stmAttrType == lastAttr {
		v[0] = byte(stream.priority)
	}
	value.Set(v)
	return 0
}

func (r *Runtime) aclrtGetStreamAvailableNum(t *Thread, streamCount Out[uint32]) Code {
	c, code := r.Current(t)
	if c == nil {
		return code
	}
	c.device.mu.Lock()
	defer c.device.mu.Unlock()
	streamCount.Set(uint32(maxStreams - c.device.streams))
	return 0
}

func (r *Runtime) aclrtCtxGetCurrentDefaultStream(t *Thread, stream Out[Handle]) Code {
	s, code := r.Stream(t, 0)
	if s != nil {
		stream.Set(s.handle)
	}
	return code
}

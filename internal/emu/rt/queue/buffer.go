package queue

import "github.com/goascend/cann/internal/emu/rt"

// dataBuffer is an address with a size (aclDataBuffer). It does not own the memory.
type dataBuffer struct {
	addr uintptr
	size uint64
}

func (r *Runtime) aclCreateDataBuffer(data uintptr, size uint64) rt.Handle {
	return r.Handles.New(rt.DataBufferKind, &dataBuffer{addr: data, size: size})
}

//npugen:decode aclDataBuffer
func (r *Runtime) dataBuffer(t *rt.Thread, function string, h rt.Handle) (*dataBuffer, rt.Code) {
	b, ok := rt.Lookup[*dataBuffer](&r.Handles, h)
	if !ok {
		return nil, t.Fail(rt.InvalidParam, "EH0001: %s: %#x is no data buffer, or it was destroyed", function, h)
	}
	return b, 0
}

func (r *Runtime) aclDestroyDataBuffer(t *rt.Thread, dataBuffer rt.Handle) rt.Code {
	_, code := r.dataBuffer(t, "aclDestroyDataBuffer", dataBuffer)
	if code == 0 {
		r.Handles.Delete(dataBuffer)
	}
	return code
}

func (r *Runtime) aclUpdateDataBuffer(dataBuffer *dataBuffer, data uintptr, size uint64) rt.Code {
	dataBuffer.addr, dataBuffer.size = data, size
	return 0
}

// bufferOf returns the data buffer of a handle, or a null address with size 0 for a wrong handle.
func (r *Runtime) bufferOf(h rt.Handle) (b dataBuffer) {
	if p, ok := rt.Lookup[*dataBuffer](&r.Handles, h); ok {
		b = *p
	}
	return b
}

func (r *Runtime) aclGetDataBufferAddr(dataBuffer rt.Handle) uintptr {
	return r.bufferOf(dataBuffer).addr
}
func (r *Runtime) aclGetDataBufferSizeV2(dataBuffer rt.Handle) uint64 {
	return r.bufferOf(dataBuffer).size
}
func (r *Runtime) aclGetDataBufferSize(dataBuffer rt.Handle) uint32 {
	return uint32(r.bufferOf(dataBuffer).size)
}

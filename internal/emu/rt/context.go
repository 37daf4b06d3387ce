package rt

import (
	"sync"
	"sync/atomic"
)

// Context owns streams on a device. The current context is a property of the OS thread.
type Context struct {
	handle  uint64
	device  *Device
	primary bool

	mu       sync.Mutex
	main     *Stream // default stream, made on first use
	streams  map[*Stream]struct{}
	closed   bool
	failure  atomic.Pointer[Fault] // sticky: set when a stream in stop-on-failure mode fails
	callback sync.Mutex            // host functions of a context run one at a time
	options  map[int32]int64
}

// Device returns the device on which the context's streams run.
func (c *Context) Device() *Device { return c.device }

// newContext registers a context. The caller holds d.mu.
func (d *Device) newContext(primary bool) *Context {
	c := &Context{device: d, primary: primary, streams: make(map[*Stream]struct{}), options: make(map[int32]int64)}
	c.handle = d.rt.Handles.New(ContextKind, c)
	if d.contexts == nil {
		d.contexts = make(map[*Context]struct{})
	}
	d.contexts[c] = struct{}{}
	return c
}

// Current returns the context of the thread, or nil and the code which means that the thread has no
// context. The default device of aclInit's configuration is set when a thread first needs it.
func (r *Runtime) Current(t *Thread) (*Context, Code) {
	if c, ok := Lookup[*Context](&r.Handles, t.Context); ok {
		return c, 0
	}
	r.life.mu.Lock()
	id := r.life.defaultDevice
	r.life.mu.Unlock()
	if id != nil {
		d, code := r.Device(t, *id)
		if d == nil {
			return nil, code
		}
		if code := r.aclrtSetDevice(t, d); code != 0 {
			return nil, code
		}
		c, _ := Lookup[*Context](&r.Handles, t.Context)
		return c, 0
	}
	return nil, t.Fail(ContextNull, "EE1018: this thread has no current context; call aclrtSetDevice or aclrtSetCurrentContext on it")
}

func (r *Runtime) aclrtCreateContext(t *Thread, context Out[Handle], device *Device) Code {
	device.mu.Lock()
	defer device.mu.Unlock()
	if f := device.openMemory(); f != nil {
		return f.Report(t)
	}
	c := device.newContext(false)
	t.Context = c.handle
	context.Set(c.handle)
	return 0
}

func (r *Runtime) aclrtDestroyContext(t *Thread, context Handle) Code {
	c, ok := Lookup[*Context](&r.Handles, context)
	if !ok {
		return t.Fail(ContextReleased, "EE1018: aclrtDestroyContext: %#x is no live context", context)
	}
	if c.primary {
		return t.Fail(ContextNull, "EE1003: aclrtDestroyContext: this is the primary context of device %d; use aclrtResetDevice", c.device.id)
	}
	c.destroy(true)
	if t.Context == context {
		t.Context = 0
	}
	return 0
}

// destroy ends the context and its streams; with drain it waits until queued work is done. A second
// call does nothing.
func (c *Context) destroy(drain bool) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	c.closed = true
	c.mu.Unlock()
	for _, s := range c.allStreams() {
		s.close(drain)
	}
	c.device.rt.Handles.Delete(c.handle)
	c.device.mu.Lock()
	delete(c.device.contexts, c)
	c.device.mu.Unlock()
}

func (c *Context) allStreams() []*Stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]*Stream, 0, len(c.streams))
	for s := range c.streams {
		out = append(out, s)
	}
	return out
}

func (r *Runtime) aclrtSetCurrentContext(t *Thread, context Handle) Code {
	if _, ok := Lookup[*Context](&r.Handles, context); !ok {
		return t.Fail(ParamInvalid, "EE1003: aclrtSetCurrentContext: %#x is no live context; was it destroyed?", context)
	}
	t.Context = context
	return 0
}

func (r *Runtime) aclrtGetCurrentContext(t *Thread, context Out[Handle]) Code {
	c, code := r.Current(t)
	if c != nil {
		context.Set(c.handle)
	}
	return code
}

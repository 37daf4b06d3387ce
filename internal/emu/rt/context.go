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
	failure  atomic.Pointer[Fault] // sticky, once a stream in stop-on-failure mode failed
	callback sync.Mutex            // host functions of a context run one at a time
	options  map[int32]int64
}

func (r *Runtime) contextFunctions() table {
	return table{
		"aclrtCreateContext":     r.createContext,
		"aclrtDestroyContext":    r.destroyContext,
		"aclrtSetCurrentContext": r.setCurrentContext,
		"aclrtGetCurrentContext": r.getCurrentContext,
	}
}

// newContext registers a context; d.mu is held.
func (d *Device) newContext(primary bool) *Context {
	c := &Context{device: d, primary: primary, streams: make(map[*Stream]struct{}), options: make(map[int32]int64)}
	c.handle = d.rt.Handles.New(ContextKind, c)
	if d.contexts == nil {
		d.contexts = make(map[*Context]struct{})
	}
	d.contexts[c] = struct{}{}
	return c
}

// current is the context of the thread, or nil and the code that says there is none. The
// default device of aclInit's configuration is set when a thread first needs it.
func (r *Runtime) current(t *Thread) (*Context, uint64) {
	if c, ok := Lookup[*Context](&r.Handles, t.Context); ok {
		return c, 0
	}
	r.life.mu.Lock()
	id := r.life.defaultDevice
	r.life.mu.Unlock()
	if id != nil {
		if code := r.setDevice(t, []uint64{uint64(uint32(*id))}); code != 0 {
			return nil, code
		}
		c, _ := Lookup[*Context](&r.Handles, t.Context)
		return c, 0
	}
	return nil, t.Fail(contextNull, "EE1018: this thread has no current context; call aclrtSetDevice or aclrtSetCurrentContext on it")
}

func (r *Runtime) createContext(t *Thread, a []uint64) uint64 {
	if a[0] == 0 {
		return t.null("aclrtCreateContext", "context")
	}
	d, code := r.device(t, int32(a[1]))
	if d == nil {
		return code
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if f := d.openMemory(); f != nil {
		return f.report(t)
	}
	c := d.newContext(false)
	t.Context = c.handle
	Write(a[0], c.handle)
	return 0
}

func (r *Runtime) destroyContext(t *Thread, a []uint64) uint64 {
	if a[0] == 0 {
		return t.null("aclrtDestroyContext", "context")
	}
	c, ok := Lookup[*Context](&r.Handles, a[0])
	if !ok {
		return t.Fail(contextReleased, "EE1018: aclrtDestroyContext: %#x is no live context", a[0])
	}
	if c.primary {
		return t.Fail(contextNull, "EE1003: aclrtDestroyContext: this is the primary context of device %d; use aclrtResetDevice", c.device.id)
	}
	c.destroy(true)
	if t.Context == a[0] {
		t.Context = 0
	}
	return 0
}

// destroy ends the context and its streams; drain lets queued work finish first. Closing
// twice does nothing.
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

func (r *Runtime) setCurrentContext(t *Thread, a []uint64) uint64 {
	if a[0] == 0 {
		return t.null("aclrtSetCurrentContext", "context")
	}
	if _, ok := Lookup[*Context](&r.Handles, a[0]); !ok {
		return t.Fail(paramInvalid, "EE1003: aclrtSetCurrentContext: %#x is no live context; was it destroyed?", a[0])
	}
	t.Context = a[0]
	return 0
}

func (r *Runtime) getCurrentContext(t *Thread, a []uint64) uint64 {
	if a[0] == 0 {
		return t.null("aclrtGetCurrentContext", "context")
	}
	c, code := r.current(t)
	if c == nil {
		return code
	}
	Write(a[0], c.handle)
	return 0
}

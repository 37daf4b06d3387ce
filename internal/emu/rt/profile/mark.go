package profile

import (
	"sync"
	"time"

	"github.com/goascend/cann/internal/emu/rt"
)

// marks holds the ranges that a program names for its tools (mstx). CANN_EMU_TRACE shows them among
// the host calls. A range with a stream also appears on the row of the stream, when the stream
// reaches it.
type marks struct {
	mu     sync.Mutex
	last   uint64
	ranges map[uint64]openRange
}

// openRange is a range that has begun and not ended.
type openRange struct {
	message string
	stream  rt.Handle
	domain  rt.Handle // 0 for the default domain
	begin   time.Time
}

// markDomain is a named group of marks by which tools can filter.
type markDomain struct {
	handle rt.Handle
	name   string
}

// message returns the text of a mark. It returns "" and refuses the call when the text is empty or
// the stream is neither null nor live.
func (r *Runtime) message(t *rt.Thread, function string, domain *markDomain, text *string, stream rt.Handle) string {
	if text == nil || *text == "" {
		t.Null(function, "message")
		return ""
	}
	if _, ok := rt.Lookup[*rt.Stream](&r.Handles, stream); stream != 0 && !ok {
		t.Fail(rt.ParamInvalid, "EE1003: %s: %#x is no live stream; was it destroyed?", function, stream)
		return ""
	}
	if domain != nil {
		return domain.name + ": " + *text
	}
	return *text
}

// onTrace queues a task that puts the name on the stream's row of the trace, or of the schedule.
func (r *Runtime) onTrace(t *rt.Thread, name string, planned rt.Planned, stream rt.Handle) {
	if s, ok := rt.Lookup[*rt.Stream](&r.Handles, stream); ok && (r.Trace != nil || r.Schedule != nil) {
		r.Submit(t, s, rt.Task{Name: name, Repeatable: true, Planned: &planned})
	}
}

func (r *Runtime) mark(t *rt.Thread, function string, domain *markDomain, text *string, stream rt.Handle) {
	if message := r.message(t, function, domain, text, stream); message != "" {
		r.Trace.Host(message, time.Now(), 0)
		r.onTrace(t, message, rt.Planned{Task: message}, stream)
	}
}

// startRange begins a range and returns its id, or 0 on failure.
func (r *Runtime) startRange(t *rt.Thread, function string, domain *markDomain, text *string, stream rt.Handle) uint64 {
	message := r.message(t, function, domain, text, stream)
	if message == "" {
		return 0
	}
	r.onTrace(t, "begin "+message, rt.Planned{Begin: message}, stream)
	m := &r.marks
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ranges == nil {
		m.ranges = make(map[uint64]openRange)
	}
	m.last++
	x := openRange{message: message, stream: stream, begin: time.Now()}
	if domain != nil {
		x.domain = domain.handle
	}
	m.ranges[m.last] = x
	return m.last
}

// endRange ends a range of a domain. The domain may already have been destroyed.
func (r *Runtime) endRange(t *rt.Thread, function string, domain rt.Handle, id uint64) {
	m := &r.marks
	m.mu.Lock()
	x, ok := m.ranges[id]
	if ok = ok && x.domain == domain; ok {
		delete(m.ranges, id)
	}
	m.mu.Unlock()
	if !ok {
		t.Fail(rt.InvalidParam, "EH0001: %s: range %d is not under way there", function, id)
		return
	}
	r.Trace.Host(x.message, x.begin, 0)
	r.onTrace(t, "end "+x.message, rt.Planned{End: x.message}, x.stream)
}

func (r *Runtime) mstxMarkA(t *rt.Thread, message *string, stream rt.Handle) {
	r.mark(t, "mstxMarkA", nil, message, stream)
}

func (r *Runtime) mstxRangeStartA(t *rt.Thread, message *string, stream rt.Handle) uint64 {
	return r.startRange(t, "mstxRangeStartA", nil, message, stream)
}

func (r *Runtime) mstxRangeEnd(t *rt.Thread, id uint64) { r.endRange(t, "mstxRangeEnd", 0, id) }

// mstxDomainCreateA returns a new domain at each call, also for a name that was used before.
func (r *Runtime) mstxDomainCreateA(t *rt.Thread, name *string) rt.Handle {
	if name == nil || *name == "" {
		t.Null("mstxDomainCreateA", "name")
		return 0
	}
	d := &markDomain{name: *name}
	d.handle = r.Handles.New(rt.DomainKind, d)
	return d.handle
}

//npugen:decode mstxDomainHandle_t
func (r *Runtime) domain(t *rt.Thread, function, parameter string, h rt.Handle) (*markDomain, rt.Code) {
	if h == 0 {
		return nil, t.Null(function, parameter)
	}
	d, ok := rt.Lookup[*markDomain](&r.Handles, h)
	if !ok {
		return nil, t.Fail(rt.InvalidParam, "EH0001: %s: %#x is no live domain; was it destroyed?", function, h)
	}
	return d, 0
}

// mstxDomainDestroy destroys the domain; its open ranges can still be ended.
func (r *Runtime) mstxDomainDestroy(domain *markDomain) { r.Handles.Delete(domain.handle) }

func (r *Runtime) mstxDomainMarkA(t *rt.Thread, domain *markDomain, message *string, stream rt.Handle) {
	r.mark(t, "mstxDomainMarkA", domain, message, stream)
}

func (r *Runtime) mstxDomainRangeStartA(t *rt.Thread, domain *markDomain, message *string, stream rt.Handle) uint64 {
	return r.startRange(t, "mstxDomainRangeStartA", domain, message, stream)
}

func (r *Runtime) mstxDomainRangeEnd(t *rt.Thread, domain rt.Handle, id uint64) {
	r.endRange(t, "mstxDomainRangeEnd", domain, id)
}

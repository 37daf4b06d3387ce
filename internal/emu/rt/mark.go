package rt

import (
	"sync"
	"time"
)

// marks are the ranges that a program has named for its tools (mstx). CANN_EMU_TRACE shows them
// among the host calls, and where a stream is given, on its row when it gets there.
type marks struct {
	mu     sync.Mutex
	last   uint64
	ranges map[uint64]openRange
}

// openRange is a range under way.
type openRange struct {
	message string
	stream  uint64
	domain  uint64 // handle, 0 for none
	begin   time.Time
}

// markDomain is a name that tools can choose marks by.
type markDomain struct{ name string }

func (r *Runtime) markFunctions() table {
	return table{
		"mstxMarkA":             func(t *Thread, a []uint64) uint64 { r.mark(t, "mstxMarkA", 0, a[0], a[1]); return 0 },
		"mstxRangeStartA":       func(t *Thread, a []uint64) uint64 { return r.startRange(t, "mstxRangeStartA", 0, a[0], a[1]) },
		"mstxRangeEnd":          func(t *Thread, a []uint64) uint64 { r.endRange(t, "mstxRangeEnd", 0, a[0]); return 0 },
		"mstxDomainCreateA":     r.createDomain,
		"mstxDomainDestroy":     r.destroyDomain,
		"mstxDomainMarkA":       r.markIn,
		"mstxDomainRangeStartA": r.startRangeIn,
		"mstxDomainRangeEnd":    r.endRangeIn,
	}
}

// message is the text of a mark; "" refuses the call, whose stream must be none or live.
func (r *Runtime) message(t *Thread, function, domain string, text, stream uint64) string {
	if text == 0 || CString(text) == "" {
		t.null(function, "message")
		return ""
	}
	if _, ok := Lookup[*Stream](&r.Handles, stream); stream != 0 && !ok {
		t.Fail(paramInvalid, "EE1003: %s: %#x is no live stream; was it destroyed?", function, stream)
		return ""
	}
	if domain != "" {
		return domain + ": " + CString(text)
	}
	return CString(text)
}

// onTrace leaves the name on the stream's row.
func (r *Runtime) onTrace(t *Thread, name string, stream uint64) {
	if s, ok := Lookup[*Stream](&r.Handles, stream); ok && r.Trace != nil {
		r.Submit(t, s, Task{Name: name, Repeatable: true})
	}
}

func (r *Runtime) mark(t *Thread, function string, domain, text, stream uint64) {
	name, ok := r.domainName(t, function, domain)
	if !ok {
		return
	}
	if message := r.message(t, function, name, text, stream); message != "" {
		r.Trace.Host(message, time.Now(), 0)
		r.onTrace(t, message, stream)
	}
}

// startRange gives the id of a range, or 0.
func (r *Runtime) startRange(t *Thread, function string, domain, text, stream uint64) uint64 {
	name, ok := r.domainName(t, function, domain)
	if !ok {
		return 0
	}
	message := r.message(t, function, name, text, stream)
	if message == "" {
		return 0
	}
	r.onTrace(t, "begin "+message, stream)
	m := &r.marks
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ranges == nil {
		m.ranges = make(map[uint64]openRange)
	}
	m.last++
	m.ranges[m.last] = openRange{message: message, stream: stream, domain: domain, begin: time.Now()}
	return m.last
}

func (r *Runtime) endRange(t *Thread, function string, domain, id uint64) {
	m := &r.marks
	m.mu.Lock()
	x, ok := m.ranges[id]
	if ok = ok && x.domain == domain; ok {
		delete(m.ranges, id)
	}
	m.mu.Unlock()
	if !ok {
		t.Fail(invalidParam, "EH0001: %s: range %d is not under way there", function, id)
		return
	}
	r.Trace.Host(x.message, x.begin, 0)
	r.onTrace(t, "end "+x.message, x.stream)
}

// createDomain gives the domain of a name, a new one each time.
func (r *Runtime) createDomain(t *Thread, a []uint64) uint64 {
	const function = "mstxDomainCreateA"
	if a[0] == 0 || CString(a[0]) == "" {
		t.null(function, "name")
		return 0
	}
	return r.Handles.New(DomainKind, &markDomain{CString(a[0])})
}

// domainName is "" without a domain; false refuses one that is not live.
func (r *Runtime) domainName(t *Thread, function string, h uint64) (name string, ok bool) {
	if h == 0 {
		return "", true
	}
	d, ok := Lookup[*markDomain](&r.Handles, h)
	if !ok {
		t.Fail(invalidParam, "EH0001: %s: %#x is no live domain; was it destroyed?", function, h)
		return "", false
	}
	return d.name, true
}

// domain refuses a null one, too.
func (r *Runtime) domain(t *Thread, function string, h uint64) bool {
	if h == 0 {
		t.null(function, "domain")
		return false
	}
	_, ok := r.domainName(t, function, h)
	return ok
}

// destroyDomain leaves ranges of the domain to end.
func (r *Runtime) destroyDomain(t *Thread, a []uint64) uint64 {
	if r.domain(t, "mstxDomainDestroy", a[0]) {
		r.Handles.Delete(a[0])
	}
	return 0
}

func (r *Runtime) markIn(t *Thread, a []uint64) uint64 {
	const function = "mstxDomainMarkA"
	if r.domain(t, function, a[0]) {
		r.mark(t, function, a[0], a[1], a[2])
	}
	return 0
}

func (r *Runtime) startRangeIn(t *Thread, a []uint64) uint64 {
	const function = "mstxDomainRangeStartA"
	if !r.domain(t, function, a[0]) {
		return 0
	}
	return r.startRange(t, function, a[0], a[1], a[2])
}

func (r *Runtime) endRangeIn(t *Thread, a []uint64) uint64 {
	r.endRange(t, "mstxDomainRangeEnd", a[0], a[1])
	return 0
}

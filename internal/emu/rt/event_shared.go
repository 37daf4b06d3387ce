package rt

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// sharedEvent is an event of several processes (ACL_EVENT_IPC). A page that they share holds the
// number of the latest record and, for each of the last ones, whether its stream has passed it.
type sharedEvent struct {
	page *sharedPage
}

// recordPlaces are the places for records after the word that counts them: record n passes by
// writing n at place n modulo their number.
const recordPlaces = hostPage/4 - 1

// ipcHandleSize is the size of C's aclrtIpcEventHandle; a key fills it.
const ipcHandleSize = 64

func (r *Runtime) sharedEventFunctions() table {
	return table{
		"aclrtIpcGetEventHandle":  r.exportEvent,
		"aclrtIpcOpenEventHandle": r.importEvent,
	}
}

func (r *Runtime) createSharedEvent(t *Thread, out uint64) uint64 {
	page, err := newSharedPage()
	if err == nil {
		err = page.file.admit(false, nil)
	}
	if err != nil {
		return t.Fail(noEventResource, "EE1023: aclrtCreateEventExWithFlag: %v", err)
	}
	return r.makeSharedEvent(t, out, page)
}

// makeSharedEvent takes the page over.
func (r *Runtime) makeSharedEvent(t *Thread, out uint64, page *sharedPage) uint64 {
	code := r.makeEvent(t, out, &Event{flags: eventIPC, ex: true, shared: &sharedEvent{page}})
	if code != 0 {
		page.close()
	}
	return code
}

func (r *Runtime) exportEvent(t *Thread, a []uint64) uint64 {
	const function = "aclrtIpcGetEventHandle"
	e, code := r.event(t, function, a[0])
	if e == nil {
		return code
	}
	if a[1] == 0 {
		return t.null(function, "handle")
	}
	if e.shared == nil {
		return t.Fail(paramInvalid, "EE1006: %s: the event was made without ACL_EVENT_IPC", function)
	}
	writeKey(a[1], ipcHandleSize, e.shared.page.file.name())
	return 0
}

// importEvent opens an event of another process, or of this one.
func (r *Runtime) importEvent(t *Thread, a []uint64) uint64 {
	const function = "aclrtIpcOpenEventHandle"
	if a[1] == 0 {
		return t.null(function, "event")
	}
	key, _, _ := strings.Cut(string(bytes(Pointer(a[0]), ipcHandleSize)), "\x00")
	page, err := openPage(key)
	if err != nil {
		return t.Fail(paramInvalid, "EE1003: %s: %v; does the event's process still have it?", function, err)
	}
	return r.makeSharedEvent(t, a[1], page)
}

// place is where record n passes.
func (*sharedEvent) place(n uint32) int { return 1 + int(n%recordPlaces) }

// passed reports whether a stream has passed record n. A later record at its place means so too.
func (x *sharedEvent) passed(n uint32) bool {
	return n == 0 || int32(x.page.word(x.place(n)).Load()-n) >= 0
}

// complete reports whether there is nothing to wait for.
func (x *sharedEvent) complete() bool { return x.passed(x.page.word(0).Load()) }

// capturing refuses what a capture or a graph cannot take.
func (x *sharedEvent) capturing(t *Thread, s *Stream, function string) uint64 {
	if !s.Capturing() && s.bound.Load() == nil {
		return 0
	}
	return t.Fail(featureNotSupported, "EE1005: %s: an event made with ACL_EVENT_IPC cannot be captured", function)
}

// record counts at once: whoever waits from now on, in any process, waits for this record.
func (x *sharedEvent) record(r *Runtime, t *Thread, s *Stream) uint64 {
	const function = "aclrtRecordEvent"
	if code := x.capturing(t, s, function); code != 0 {
		return code
	}
	n := x.page.word(0).Add(1)
	pass := func() { x.page.set(x.place(n), n, math.MaxInt32) }
	code := r.Submit(t, s, Task{Name: function, Releases: &r.outside, Run: func() error { pass(); return nil }, Drop: pass})
	if code != 0 {
		pass()
	}
	return code
}

// streamWait makes a stream wait for the latest record of any process.
func (x *sharedEvent) streamWait(r *Runtime, t *Thread, s *Stream, limit time.Duration) uint64 {
	const function = "aclrtStreamWaitEvent"
	if code := x.capturing(t, s, function); code != 0 {
		return code
	}
	n := x.page.word(0).Load()
	return r.Submit(t, s, Task{Name: function, Acquires: &r.outside, Wait: func(cancel <-chan struct{}) error {
		if !x.page.until(x.place(n), func() bool { return x.passed(n) }, cancel, after(limit)) {
			return &Fault{Code: waitTimeout, Text: fmt.Sprintf("EE1002: waiting for an event of another process took longer than %v", limit)}
		}
		return nil
	}})
}

func (x *sharedEvent) synchronize(t *Thread, w wait) uint64 {
	n := x.page.word(0).Load()
	if !x.page.until(x.place(n), func() bool { return x.passed(n) }, nil, w.deadline) {
		return t.Fail(eventSyncTimeout, "EE1002: event synchronize timeout")
	}
	return 0
}

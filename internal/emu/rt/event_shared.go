package rt

import (
	"fmt"
	"strings"
	"time"
)

// sharedEvent is an event that several processes share (ACL_EVENT_IPC). Its shared page holds the
// number of the latest record and, for each of the last recordPlaces records, whether the stream
// has passed it.
type sharedEvent struct {
	page *sharedPage
}

// recordPlaces is the number of words for records; they follow the word that counts records. When a
// stream passes record n, it writes n to word n modulo recordPlaces.
const recordPlaces = hostPage/4 - 1

// ipcHandleSize is the size of C's aclrtIpcEventHandle, which holds a key.
const ipcHandleSize = 64

// ipcHandle is C's aclrtIpcEventHandle.
type ipcHandle [ipcHandleSize]byte

func (r *Runtime) createSharedEvent(t *Thread, event Out[Handle]) Code {
	page, err := newSharedPage()
	if err == nil {
		err = page.file.admit(false, nil)
	}
	if err != nil {
		return t.Fail(NoEventResource, "EE1023: aclrtCreateEventExWithFlag: %v", err)
	}
	return r.makeSharedEvent(t, event, page)
}

// makeSharedEvent creates an event that owns the page, and writes its handle.
func (r *Runtime) makeSharedEvent(t *Thread, event Out[Handle], page *sharedPage) Code {
	code := r.makeEvent(t, event, &Event{flags: eventIPC, ex: true, shared: &sharedEvent{page}})
	if code != 0 {
		page.close()
	}
	return code
}

func (r *Runtime) aclrtIpcGetEventHandle(t *Thread, event *Event, handle Out[ipcHandle]) Code {
	if event.shared == nil {
		return t.Fail(ParamInvalid, "EE1006: aclrtIpcGetEventHandle: the event was made without ACL_EVENT_IPC")
	}
	writeKey(Out[byte](handle), ipcHandleSize, event.shared.page.file.name())
	return 0
}

// aclrtIpcOpenEventHandle opens an event of another process, or of this one.
func (r *Runtime) aclrtIpcOpenEventHandle(t *Thread, handle ipcHandle, event Out[Handle]) Code {
	key, _, _ := strings.Cut(string(handle[:]), "\x00")
	page, err := openPage(key)
	if err != nil {
		return t.Fail(ParamInvalid, "EE1003: aclrtIpcOpenEventHandle: %v; does the event's process still have it?", err)
	}
	return r.makeSharedEvent(t, event, page)
}

// place returns the index of the word for record n.
func (*sharedEvent) place(n uint32) int { return 1 + int(n%recordPlaces) }

// passed reports whether a stream has passed record n. If a later record has overwritten its word,
// n has passed as well.
func (x *sharedEvent) passed(n uint32) bool {
	return n == 0 || int32(x.page.word(x.place(n)).Load()-n) >= 0
}

// complete reports whether the latest record has passed.
func (x *sharedEvent) complete() bool { return x.passed(x.page.word(0).Load()) }

// capturing refuses a stream that is capturing or bound to a graph, where shared events are not
// supported.
func (x *sharedEvent) capturing(t *Thread, s *Stream, function string) uint64 {
	if !s.Capturing() && s.Build.Load() == nil {
		return 0
	}
	return t.Fail(FeatureNotSupported, "EE1005: %s: an event made with ACL_EVENT_IPC cannot be captured", function)
}

// record takes effect immediately: every later wait, in any process, waits for this record.
func (x *sharedEvent) record(r *Runtime, t *Thread, s *Stream) uint64 {
	const function = "aclrtRecordEvent"
	if code := x.capturing(t, s, function); code != 0 {
		return code
	}
	n := x.page.word(0).Add(1)
	pass := func() { x.page.raise(x.place(n), n) }
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
			return &Fault{Code: WaitTimeout, Text: fmt.Sprintf("EE1002: waiting for an event of another process took longer than %v", limit)}
		}
		return nil
	}})
}

func (x *sharedEvent) synchronize(t *Thread, w Wait) uint64 {
	n := x.page.word(0).Load()
	if !x.page.until(x.place(n), func() bool { return x.passed(n) }, nil, w.deadline) {
		return t.Fail(EventSyncTimeout, "EE1002: event synchronize timeout")
	}
	return 0
}

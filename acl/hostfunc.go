package acl

import (
	"runtime"
	"sync"

	"github.com/goascend/cann/cshim"
)

// HostFunc queues a Go function: the stream waits for it, and it runs once, on a thread for
// such functions, when the work queued before has ended (aclrtLaunchHostFunc from CANN 8.5,
// aclrtLaunchCallback before). It must make no call on the device, nor wait for one that
// does: CANN would deadlock. A function still queued when the stream is aborted or closed
// does not run.
func (s *Stream) HostFunc(f func()) error {
	if err := s.usable("Stream.HostFunc"); err != nil {
		return err
	}
	if f == nil {
		return s.q.refuse("Stream.HostFunc", ErrInvalidArgument, "the function is nil")
	}
	if s.q.member.Load() != nil {
		return s.q.refuse("Stream.HostFunc", ErrCapture, "a host function runs once, and a graph would run it at each replay")
	}
	defer runtime.KeepAlive(s)
	h := &s.q.hosted
	id := h.reserve()
	function, argument, cancel := cshim.RegisterHostFunc(func() {
		h.take(id)
		f()
	})
	h.keep(id, cancel)
	if err := s.q.launchHost(uintptr(function), uintptr(argument)); err != nil {
		h.take(id)
		cancel()
		return s.q.fail(err)
	}
	s.q.feed()
	return nil
}

// launchHost queues a C function in the way this CANN has.
func (q *queue) launchHost(function, argument uintptr) error {
	if fnAclrtLaunchHostFunc.Available() != nil && fnAclrtLaunchCallback.Available() == nil {
		return q.reports.launch(q, function, argument)
	}
	return aclrtLaunchHostFunc(q.scope.handle, q.handle, aclrtHostFunc(function), argument)
}

// hosted are the host functions that a stream has not run yet.
type hosted struct {
	mu      sync.Mutex
	next    uint64
	waiting map[uint64]func() // cancels, by number
}

// reserve gives a number for a function that is going to be queued.
func (h *hosted) reserve() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.next++
	return h.next
}

func (h *hosted) keep(id uint64, cancel func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiting == nil {
		h.waiting = make(map[uint64]func())
	}
	h.waiting[id] = cancel
}

func (h *hosted) take(id uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.waiting, id)
}

// cancel forgets the functions that will never run.
func (h *hosted) cancel() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, cancel := range h.waiting {
		cancel()
	}
	h.waiting = nil
}

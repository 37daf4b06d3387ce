package rt

// #include "callback.h"
import "C"

import (
	"sync"
	"time"

	"github.com/goascend/cann/internal/abi"
)

// reporters are the threads that run callbacks in the Subscribe and ProcessReport style,
// by pthread_self.
type reporters struct {
	mu sync.Mutex
	m  map[uint64]*reporter
}

// reporter is one such thread: the callbacks that wait for it, and how many streams it
// serves.
type reporter struct {
	thread  uint64
	streams int
	queue   chan callback
}

type callback struct {
	function, argument uint64
	done               chan struct{}
}

func (r *Runtime) callbackFunctions() table {
	return table{
		"aclrtSubscribeReport":                 r.subscribe,
		"aclrtUnSubscribeReport":               r.unsubscribe,
		"aclrtProcessReport":                   r.processReport,
		"aclrtSubscribeHostFunc":               r.subscribe,
		"aclrtUnSubscribeHostFunc":             r.unsubscribe,
		"aclrtProcessHostFunc":                 r.processReport,
		"aclrtLaunchCallback":                  r.launchCallback,
		"aclrtLaunchHostFunc":                  r.launchHostFunc,
		"aclrtSetExceptionInfoCallback":        r.setExceptionCallback,
		"aclrtExceptionInfoCallbackRegister":   r.setExceptionCallback,
		"aclrtExceptionInfoCallbackUnregister": r.unsetExceptionCallback,
		"aclrtGetTaskIdFromExceptionInfo":      exceptionField(0),
		"aclrtGetStreamIdFromExceptionInfo":    exceptionField(1),
		"aclrtGetThreadIdFromExceptionInfo":    exceptionField(2),
		"aclrtGetDeviceIdFromExceptionInfo":    exceptionField(3),
		"aclrtGetErrorCodeFromExceptionInfo":   exceptionField(4),
	}
}

// call runs a C function of the emulated program on this thread.
func call(function, argument uint64) { C.rt_call(C.uint64_t(function), C.uint64_t(argument)) }

// callWith is call for a function of two arguments that returns a code.
func callWith(function, argument uint64, value int32) int32 {
	return int32(C.rt_call_with(C.uint64_t(function), C.uint64_t(argument), C.int32_t(value)))
}

func (r *Runtime) subscribe(t *Thread, a []uint64) uint64 {
	s, code := r.Stream(t, a[1])
	if s == nil {
		return uint64(uint32(code))
	}
	r.reports.mu.Lock()
	defer r.reports.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reporter != nil {
		return t.Fail(streamSubscribe, "EE1016: aclrtSubscribeReport: the stream has a thread for its callbacks already")
	}
	p := r.reports.m[a[0]]
	if p == nil {
		p = &reporter{thread: a[0], queue: make(chan callback, queueDepth)}
		if r.reports.m == nil {
			r.reports.m = make(map[uint64]*reporter)
		}
		r.reports.m[a[0]] = p
	}
	p.streams++
	s.reporter = p
	return 0
}

func (r *Runtime) unsubscribe(t *Thread, a []uint64) uint64 {
	s, code := r.Stream(t, a[1])
	if s == nil {
		return uint64(uint32(code))
	}
	r.reports.mu.Lock()
	defer r.reports.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reporter == nil || s.reporter.thread != a[0] {
		return t.Fail(threadSubscribe, "EE1016: aclrtUnSubscribeReport: the thread is not the one that serves the stream")
	}
	if s.reporter.streams--; s.reporter.streams == 0 {
		delete(r.reports.m, a[0])
	}
	s.reporter = nil
	return 0
}

// processReport runs one callback that waits for this thread, or waits for one.
func (r *Runtime) processReport(t *Thread, a []uint64) uint64 {
	w, ok := newWait(int32(a[0]))
	if !ok {
		return t.Fail(invalidParam, "EH0001: aclrtProcessReport: timeout %d ms; use -1 or a positive number", int32(a[0]))
	}
	r.reports.mu.Lock()
	p := r.reports.m[uint64(C.rt_thread_self())]
	r.reports.mu.Unlock()
	if p == nil {
		return t.Fail(threadSubscribe, "EE1016: aclrtProcessReport: no stream is subscribed to this thread")
	}
	var expired <-chan time.Time
	if !w.deadline.IsZero() {
		timer := time.NewTimer(time.Until(w.deadline))
		defer timer.Stop()
		expired = timer.C
	}
	select {
	case c := <-p.queue:
		call(c.function, c.argument)
		close(c.done)
		return 0
	case <-expired:
		return t.Fail(reportTimeout, "EE1002: aclrtProcessReport: no callback within %d ms", int32(a[0]))
	}
}

func (r *Runtime) launchCallback(t *Thread, a []uint64) uint64 {
	function, argument, kind := a[0], a[1], int32(a[2])
	if function == 0 {
		return t.Fail(paramInvalid, "EE1004: aclrtLaunchCallback: fn is null")
	}
	if kind != int32(abi.ACL_CALLBACK_NO_BLOCK) && kind != int32(abi.ACL_CALLBACK_BLOCK) {
		return t.Fail(invalidParam, "EH0001: aclrtLaunchCallback: block type %d is unknown", kind)
	}
	s, code := r.Stream(t, a[3])
	if s == nil {
		return uint64(uint32(code))
	}
	s.mu.Lock()
	p := s.reporter
	s.mu.Unlock()
	if p == nil {
		return t.Fail(streamNoCallback, "EE1016: aclrtLaunchCallback: no thread is subscribed to the stream; call aclrtSubscribeReport")
	}
	c := callback{function: function, argument: argument, done: make(chan struct{})}
	return r.Submit(t, s, Task{Name: "aclrtLaunchCallback", Host: true, Wait: func(cancel <-chan struct{}) error {
		select {
		case p.queue <- c:
		case <-cancel:
			return nil
		}
		if kind == int32(abi.ACL_CALLBACK_BLOCK) {
			select {
			case <-c.done:
			case <-cancel:
			}
		}
		return nil
	}})
}

// launchHostFunc runs the function on the stream's goroutine, which blocks the stream; the
// functions of one context run one at a time.
func (r *Runtime) launchHostFunc(t *Thread, a []uint64) uint64 {
	s, code := r.Stream(t, a[0])
	if s == nil {
		return uint64(uint32(code))
	}
	if a[1] == 0 {
		return t.Fail(paramInvalid, "EE1004: aclrtLaunchHostFunc: fn is null")
	}
	s.mu.Lock()
	subscribed := s.reporter != nil
	s.mu.Unlock()
	if subscribed {
		return t.Fail(streamSubscribe, "EE1016: aclrtLaunchHostFunc: the stream uses aclrtSubscribeReport; one style per stream")
	}
	function, argument := a[1], a[2] // the words are the caller's
	return r.Submit(t, s, Task{Name: "aclrtLaunchHostFunc", Repeatable: true, Host: true, Run: func() error {
		s.ctx.callback.Lock()
		defer s.ctx.callback.Unlock()
		call(function, argument)
		return nil
	}})
}

func (r *Runtime) setExceptionCallback(_ *Thread, a []uint64) uint64 {
	r.exception.Store(a[0])
	return 0
}

func (r *Runtime) unsetExceptionCallback(t *Thread, a []uint64) uint64 {
	if !r.exception.CompareAndSwap(a[0], 0) {
		return t.Fail(invalidParam, "EH0001: aclrtExceptionInfoCallbackUnregister: %#x is not registered", a[0])
	}
	return 0
}

// notifyException tells the program of a failed task: task, stream, thread, device, code.
func (r *Runtime) notifyException(s *Stream, f *Fault) {
	function := r.exception.Load()
	if function == 0 {
		return
	}
	s.mu.Lock()
	task := uint32(s.completed)
	s.mu.Unlock()
	info := Malloc(20)
	defer Free(info)
	*(*[5]uint32)(info) = [5]uint32{task, uint32(s.id), ^uint32(0), uint32(s.ctx.device.id), uint32(f.Code)}
	call(function, uint64(uintptr(info)))
}

// exceptionField reads a field of what notifyException passes; a null pointer gives the
// value for "unknown".
func exceptionField(i uint64) Func {
	return func(_ *Thread, a []uint64) uint64 {
		if a[0] == 0 {
			return uint64(^uint32(0))
		}
		return uint64(Read[uint32](a[0]+4*i, 1)[0])
	}
}

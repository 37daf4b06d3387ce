package rt

// #include "callback.h"
import "C"

import (
	"sync"
	"time"
	"unsafe"

	"github.com/goascend/cann/internal/abi"
)

// reporters holds the threads that run callbacks for aclrtSubscribeReport and aclrtProcessReport,
// by their pthread_self.
type reporters struct {
	mu sync.Mutex
	m  map[uint64]*reporter
}

// reporter is one such thread: its pending callbacks and the number of streams it serves.
type reporter struct {
	thread  uint64
	streams int
	queue   chan callback
}

type callback struct {
	function, argument uintptr
	done               chan struct{}
}

// Call runs a C function of the emulated program on this thread.
func Call(function, argument uintptr) { C.rt_call(C.uint64_t(function), C.uint64_t(argument)) }

// CallWith is Call for a function that takes a second argument and returns a code.
func CallWith(function, argument uintptr, value int32) int32 {
	return int32(C.rt_call_with(C.uint64_t(function), C.uint64_t(argument), C.int32_t(value)))
}

// CallState is Call for a function that learns of a new state of an object, and returns a code.
func CallState(function uintptr, object Handle, state int32, argument uintptr) int32 {
	return int32(C.rt_call_state(C.uint64_t(function), C.uint64_t(object), C.int32_t(state), C.uint64_t(argument)))
}

func (r *Runtime) aclrtSubscribeReport(t *Thread, threadID uint64, stream *Stream) Code {
	r.reports.mu.Lock()
	defer r.reports.mu.Unlock()
	stream.mu.Lock()
	defer stream.mu.Unlock()
	if stream.reporter != nil {
		return t.Fail(StreamSubscribe, "EE1016: aclrtSubscribeReport: the stream has a thread for its callbacks already")
	}
	p := r.reports.m[threadID]
	if p == nil {
		p = &reporter{thread: threadID, queue: make(chan callback, queueDepth)}
		if r.reports.m == nil {
			r.reports.m = make(map[uint64]*reporter)
		}
		r.reports.m[threadID] = p
	}
	p.streams++
	stream.reporter = p
	return 0
}

func (r *Runtime) aclrtSubscribeHostFunc(t *Thread, hostFuncThreadID uint64, exeStream *Stream) Code {
	return r.aclrtSubscribeReport(t, hostFuncThreadID, exeStream)
}

func (r *Runtime) aclrtUnSubscribeReport(t *Thread, threadID uint64, stream *Stream) Code {
	r.reports.mu.Lock()
	defer r.reports.mu.Unlock()
	stream.mu.Lock()
	defer stream.mu.Unlock()
	if stream.reporter == nil {
		return t.Fail(StreamSubscribe, "EE1016: aclrtUnSubscribeReport: no thread serves the stream")
	}
	if stream.reporter.thread != threadID {
		return t.Fail(ThreadSubscribe, "EE1016: aclrtUnSubscribeReport: the thread is not the one that serves the stream")
	}
	if stream.reporter.streams--; stream.reporter.streams == 0 {
		delete(r.reports.m, threadID)
	}
	stream.reporter = nil
	return 0
}

func (r *Runtime) aclrtUnSubscribeHostFunc(t *Thread, hostFuncThreadID uint64, exeStream *Stream) Code {
	return r.aclrtUnSubscribeReport(t, hostFuncThreadID, exeStream)
}

// aclrtProcessReport runs one pending callback of this thread. If there is none, it waits for one.
func (r *Runtime) aclrtProcessReport(t *Thread, timeout int32) Code {
	w, ok := NewWait(timeout)
	if !ok {
		return t.Fail(InvalidParam, "EH0001: aclrtProcessReport: timeout %d ms; use -1 or a positive number", timeout)
	}
	r.reports.mu.Lock()
	p := r.reports.m[uint64(C.rt_thread_self())]
	r.reports.mu.Unlock()
	if p == nil {
		return t.Fail(ThreadSubscribe, "EE1016: aclrtProcessReport: no stream is subscribed to this thread")
	}
	var expired <-chan time.Time
	if !w.deadline.IsZero() {
		timer := time.NewTimer(time.Until(w.deadline))
		defer timer.Stop()
		expired = timer.C
	}
	select {
	case c := <-p.queue:
		Call(c.function, c.argument)
		close(c.done)
		return 0
	case <-expired:
		return t.Fail(ReportTimeout, "EE1002: aclrtProcessReport: no callback within %d ms", timeout)
	}
}

func (r *Runtime) aclrtProcessHostFunc(t *Thread, timeout int32) Code {
	return r.aclrtProcessReport(t, timeout)
}

func (r *Runtime) aclrtLaunchCallback(t *Thread, fn, userData uintptr, blockType int32, stream *Stream) Code {
	if fn == 0 {
		return t.Fail(ParamInvalid, "EE1004: aclrtLaunchCallback: fn is null")
	}
	if blockType != int32(abi.ACL_CALLBACK_NO_BLOCK) && blockType != int32(abi.ACL_CALLBACK_BLOCK) {
		return t.Fail(InvalidParam, "EH0001: aclrtLaunchCallback: block type %d is unknown", blockType)
	}
	stream.mu.Lock()
	p := stream.reporter
	stream.mu.Unlock()
	if p == nil {
		return t.Fail(StreamNoCallback, "EE1016: aclrtLaunchCallback: no thread is subscribed to the stream; call aclrtSubscribeReport")
	}
	c := callback{function: fn, argument: userData, done: make(chan struct{})}
	return r.Submit(t, stream, Task{Name: "aclrtLaunchCallback", Host: true, Wait: func(cancel <-chan struct{}) error {
		select {
		case p.queue <- c:
		case <-cancel:
			return nil
		}
		if blockType == int32(abi.ACL_CALLBACK_BLOCK) {
			select {
			case <-c.done:
			case <-cancel:
			}
		}
		return nil
	}})
}

// aclrtLaunchHostFunc runs the function on the stream's goroutine, which blocks the stream; the
// functions of one context run one at a time.
func (r *Runtime) aclrtLaunchHostFunc(t *Thread, stream *Stream, fn, args uintptr) Code {
	if fn == 0 {
		return t.Fail(ParamInvalid, "EE1004: aclrtLaunchHostFunc: fn is null")
	}
	stream.mu.Lock()
	subscribed := stream.reporter != nil
	stream.mu.Unlock()
	if subscribed {
		return t.Fail(StreamSubscribe, "EE1016: aclrtLaunchHostFunc: the stream uses aclrtSubscribeReport; one style per stream")
	}
	return r.Submit(t, stream, Task{Name: "aclrtLaunchHostFunc", Repeatable: true, Host: true, Run: func() error {
		stream.ctx.callback.Lock()
		defer stream.ctx.callback.Unlock()
		Call(fn, args)
		return nil
	}})
}

func (r *Runtime) aclrtSetExceptionInfoCallback(callback uintptr) Code {
	r.exception.Store(callback)
	return 0
}

func (r *Runtime) aclrtExceptionInfoCallbackRegister(callback uintptr) Code {
	return r.aclrtSetExceptionInfoCallback(callback)
}

func (r *Runtime) aclrtExceptionInfoCallbackUnregister(t *Thread, callback uintptr) Code {
	if !r.exception.CompareAndSwap(callback, 0) {
		return t.Fail(InvalidParam, "EH0001: aclrtExceptionInfoCallbackUnregister: %#x is not registered", callback)
	}
	return 0
}

// exceptionInfo is the record that the emulator passes as aclrtExceptionInfo.
type exceptionInfo struct{ task, stream, thread, device, code uint32 }

// unknown is the value of every field when the pointer to an exceptionInfo is null.
const unknown = ^uint32(0)

// notifyException calls the program's exception callback for a failed task with its task, stream,
// thread, device and code.
func (r *Runtime) notifyException(s *Stream, f *Fault) {
	function := r.exception.Load()
	if function == 0 {
		return
	}
	s.mu.Lock()
	task := uint32(s.completed)
	s.mu.Unlock()
	at := Malloc(int(unsafe.Sizeof(exceptionInfo{})))
	defer Free(at)
	*(*exceptionInfo)(at) = exceptionInfo{task, uint32(s.id), unknown, uint32(s.ctx.device.id), uint32(f.Code)}
	Call(function, uintptr(at))
}

// known returns the record, or one with all fields unknown for a null pointer.
func (x *exceptionInfo) known() exceptionInfo {
	if x == nil {
		return exceptionInfo{unknown, unknown, unknown, unknown, unknown}
	}
	return *x
}

func aclrtGetTaskIdFromExceptionInfo(info *exceptionInfo) uint32    { return info.known().task }
func aclrtGetStreamIdFromExceptionInfo(info *exceptionInfo) uint32  { return info.known().stream }
func aclrtGetThreadIdFromExceptionInfo(info *exceptionInfo) uint32  { return info.known().thread }
func aclrtGetDeviceIdFromExceptionInfo(info *exceptionInfo) uint32  { return info.known().device }
func aclrtGetErrorCodeFromExceptionInfo(info *exceptionInfo) uint32 { return info.known().code }

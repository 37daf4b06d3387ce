package acl

import (
	"runtime"
	"sync"

	"github.com/goascend/cann/cshim"
	"github.com/goascend/cann/internal/abi"
)

// reporter is the thread that runs a stream's host functions on CANN versions without
// aclrtLaunchHostFunc: one goroutine on a thread of its own, from the first host function
// until the stream ends.
type reporter struct {
	mu     sync.Mutex
	thread uint64 // pthread_self of the thread, 0 while there is none
	stop   chan struct{}
	done   chan struct{}
}

// reportSlice bounds how long the thread waits at a time, and so how long its end takes.
const reportSlice = 50 // milliseconds

// launch queues a C function that holds the stream until it has run (aclrtLaunchCallback).
func (r *reporter) launch(q *queue, function, argument uintptr) error {
	if err := r.start(q); err != nil {
		return err
	}
	return aclrtLaunchCallback(q.scope.handle, aclrtCallback(function), argument, abi.ACL_CALLBACK_BLOCK, q.handle)
}

// start makes the thread, and has it serve the stream (aclrtSubscribeReport).
func (r *reporter) start(q *queue) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.thread != 0 {
		return nil
	}
	if err := fnAclrtProcessReport.Available(); err != nil {
		return err
	}
	thread, subscribed := make(chan uint64), make(chan bool)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		thread <- cshim.Thread()
		if <-subscribed {
			serveReports(q.scope.handle, stop)
		}
	}()
	id := <-thread
	err := aclrtSubscribeReport(q.scope.handle, id, q.handle)
	subscribed <- err == nil
	if err != nil {
		<-done
		return err
	}
	r.thread, r.stop, r.done = id, stop, done
	return nil
}

// serveReports runs what is reported to this thread. Whatever a wait returns, the thread stays:
// the stream waits for its functions.
func serveReports(current aclrtContext, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
			_ = aclrtProcessReport(current, reportSlice)
		}
	}
}

// end lets the thread go, once the stream has no more functions to run.
func (r *reporter) end(q *queue) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.thread == 0 {
		return
	}
	_ = aclrtUnSubscribeReport(q.scope.handle, r.thread, q.handle)
	close(r.stop)
	<-r.done
	r.thread = 0
}

//go:build linux && cgo && (amd64 || arm64)

package cshim

/*
#cgo CFLAGS: -std=gnu11 -O2 -Wall
#include <stdlib.h>
#include "shim.h"
*/
import "C"

import (
	"sync"
	"unsafe"
)

// run crosses to C and calls the function.
func (c *Call) run() {
	if Emulated || c.CallsBack || c.Fresh {
		c.runBack()
		return
	}
	if c.HostArg != 0 {
		C.cann_call_host((*C.struct_cann_call)(unsafe.Pointer(c)), c.Host)
		return
	}
	C.cann_call((*C.struct_cann_call)(unsafe.Pointer(c)))
}

// backs are heap copies of calls, for runBack.
var backs = sync.Pool{New: func() any { return new(Call) }}

// runBack calls through a copy on the heap: Go code that runs during the call, as the
// emulator's does, may move this goroutine's stack, and C must not see the call move. The same
// holds for a call that another thread runs.
func (c *Call) runBack() {
	h := backs.Get().(*Call)
	*h = *c
	if h.Fresh {
		C.cann_call_fresh((*C.struct_cann_call)(unsafe.Pointer(h)), h.Host)
	} else {
		C.cann_call_back((*C.struct_cann_call)(unsafe.Pointer(h)), h.Host)
	}
	*c = *h
	h.Host = nil
	backs.Put(h)
}

// runWide crosses with words of its own.
func (c *Call) runWide(w *wide) {
	C.cann_call_wide((*C.struct_cann_call)(unsafe.Pointer(c)), words(&w.words[0]), C.uint32_t(w.n), (*C.double)(unsafe.Pointer(&w.floats[0])))
}

func (h *head) c() *C.struct_cann_launch { return (*C.struct_cann_launch)(unsafe.Pointer(h)) }

func words(p *uint64) *C.uint64_t { return (*C.uint64_t)(unsafe.Pointer(p)) }

// launch runs both phases, or ends after phase one with stageWorkspace.
func (h *head) launch(records *uint64) { C.cann_launch(h.c(), words(records)) }

// release destroys what a prepared launch holds.
func (h *head) release() { C.cann_release(h.c()) }

// prepareOnly runs phase one and notes the descriptors of the tensors.
func (h *head) prepareOnly(records, tensors *uint64) {
	C.cann_prepare(h.c(), words(records), words(tensors))
}

// run gives n tensors their addresses (0 keeps one) and runs phase two.
func (h *head) run(tensors, places, addresses *uint64, n uint32) {
	C.cann_run(h.c(), words(tensors), words(places), words(addresses), C.uint32_t(n))
}

// Forget makes every OS thread forget which context it has current. Call it after a context
// was destroyed: a later context may get the same handle.
func Forget() { C.cann_forget() }

// Thread is pthread_self of the calling OS thread, by which CANN knows the threads that run
// callbacks. It means something on a locked thread only.
func Thread() uint64 { return uint64(C.cann_thread()) }

func freeText(p uint64) { C.free(pointer(p)) }

func hostFuncAddress() uint64 { return uint64(C.cann_host_func_address()) }

func exceptionAddress() uint64 { return uint64(C.cann_exception_address()) }

// exceptions copies the failed tasks that are still kept and returns their number.
func exceptions(from uint64, kept *[keptExceptions]Exception) (n int, total uint64) {
	var count C.uint32_t
	total = uint64(C.cann_exceptions(C.uint64_t(from), (*C.struct_cann_exception)(unsafe.Pointer(kept)), &count))
	return int(count), total
}

//export cannHostFunc
func cannHostFunc(n C.uint64_t) {
	if f := takeHostFunc(uint64(n)); f != nil {
		f()
	}
}

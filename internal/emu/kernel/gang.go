package kernel

/*
#include "gang.h"
#include "kernel.h"

static void call(gang_work work, const void *operands, int64_t lo, int64_t hi, void *scratch) { work(operands, lo, hi, scratch); }
*/
import "C"

import (
	"os"
	"runtime"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
)

var (
	gemmWork     = C.gang_work(C.gemm_work)
	forwardWork  = C.gang_work(C.attention_forward_work)
	backwardWork = C.gang_work(C.attention_backward_work)

	workScratch = scratch{size: C.GANG_SCRATCH}
)

// share computes n items of a kernel of C like Parallel, or by a gang if it is large. The operands have no pointer to Go
// memory that is not pinned.
func share(work C.gang_work, operands unsafe.Pointer, n, grain int64, large bool) {
	parts := int64(Threads())
	if large && n > 1 && parts > 1 && gang(work, operands, n, chunk(n, grain, parts)) {
		return
	}
	Parallel(n, grain, func(lo, hi int64) {
		s := workScratch.get()
		defer workScratch.put(s)
		C.call(work, operands, C.int64_t(lo), C.int64_t(hi), s)
	})
}

// large reports whether a gang pays off for so many operations at this pace: 2 ms of each thread.
func large(ops, pace float64) bool {
	const ofThread = 2e8 // with AVX2
	return ops >= ofThread*float64(Threads())*pace
}

// pace tells how many times as fast as float32 numbers of a type are multiplied.
func pace(d dtype.Type) float64 {
	if d == dtype.BFloat16 || d.Size() == 1 {
		return float64(C.kernels.pace)
	}
	return 1
}

// gang has threads of C compute a kernel, and waits without a processor of Go. A goroutine that is in C keeps its
// processor, and Go's monitor, which wakes again and again to take it away, slows kernels of several milliseconds
// down by a tenth. Starting takes 0.1 ms. It returns false, and does nothing, if there is no thread.
func gang(work C.gang_work, operands unsafe.Pointer, n, chunk int64) bool {
	read, write, err := os.Pipe()
	if err != nil {
		return false
	}
	defer read.Close()
	defer write.Close()
	k := &C.struct_gang_kernel{work: work, operands: operands, items: C.int64_t(n), chunk: C.int64_t(chunk), done: C.int(write.Fd())}
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(k)
	pin.Pin(operands)
	if C.gang_add(k, C.int(Threads())) == 0 {
		return false
	}
	for n, b := 0, make([]byte, 1); n == 0; n, _ = read.Read(b) {
	}
	return true
}

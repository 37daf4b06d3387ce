package kernel

/*
#cgo noescape gang_compute
#cgo nocallback gang_compute
#cgo noescape call
#cgo nocallback call
#include "gang.h"
#include "kernel.h"

static void call(gang_work work, const void *operands, int64_t lo, int64_t hi, char *scratch) { work(operands, lo, hi, scratch); }
*/
import "C"

import (
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
)

var (
	gemmWork     = C.gang_work(C.gemm_work)
	forwardWork  = C.gang_work(C.attention_forward_work)
	backwardWork = C.gang_work(C.attention_backward_work)

	workScratch = scratch{size: C.GANG_SCRATCH}
)

// share computes n items of a kernel of C on the caller's thread and on others, like Parallel. The operands have no pointer
// to Go memory that is not pinned. The others are threads of C: two goroutines in C would keep two processors of Go, and Go's
// monitor, which wakes every 20 µs to take them away, interrupts the kernel. An interruption takes 45 µs where the tiles of
// AMX are saved.
func share(work C.gang_work, operands unsafe.Pointer, n, grain int64) {
	parts := max(1, min(n/max(grain, 1), int64(Threads())))
	gang(work, operands, n, chunk(n, grain, parts), parts)
}

// gang computes n items on so many threads, each of which takes chunk items at once.
func gang(work C.gang_work, operands unsafe.Pointer, n, chunk, threads int64) {
	s := (*C.char)(workScratch.get())
	defer workScratch.put(unsafe.Pointer(s))
	if threads == 1 {
		C.call(work, operands, 0, C.int64_t(n), s)
		return
	}
	C.gang_compute(work, operands, C.int64_t(n), C.int64_t(chunk), C.int(threads), s)
}

// pace tells how many times as fast as float32 numbers of a type are multiplied.
func pace(d dtype.Type) float64 {
	if d == dtype.BFloat16 || d.Size() == 1 {
		return float64(C.kernels.pace)
	}
	return 1
}

package thread

import (
	"fmt"
	"runtime"
	"strconv"
	"sync/atomic"

	"github.com/goascend/cann/internal/emu/knob"
)

// fixed is the value of CANN_EMU_THREADS, or 0 if it is not set or means nothing. The error describes the latter.
var fixed, EnvError = ParseThreads(knob.Get("CANN_EMU_THREADS"))

// ParseThreads reads a number of threads; the empty text gives 0.
func ParseThreads(text string) (int, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 1<<12 {
		return 0, fmt.Errorf("CANN_EMU_THREADS=%q: must be a number from 1 to %d", text, 1<<12)
	}
	return n, nil
}

// Threads is the number of threads that one kernel may use (CANN_EMU_THREADS, else GOMAXPROCS).
func Threads() int {
	if fixed > 0 {
		return fixed
	}
	return runtime.GOMAXPROCS(0)
}

// Grain is the number of elements for which a thread pays off in kernels that compute little for each.
const Grain = 1 << 15

// Parallel calls f on consecutive ranges that cover [0, n) and returns when all are done. The caller computes, too, with
// the workers of the pool that have nothing to do. grain is the number of items for which a thread pays off; below
// two grains f runs on the caller alone. The result must not depend on how the range is divided.
func Parallel(n, grain int64, f func(lo, hi int64)) {
	if n <= 0 {
		return
	}
	threads := min(n/max(grain, 1), int64(Threads()))
	if threads <= 1 {
		f(0, n)
		return
	}
	// Four ranges per thread balance the load if another process keeps a core busy.
	t := &task{f: f, n: n, step: max(grain, (n+4*threads-1)/(4*threads)), left: make(chan struct{}, 1)}
	for range hire(threads - 1) {
		go t.work()
	}
	t.compute()
	t.end()
}

// busy is the number of workers that have a task. A worker is a goroutine that lives for one task: between tasks the pool is
// Go's own, whose threads sleep.
var busy atomic.Int64

// hire takes up to n workers from the pool, which has one less than a kernel may use threads, and returns their number.
func hire(n int64) int64 {
	for {
		now := busy.Load()
		some := min(n, int64(Threads())-1-now)
		if some <= 0 {
			return 0
		}
		if busy.CompareAndSwap(now, now+some) {
			return some
		}
	}
}

// task is one call of Parallel.
type task struct {
	f       func(lo, hi int64)
	n, step int64
	next    atomic.Int64  // the first item that no thread has taken
	workers atomic.Int64  // at work; end adds ended
	left    chan struct{} // receives a value when the last worker has left after end
}

const ended = 1 << 32

// compute takes ranges until none is left.
func (t *task) compute() {
	for {
		lo := t.next.Add(t.step) - t.step
		if lo >= t.n {
			return
		}
		t.f(lo, min(lo+t.step, t.n))
	}
}

// work computes as a worker. It does nothing after end.
func (t *task) work() {
	defer busy.Add(-1)
	if t.workers.Add(1) < ended {
		t.compute()
	}
	if t.workers.Add(-1) == ended {
		select {
		case t.left <- struct{}{}:
		default: // another worker was the last one before
		}
	}
}

// end waits for the workers that compute, and not for those that have not begun: they find nothing to do.
func (t *task) end() {
	if t.workers.Add(ended) != ended {
		<-t.left
	}
}

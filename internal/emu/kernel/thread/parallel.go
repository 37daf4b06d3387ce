package thread

// #cgo CFLAGS: -Wall -Wextra
// #include "wait.h"
import "C"

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
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
	t := &task{f: f, n: n, step: max(grain, (n+4*threads-1)/(4*threads)), wanted: threads - 1, left: sync.Cond{L: &pool}}
	pool.announce(t)
	t.compute()
	pool.end(t)
}

// task is one call of Parallel. The pool's lock guards the fields from wanted on.
type task struct {
	f       func(lo, hi int64)
	n, step int64
	next    atomic.Int64 // the first item that no thread has taken

	wanted  int64     // how many more workers may come
	workers int64     // how many compute
	left    sync.Cond // the last of them has left
}

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

// workers is a pool: goroutines that compute the tasks of a queue. A worker without a task waits for the bell, actively
// for 50 µs and then asleep in C, and its goroutine ends after ten milliseconds. So a kernel that follows another one finds
// its workers awake, one system call wakes those that sleep, and a program that computes nothing has none.
type workers struct {
	sync.Mutex
	queue       []*task // those that want workers, the oldest first
	count, idle int64   // idle ones are those that wait
}

var pool workers

// bell is the number of announcements, for the workers that wait.
var bell C.uint

// announce queues a task, wakes workers, and starts those that are missing; the pool has one less than a kernel may use
// threads, which is the caller.
func (p *workers) announce(t *task) {
	p.Lock()
	p.queue = append(p.queue, t)
	wake := min(p.idle, t.wanted)
	more := max(0, min(t.wanted-wake, int64(Threads())-1-p.count))
	p.count += more
	p.Unlock()
	if wake > 0 {
		C.thread_ring(&bell, C.int(wake))
	}
	for range more {
		go p.work()
	}
}

// end waits for the workers that compute the task; no more will come.
func (p *workers) end(t *task) {
	p.Lock()
	defer p.Unlock()
	p.drop(t)
	for t.workers > 0 {
		t.left.Wait()
	}
}

// drop takes a task from the queue, if it is there.
func (p *workers) drop(t *task) {
	if i := slices.Index(p.queue, t); i >= 0 {
		p.queue = slices.Delete(p.queue, i, i+1)
	}
}

// work is a worker.
func (p *workers) work() {
	p.Lock()
	defer p.Unlock()
	for {
		if len(p.queue) > 0 {
			p.help(p.queue[0])
			continue
		}
		// The bell is read under the lock: a task that is announced from here on changes it.
		heard := C.thread_bell(&bell)
		p.idle++
		p.Unlock()
		rung := C.thread_wait(&bell, heard)
		p.Lock()
		p.idle--
		if !rung && len(p.queue) == 0 {
			p.count--
			return
		}
	}
}

// help computes a task as one of its workers.
func (p *workers) help(t *task) {
	t.workers++
	if t.wanted--; t.wanted == 0 {
		p.drop(t)
	}
	p.Unlock()
	t.compute()
	p.Lock()
	p.drop(t) // nothing of it is left to take
	if t.workers--; t.workers == 0 {
		t.left.Signal()
	}
}

package kernel

import (
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
)

// fixedThreads is CANN_EMU_THREADS, 0 without it.
var fixedThreads = func() int {
	n, err := strconv.Atoi(os.Getenv("CANN_EMU_THREADS"))
	if err != nil {
		return 0
	}
	return max(n, 0)
}()

// Threads is the number of threads one kernel may use (CANN_EMU_THREADS, else GOMAXPROCS).
func Threads() int {
	if fixedThreads > 0 {
		return fixedThreads
	}
	return runtime.GOMAXPROCS(0)
}

// Parallel calls f on consecutive ranges that cover [0, n) and returns when all are done.
// grain is the number of items worth a thread; below two grains f runs on the caller alone.
// f must give the same result however the range is cut.
func Parallel(n, grain int64, f func(lo, hi int64)) {
	if n <= 0 {
		return
	}
	parts := n / max(grain, 1)
	if parts > 1 {
		parts = min(parts, int64(Threads()))
	}
	if parts <= 1 {
		f(0, n)
		return
	}
	// Four chunks a thread even out a core that another process keeps busy.
	chunk := max(grain, (n+4*parts-1)/(4*parts))
	var next atomic.Int64
	work := func() {
		for {
			lo := next.Add(chunk) - chunk
			if lo >= n {
				return
			}
			f(lo, min(lo+chunk, n))
		}
	}
	var wg sync.WaitGroup
	for range parts - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
}

package kernel

import (
	"fmt"
	"runtime"
	"strconv"

	"github.com/goascend/cann/internal/emu/knob"
)

// fixedThreads is the value of CANN_EMU_THREADS, or 0 if it is not set or means nothing; threadsError
// says so in the latter case.
var fixedThreads, threadsError = ParseThreads(knob.Get("CANN_EMU_THREADS"))

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

// Threads is the number of threads one kernel may use (CANN_EMU_THREADS, else GOMAXPROCS).
func Threads() int {
	if fixedThreads > 0 {
		return fixedThreads
	}
	return runtime.GOMAXPROCS(0)
}

// Parallel calls f on consecutive ranges that cover [0, n) and returns when all are done. grain
// is the number of items for which a thread pays off; below two grains f runs on the caller
// alone. The result must not depend on how the range is divided.
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
	c := newCrew(n, chunk(n, grain, parts), parts, f)
	recruit(c, int(parts-1))
	c.work()
	c.dismiss()
}

// chunk returns the number of items that a thread takes at once. Four chunks per thread balance the load if another
// process keeps a core busy.
func chunk(n, grain, parts int64) int64 { return max(grain, (n+4*parts-1)/(4*parts)) }

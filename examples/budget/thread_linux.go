package budget

import (
	"time"

	"golang.org/x/sys/unix"
)

// threadTime is how long the thread has computed.
func threadTime() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return time.Since(begin)
	}
	return time.Duration(t.Nano())
}

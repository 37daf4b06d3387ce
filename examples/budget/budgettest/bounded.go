package budgettest

import (
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The bounds of a file of at most 10 MB, or of a request, as SECURITY.md promises them.
const (
	Time   = 2 * time.Second // of the processor
	Memory = 256 << 20       // bytes that the process grows by
)

// Bounded calls f, and fails the test if that took more processor time or memory than the bounds. No other work may run in the process
// meanwhile, and the caller keeps little memory, because the collector lets f leave as much garbage as the process keeps. Other programs on
// the same core slow f and the collector down for moments, so f that took too much is called again, and the best of three calls counts.
func Bounded(t testing.TB, f func()) {
	t.Helper()
	defer debug.SetGCPercent(debug.SetGCPercent(100)) // the default, for which the promise is made
	grown := Memory*slower + 1
	for n := 0; n < 3 && grown > Memory*slower; n++ {
		debug.FreeOSMemory()
		_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // the peak begins anew
		before := peak(t)
		Timely(t, f)
		grown = peak(t) - before
		t.Logf("%d MiB", grown>>20)
	}
	require.LessOrEqual(t, grown, Memory*slower, "bytes of memory")
}

// Timely is Bounded without the bound on memory, which costs too much for fuzzing.
func Timely(t testing.TB, f func()) {
	t.Helper()
	var took, bound time.Duration
	for range 3 {
		began := used(t)
		f()
		took, bound = used(t)-began, Time*slower
		t.Logf("%v of the processor", took)
		if took > bound {
			bound = time.Duration(float64(bound) * pace(t))
		}
		if took <= bound {
			return
		}
	}
	require.LessOrEqual(t, took, bound, "time of the processor")
}

// reference is how long the work of pace takes on a core of the year 2021.
const reference = 90 * time.Millisecond

// pace is how many times slower than such a core this one is now, at least 1: a processor that other threads share, or an old one,
// computes less in a second.
func pace(t testing.TB) float64 {
	values, x := make([]uint64, 1<<20), uint64(1)
	for i := range values {
		x = x*6364136223846793005 + 1442695040888963407
		values[i] = x
	}
	began := used(t)
	slices.Sort(values)
	return max(1, float64(used(t)-began)/float64(reference))
}

// used is how long this process has computed.
func used(t testing.TB) time.Duration {
	var u syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

var highest = regexp.MustCompile(`VmHWM:\s*(\d+) kB`)

// peak is the most memory that this process has had; 0 on systems that do not report it.
func peak(t testing.TB) int {
	text, err := os.ReadFile("/proc/self/status")
	if os.IsNotExist(err) {
		return 0
	}
	require.NoError(t, err)
	found := highest.FindSubmatch(text)
	require.NotNil(t, found, "%s", text)
	kilobytes, err := strconv.Atoi(string(found[1]))
	require.NoError(t, err)
	return kilobytes << 10
}

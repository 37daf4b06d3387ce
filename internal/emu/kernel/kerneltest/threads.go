package kerneltest

import (
	"runtime"
	"testing"
)

// Threads makes the kernels of one test use n threads, unless CANN_EMU_THREADS gives another number.
func Threads(t testing.TB, n int) {
	before := runtime.GOMAXPROCS(n)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
}

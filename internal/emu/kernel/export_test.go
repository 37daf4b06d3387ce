package kernel

import "testing"

// SetThreads makes kernels of one test use n threads.
func SetThreads(t testing.TB, n int) {
	before := threads
	threads = n
	t.Cleanup(func() { threads = before })
}

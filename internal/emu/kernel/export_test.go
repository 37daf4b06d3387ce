package kernel

import "testing"

// SetThreads makes kernels of one test use n threads.
func SetThreads(t testing.TB, n int) {
	before := threads
	threads = n
	t.Cleanup(func() { threads = before })
}

// PastCaches is the size of storage that is not written through the caches.
const PastCaches = pastCaches

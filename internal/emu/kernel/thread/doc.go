// Package thread has the one pool of threads that all kernels share, and the scratch memory that a running kernel borrows.
//
// [Parallel] divides work. Its caller computes; workers of the pool help. Workers are goroutines: those without work wait for
// 50 µs actively, then they sleep, and after ten milliseconds they end. Nothing changes the CPUs that a thread may run on.
// CANN_EMU_THREADS, or else GOMAXPROCS, bounds the threads of a kernel and the workers of all kernels.
//
// What divides work in another way belongs here, too; arithmetic does not.
package thread

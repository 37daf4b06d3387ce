#pragma once
#include <linux/futex.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { active_ns = 50 * 1000, asleep_ns = 10 * 1000 * 1000 };

static inline unsigned thread_bell(const unsigned *bell) { return __atomic_load_n(bell, __ATOMIC_SEQ_CST); }

// thread_ring lets the threads that wait go on: all that wait actively, and as many that sleep.
static inline void thread_ring(unsigned *bell, int sleeping) {
	__atomic_add_fetch(bell, 1, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, bell, FUTEX_WAKE_PRIVATE, sleeping, NULL, NULL, 0);
}

static inline long thread_now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}

// thread_wait waits until the bell is not what the caller heard, and returns false if nobody rings it.
static inline bool thread_wait(unsigned *bell, unsigned heard) {
	for (long end = thread_now() + active_ns; thread_now() < end;) {
		for (int i = 0; i < 32; i++) {
			if (thread_bell(bell) != heard) return true;
#ifdef __x86_64__
			__builtin_ia32_pause();
#elif defined __aarch64__
			__asm__ volatile("yield");
#endif
		}
	}
	struct timespec limit = {0, asleep_ns};
	syscall(SYS_futex, bell, FUTEX_WAIT_PRIVATE, heard, &limit, NULL, 0);
	return thread_bell(bell) != heard;
}

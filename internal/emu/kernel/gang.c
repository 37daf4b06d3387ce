#define _GNU_SOURCE
#include "gang.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "dtype.h"
#include "kernel.h"

void gemm_work(const void *operands, int64_t lo, int64_t hi, char *scratch) { kernels->gemm(operands, lo, hi, scratch); }

static const struct attention_kernels *attention_of(const struct attention *a)
{
	return a->dtype == DTYPE_BFLOAT16 ? &kernels->attention_bf16 : &kernels->attention;
}

void attention_forward_work(const void *operands, int64_t lo, int64_t hi, char *scratch)
{
	for (const struct attention_forward_task *t = operands; lo < hi; lo++)
		attention_of(t[lo].block->a)->forward(t[lo].block, t[lo].part, (float *)scratch);
}

void attention_backward_work(const void *operands, int64_t lo, int64_t hi, char *scratch)
{
	for (const struct attention_backward_task *t = operands; lo < hi; lo++)
		attention_of(t[lo].a)->backward(t[lo].a, t[lo].grad, t[lo].kv_head, t[lo].chunk, (float *)scratch);
}

/* A kernel that gang_compute computes, on the stack of its caller. */
struct kernel {
	gang_work work;
	const void *operands;
	int64_t items, chunk;
	int threads;

	int vacant;  /* helpers that it still lacks */
	int helpers; /* that are at work; read without the lock, too */
	struct kernel *after;

	/* These change at the same time, in a line of the cache of their own. */
	_Alignas(64) int64_t taken; /* first item that no thread has taken */
	uint64_t cores;             /* bit n is set if a thread started on core n; cores from 64 on have no bit */
	int started;                /* threads */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t added = PTHREAD_COND_INITIALIZER, left = PTHREAD_COND_INITIALIZER;
static int threads; /* of the gang */
static struct kernel *first, **last = &first; /* kernels that lack helpers; first is read without the lock, too */

/* Nanoseconds. */
enum {
	SOON = 50000,       /* a caller waits actively for its helpers */
	PATIENCE = 200000,  /* a helper does so for the next kernel */
	LATE = 500000,      /* a yield that takes so long was the turn of another program */
	MEMORY = 200000000, /* it is expected to go on */
};

static int64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static int64_t crowded_until;

static int crowded(void) { return now() < __atomic_load_n(&crowded_until, __ATOMIC_RELAXED); }

/* Lets a thread run that waits for this core, unless other programs want the cores: they would keep it for milliseconds. */
static void pass(void)
{
	const int64_t begin = now();
	sched_yield();
	const int64_t end = now();
	if (end - begin > LATE)
		__atomic_store_n(&crowded_until, end + MEMORY, __ATOMIC_RELAXED);
}

/* The bit of the calling thread's core in a set. */
static uint64_t core_bit(void)
{
	const int core = sched_getcpu();
	return core >= 0 && core < 64 ? UINT64_C(1) << core : 0;
}

/* Moves the calling thread to another core if one of the kernel's threads started on its core. In a virtual machine Linux takes
 * an idle core for one that the host has taken away. It then wakes a thread on the core of the one that wakes it, and
 * leaves both there for milliseconds. */
static void leave_core(struct kernel *k)
{
	const uint64_t bit = core_bit(), before = __atomic_fetch_or(&k->cores, bit, __ATOMIC_RELAXED);
	cpu_set_t all, other;
	if (!(before & bit) || sched_getaffinity(0, sizeof all, &all) != 0)
		return;
	other = all;
	for (int i = 0; i < 64; i++)
		if (before >> i & 1)
			CPU_CLR(i, &other);
	if (CPU_COUNT(&other) > 0 && sched_setaffinity(0, sizeof other, &other) == 0) {
		sched_setaffinity(0, sizeof all, &all);
		__atomic_fetch_or(&k->cores, core_bit(), __ATOMIC_RELAXED);
	}
}

/* Computes items until none is left. */
static void compute(struct kernel *k, char *scratch)
{
	leave_core(k);
	__atomic_fetch_add(&k->started, 1, __ATOMIC_RELAXED);
	for (;;) {
		if (__atomic_load_n(&k->started, __ATOMIC_RELAXED) < k->threads && !crowded())
			pass();
		const int64_t lo = __atomic_fetch_add(&k->taken, k->chunk, __ATOMIC_RELAXED), rest = k->items - lo;
		if (rest <= 0)
			return;
		k->work(k->operands, lo, lo + (rest < k->chunk ? rest : k->chunk), scratch);
	}
}

/* Removes a kernel from the list. The caller holds the lock. */
static void remove_kernel(struct kernel *k)
{
	for (struct kernel **p = &first; *p; p = &(*p)->after)
		if (*p == k) {
			__atomic_store_n(p, k->after, __ATOMIC_RELAXED);
			if (last == &k->after)
				last = p;
			return;
		}
}

/* Waits under the lock; returns 0 if no kernel comes within a second. */
static int wait_for_kernel(void)
{
	if (!first) {
		pthread_mutex_unlock(&lock);
		for (const int64_t end = now() + PATIENCE; !__atomic_load_n(&first, __ATOMIC_RELAXED) && now() < end && !crowded();)
			pass();
		pthread_mutex_lock(&lock);
	}
	struct timespec end;
	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec++;
	while (!first)
		if (pthread_cond_timedwait(&added, &lock, &end) != 0)
			return first != NULL;
	return 1;
}

static void *help(void *scratch)
{
	pthread_mutex_lock(&lock);
	while (wait_for_kernel()) {
		struct kernel *k = first;
		if (--k->vacant == 0)
			remove_kernel(k);
		__atomic_fetch_add(&k->helpers, 1, __ATOMIC_RELAXED);
		pthread_mutex_unlock(&lock);
		compute(k, scratch);
		pthread_mutex_lock(&lock);
		if (__atomic_sub_fetch(&k->helpers, 1, __ATOMIC_RELEASE) == 0) /* its memory may be gone from here on */
			pthread_cond_broadcast(&left);
	}
	threads--;
	pthread_mutex_unlock(&lock);
	free(scratch);
	return NULL;
}

static int start(void)
{
	pthread_t t;
	void *scratch = aligned_alloc(64, GANG_SCRATCH);
	if (scratch && pthread_create(&t, NULL, help, scratch) == 0) {
		pthread_setname_np(t, "cann-gang");
		pthread_detach(t);
		return 1;
	}
	free(scratch);
	return 0;
}

void gang_compute(gang_work work, const void *operands, int64_t items, int64_t chunk, int most, char *scratch)
{
	struct kernel k = {.work = work, .operands = operands, .items = items, .chunk = chunk, .threads = most, .vacant = most - 1};
	pthread_mutex_lock(&lock);
	while (threads < k.vacant && start())
		threads++;
	__atomic_store_n(last, &k, __ATOMIC_RELAXED);
	last = &k.after;
	pthread_mutex_unlock(&lock);
	for (int i = 1; i < most; i++)
		pthread_cond_signal(&added);

	compute(&k, scratch);

	pthread_mutex_lock(&lock);
	remove_kernel(&k); /* so that it does not wait for helpers that have not woken yet */
	pthread_mutex_unlock(&lock);
	for (const int64_t end = now() + SOON; now() < end;)
		if (__atomic_load_n(&k.helpers, __ATOMIC_ACQUIRE) == 0)
			return;
	pthread_mutex_lock(&lock);
	while (k.helpers > 0)
		pthread_cond_wait(&left, &lock);
	pthread_mutex_unlock(&lock);
}

#define _GNU_SOURCE
#include "gang.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

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

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t added = PTHREAD_COND_INITIALIZER;
static int threads;
static struct gang_kernel *first, **last = &first; /* kernels with items that no thread has taken */

/* Waits under the lock; returns 0 if no kernel comes within a second. */
static int wait_for_kernel(void)
{
	struct timespec end;
	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec++;
	while (!first)
		if (pthread_cond_timedwait(&added, &lock, &end) != 0)
			return first != NULL;
	return 1;
}

static cpu_set_t taken; /* cores of which a thread is the only one that may run there */

/* Gives the calling thread a core of its own, if the process has no more cores than threads, or else returns -1. Linux at times
 * wakes two threads on one core and leaves them there for a whole kernel, though another core is idle. */
static int take_core(void)
{
	cpu_set_t all, one;
	if (sched_getaffinity(0, sizeof all, &all) != 0 || CPU_COUNT(&all) > threads)
		return -1;
	for (int core = 0; core < CPU_SETSIZE; core++)
		if (CPU_ISSET(core, &all) && !CPU_ISSET(core, &taken)) {
			CPU_ZERO(&one);
			CPU_SET(core, &one);
			if (sched_setaffinity(0, sizeof one, &one) != 0)
				return -1;
			CPU_SET(core, &taken);
			return core;
		}
	return -1;
}

static void *run(void *scratch)
{
	pthread_mutex_lock(&lock);
	int core = take_core();
	while (wait_for_kernel()) {
		if (core < 0) /* the gang may have grown */
			core = take_core();
		struct gang_kernel *k = first;
		const int64_t lo = k->taken, left = k->items - lo, n = left < k->chunk ? left : k->chunk;
		k->taken += n;
		if (n == left && !(first = k->after))
			last = &first;
		pthread_mutex_unlock(&lock);
		k->work(k->operands, lo, lo + n, scratch);
		pthread_mutex_lock(&lock);
		k->computed += n;
		if (k->computed == k->items)
			while (write(k->done, "", 1) != 1)
				;
	}
	threads--;
	if (core >= 0)
		CPU_CLR(core, &taken);
	pthread_mutex_unlock(&lock);
	free(scratch);
	return NULL;
}

static int start(void)
{
	pthread_t t;
	void *scratch = aligned_alloc(64, GANG_SCRATCH);
	if (scratch && pthread_create(&t, NULL, run, scratch) == 0) {
		pthread_detach(t);
		return 1;
	}
	free(scratch);
	return 0;
}

int gang_add(struct gang_kernel *k, int most)
{
	pthread_mutex_lock(&lock);
	while (threads < most && start())
		threads++;
	const int n = threads;
	if (n > 0) {
		*last = k;
		last = &k->after;
	}
	pthread_mutex_unlock(&lock);
	pthread_cond_broadcast(&added);
	return n;
}

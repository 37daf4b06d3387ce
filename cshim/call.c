//go:build linux && cgo && (amd64 || arm64)

#include "shim.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

_Atomic uint64_t cann_base_address[CANN_BASE_COUNT];
static _Atomic uint64_t epoch;
static __thread struct {
	uint64_t context, epoch;
} current;

void cann_set_base(int which, uint64_t fn)
{
	atomic_store_explicit(&cann_base_address[which], fn, memory_order_release);
}

void cann_forget(void) { atomic_fetch_add(&epoch, 1); }

int32_t cann_bind(uint64_t context)
{
	uint64_t now = atomic_load_explicit(&epoch, memory_order_acquire);
	if (context == 0 || (current.context == context && current.epoch == now))
		return 0;
	int32_t (*set)(uint64_t) = (int32_t(*)(uint64_t))cann_base(CANN_SET_CONTEXT);
	int32_t code = set ? set(context) : 0;
	current.context = code == 0 ? context : 0;
	current.epoch = now;
	return code;
}

/* The text belongs to the thread and is cleared by reading, so it is copied at once. */
uint64_t cann_error_text(void)
{
	const char *(*get)(void) = (const char *(*)(void))cann_base(CANN_ERROR_TEXT);
	const char *text = get ? get() : NULL;
	return text ? (uint64_t)strdup(text) : 0;
}

/* A call with out-parameters or host memory: their words become addresses. */
static uint64_t invoke_with_memory(struct cann_call *c, void *host)
{
	uint64_t a[CANN_ARGS];
	memcpy(a, c->args, sizeof a);
	for (uint32_t out = c->out; out; out &= out - 1) {
		int i = __builtin_ctz(out);
		a[i] = (uint64_t)&c->args[i];
	}
	if (c->host)
		a[c->host - 1] = (uint64_t)host;
	return cann_invoke(c->fn, a, CANN_ARGS, NULL);
}

static inline void call(struct cann_call *c, void *host)
{
	c->bind = cann_bind(c->context);
	if (c->bind != 0) {
		c->message = cann_error_text();
		return;
	}
	if (c->out | c->host)
		c->ret = invoke_with_memory(c, host);
	else
		c->ret = cann_invoke(c->fn, c->args, CANN_ARGS, NULL);
	if (c->rebinds)
		current.context = 0;
	if (!c->value && (int32_t)c->ret != 0)
		c->message = cann_error_text();
}

void cann_call(struct cann_call *c) { call(c, NULL); }

void cann_call_host(struct cann_call *c, void *host) { call(c, host); }

void cann_call_back(struct cann_call *c, void *host) { call(c, host); }

void cann_call_wide(struct cann_call *c, const uint64_t *words, uint32_t n, const double *floats)
{
	c->bind = cann_bind(c->context);
	if (c->bind == 0)
		c->ret = cann_invoke(c->fn, words, n, floats);
	if (c->bind != 0 || (int32_t)c->ret != 0)
		c->message = cann_error_text();
}

struct fresh {
	struct cann_call *call;
	void *host;
};

static void *run_fresh(void *argument)
{
	struct fresh *f = argument;
	call(f->call, f->host);
	return NULL;
}

void cann_call_fresh(struct cann_call *c, void *host)
{
	struct fresh f = {c, host};
	pthread_t thread;
	if (pthread_create(&thread, NULL, run_fresh, &f) != 0) {
		call(c, host);
		return;
	}
	pthread_join(thread, NULL);
}

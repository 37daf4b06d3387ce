//go:build linux && cgo && (amd64 || arm64)

#include "shim.h"

#include <pthread.h>

static struct cann_exception kept[CANN_EXCEPTIONS];
static uint64_t failed;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static uint32_t field(int which, void *info)
{
	uint32_t (*get)(void *) = (uint32_t(*)(void *))cann_base(which);
	return get ? get(info) : UINT32_MAX;
}

void cann_on_exception(void *info)
{
	struct cann_exception x = {
		.task = field(CANN_EXCEPTION_TASK, info),
		.stream = field(CANN_EXCEPTION_STREAM, info),
		.thread = field(CANN_EXCEPTION_THREAD, info),
		.device = field(CANN_EXCEPTION_DEVICE, info),
		.code = field(CANN_EXCEPTION_CODE, info),
	};
	pthread_mutex_lock(&lock);
	kept[failed++ % CANN_EXCEPTIONS] = x;
	pthread_mutex_unlock(&lock);
}

uint64_t cann_exception_address(void) { return (uint64_t)cann_on_exception; }

uint64_t cann_exceptions(uint64_t from, struct cann_exception *out, uint32_t *count)
{
	pthread_mutex_lock(&lock);
	if (failed > CANN_EXCEPTIONS && from < failed - CANN_EXCEPTIONS)
		from = failed - CANN_EXCEPTIONS;
	*count = 0;
	for (; from < failed; from++)
		out[(*count)++] = kept[from % CANN_EXCEPTIONS];
	uint64_t total = failed;
	pthread_mutex_unlock(&lock);
	return total;
}

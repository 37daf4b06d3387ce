#include "callback.h"

#include <pthread.h>

void rt_call(uint64_t function, uint64_t argument) { ((void (*)(void *))function)((void *)argument); }

int32_t rt_call_with(uint64_t function, uint64_t argument, int32_t value)
{
	return ((int32_t (*)(void *, int32_t))function)((void *)argument, value);
}

int32_t rt_call_state(uint64_t function, uint64_t object, int32_t state, uint64_t argument)
{
	return ((int32_t (*)(void *, int32_t, void *))function)((void *)object, state, (void *)argument);
}

uint64_t rt_thread_self(void) { return (uint64_t)pthread_self(); }

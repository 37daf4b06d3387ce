#include "callback.h"

#include <pthread.h>

void rt_call(uint64_t function, uint64_t argument) { ((void (*)(void *))function)((void *)argument); }

uint64_t rt_thread_self(void) { return (uint64_t)pthread_self(); }

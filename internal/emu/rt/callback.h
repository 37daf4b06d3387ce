/* Calls of functions that the emulated program handed over as addresses. */
#ifndef RT_CALLBACK_H
#define RT_CALLBACK_H

#include <stdint.h>

void rt_call(uint64_t function, uint64_t argument);
int32_t rt_call_with(uint64_t function, uint64_t argument, int32_t value);
/* pthread_self of the calling thread: how programs name the thread that runs callbacks. */
uint64_t rt_thread_self(void);

#endif

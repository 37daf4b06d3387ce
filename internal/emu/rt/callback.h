/* Calls functions that the emulated program passed as addresses. */
#ifndef RT_CALLBACK_H
#define RT_CALLBACK_H

#include <stdint.h>

void rt_call(uint64_t function, uint64_t argument);
int32_t rt_call_with(uint64_t function, uint64_t argument, int32_t value);
int32_t rt_call_state(uint64_t function, uint64_t object, int32_t state, uint64_t argument);
/* Returns pthread_self of the calling thread, by which programs name the callback thread. */
uint64_t rt_thread_self(void);

#endif

/* Kernels that any number of threads compute together, and the gang of C threads that help the caller of one. */
#ifndef GANG_H
#define GANG_H

#include <stddef.h>
#include <stdint.h>

/* Computes items lo to hi of a kernel, with GANG_SCRATCH bytes of memory, aligned to 64. */
typedef void (*gang_work)(const void *operands, int64_t lo, int64_t hi, char *scratch);

enum { GANG_SCRATCH = 16 << 20 };

/* The kernels. Their operands are a struct gemm and arrays of struct attention_forward_task and attention_backward_task. */
void gemm_work(const void *operands, int64_t lo, int64_t hi, char *scratch);
void attention_forward_work(const void *operands, int64_t lo, int64_t hi, char *scratch);
void attention_backward_work(const void *operands, int64_t lo, int64_t hi, char *scratch);

/* Computes all items of a kernel on the calling thread, whose memory scratch is, and on others up to so many. A thread takes
 * chunk items at once. */
void gang_compute(gang_work work, const void *operands, int64_t items, int64_t chunk, int threads, char *scratch);

#endif

/* Kernels that any number of threads compute together, and a gang of C threads that computes the large ones. */
#ifndef GANG_H
#define GANG_H

#include <stddef.h>
#include <stdint.h>

/* Computes items lo to hi of a kernel, with GANG_SCRATCH bytes of memory, aligned to 64. */
typedef void (*gang_work)(const void *operands, int64_t lo, int64_t hi, char *scratch);

enum { GANG_SCRATCH = 16 << 20 };

struct gang_kernel {
	gang_work work;
	const void *operands;
	int64_t items, chunk; /* number of all items, and of those that a thread takes at once */
	int done;             /* file that gets one byte when all items are computed */

	int64_t taken, computed;
	struct gang_kernel *after;
};

/* The kernels. Their operands are a struct gemm and arrays of struct attention_forward_task and attention_backward_task. */
void gemm_work(const void *operands, int64_t lo, int64_t hi, char *scratch);
void attention_forward_work(const void *operands, int64_t lo, int64_t hi, char *scratch);
void attention_backward_work(const void *operands, int64_t lo, int64_t hi, char *scratch);

/* Lets so many threads compute the kernel after those that were added before. Returns 0 if there is no thread. */
int gang_add(struct gang_kernel *k, int threads);

#endif

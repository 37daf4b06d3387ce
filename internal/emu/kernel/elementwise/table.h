/* The elementwise kernels that are compiled for each CPU variant. */
#ifndef TABLE_H
#define TABLE_H

#include <stdint.h>

struct map; /* op.h */

struct elementwise_kernels {
	int (*map_defined)(int32_t op, int32_t class);
	void (*map)(const struct map *m, int64_t lo, int64_t hi);
};

extern const struct elementwise_kernels elementwise_portable;
#if defined(__x86_64__)
extern const struct elementwise_kernels elementwise_avx2;
#endif

/* The kernels of the variant in use. */
extern const struct elementwise_kernels *elementwise_kernels;

/* Chooses the kernels of a variant, or of the best one before it that has some. */
void elementwise_use(int variant);

#endif

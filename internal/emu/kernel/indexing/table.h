/* The kernels of indices that are compiled for each CPU variant. */
#ifndef TABLE_H
#define TABLE_H

#include <stdint.h>

struct index_write; /* index.h */
struct combine;     /* combine.h */

struct indexing_kernels {
	void (*index_reduce)(const struct index_write *w, int64_t lo, int64_t hi);
	void (*combine)(const struct combine *c, int64_t lo, int64_t hi);
	void (*combine_scale_grad)(const struct combine *c, int64_t lo, int64_t hi);
};

extern const struct indexing_kernels indexing_portable;
#if defined(__x86_64__)
extern const struct indexing_kernels indexing_avx2;
#endif

/* The kernels of the variant in use. */
extern const struct indexing_kernels *indexing_kernels;

/* Chooses the kernels of a variant, or of the best one before it that has some. */
void indexing_use(int variant);

#endif

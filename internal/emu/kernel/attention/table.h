/* Attention, compiled for each CPU variant. The tables of avx512bf16 and amx multiply bfloat16 alone and have no query_grad. */
#ifndef TABLE_H
#define TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "attention.h"

struct attention_kernels {
	void (*forward)(const struct attention_block *b, int64_t part, float *scratch);
	void (*backward)(const struct attention *a, const struct attention_grad *g, int64_t kv_head, int64_t chunk, float *scratch);
	void (*query_grad)(const struct attention *a, const struct attention_grad *g, int64_t head, int64_t row, int64_t rows);
};

extern const struct attention_kernels attention_portable;
#if defined(__x86_64__)
extern const struct attention_kernels attention_avx2;
extern const struct attention_kernels attention_avx512;
extern const struct attention_kernels attention_avx512bf16;
extern const struct attention_kernels attention_amx;
#endif

/* Computes n tasks. */
void attention_forward_run(const struct attention_forward_task *t, int64_t n, float *scratch);
void attention_backward_run(const struct attention_backward_task *t, int64_t n, float *scratch);

/* Adds the chunks' sums of the gradient of query rows [row, row+rows) of a head and stores them. */
void attention_query_run(const struct attention *a, const struct attention_grad *g, int64_t head, int64_t row, int64_t rows);

/* Chooses the kernels of a variant. With pairs those of bfloat16 may use units that multiply pairs, whose sums have other bits. */
void attention_use(int variant, bool pairs);

#endif

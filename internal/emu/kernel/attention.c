#include "kernel.h"

void attention_forward_call(const struct attention_block *b, int64_t part, float *scratch)
{
	kernels->attention_forward(b, part, scratch);
}

void attention_backward_call(const struct attention *a, const struct attention_grad *g, int64_t kv_head, int64_t chunk, float *scratch)
{
	kernels->attention_backward(a, g, kv_head, chunk, scratch);
}

void attention_query_grad_call(const struct attention *a, const struct attention_grad *g, int64_t head, int64_t row, int64_t rows)
{
	kernels->attention_query_grad(a, g, head, row, rows);
}

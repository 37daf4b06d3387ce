#include "kernel.h"

void attention_query_grad_call(const struct attention *a, const struct attention_grad *g, int64_t head, int64_t row, int64_t rows)
{
	kernels->attention_query_grad(a, g, head, row, rows);
}

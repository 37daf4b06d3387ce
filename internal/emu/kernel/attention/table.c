#include "table.h"

#include "dtype.h"
#include "variant.h"

static const struct attention_kernels *floats = &attention_portable, *bfloat16 = &attention_portable;

void attention_use(int variant, bool pairs)
{
#if defined(__x86_64__)
	static const struct attention_kernels *const all[] = {
		[VARIANT_PORTABLE] = &attention_portable,
		[VARIANT_AVX2] = &attention_avx2,
		[VARIANT_AVX512] = &attention_avx512,
		[VARIANT_AVX512BF16] = &attention_avx512bf16,
		[VARIANT_AMX] = &attention_amx,
	};
	floats = all[variant < VARIANT_AVX512 ? variant : VARIANT_AVX512];
	bfloat16 = pairs ? all[variant] : floats;
#else
	(void)variant, (void)pairs;
#endif
}

static const struct attention_kernels *kernels_of(const struct attention *a) { return a->dtype == DTYPE_BFLOAT16 ? bfloat16 : floats; }

void attention_forward_run(const struct attention_forward_task *t, int64_t n, float *scratch)
{
	for (; n > 0; n--, t++)
		kernels_of(t->block->a)->forward(t->block, t->part, scratch);
}

void attention_backward_run(const struct attention_backward_task *t, int64_t n, float *scratch)
{
	for (; n > 0; n--, t++)
		kernels_of(t->a)->backward(t->a, t->grad, t->kv_head, t->chunk, scratch);
}

void attention_query_run(const struct attention *a, const struct attention_grad *g, int64_t head, int64_t row, int64_t rows)
{
	floats->query_grad(a, g, head, row, rows);
}

/* Attention of bfloat16 with the dot products of AVX-512 BF16, of pairs. Subnormal numbers count as zero. */
#if defined(__x86_64__)
#pragma GCC target("avx512bf16,avx512vnni,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi,bmi2")
#define PRODUCTS_ALONE
#include "optimize.h"
#define VECTOR_BYTES 64
#include <math.h>

#include "block.h"
#include "table.h"

#define T float
#define V vf32
#define P uint32_t
#define PV vu32
#define GROUP 2
#define NAME(x) gemm_bf16_##x
#define MULADD(sum, a, b) ((vf32)_mm512_dpbf16_ps((__m512)(sum), (__m512bh)(a), (__m512bh)(b)))
#include "micro.h"

#define S uint16_t
#define SRC(x) NAME(bf16_##x)
#define LINE gemm_line_pairs
#define CROSS gemm_cross_u16
#define PACK_ONLY
#include "pack.h"

#define PAIR_STEP 1
#include "forward.h"
#include "backward.h"

const struct attention_kernels attention_avx512bf16 = {.forward = attention_forward, .backward = attention_backward};
#endif

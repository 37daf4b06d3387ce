/* Attention of bfloat16 with the tiles of AMX. */
#if defined(__x86_64__)
#pragma GCC target("amx-tile,amx-bf16,avx512bf16,avx512vnni,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi,bmi2")
#define PRODUCTS_ALONE
#include "optimize.h"
#define VECTOR_BYTES 64
#define GEMM_MR 32
#define GEMM_KC 512
#include <math.h>

#include "block.h"
#include "table.h"

#define T float
#define V vf32
#define P uint32_t
#define PV vu32
#define GROUP 2
#define NAME(x) gemm_bf16_##x
#define DOT _tile_dpbf16ps
#include "amx.h"

#define S uint16_t
#define SRC(x) NAME(bf16_##x)
#define LINE gemm_line_pairs
#define CROSS gemm_cross_u16
#define PACK_ONLY
#include "pack.h"

#define PAIR_STEP 16
#define ATTENTION_STRIP 128
#include "forward.h"
#include "backward.h"

static void forward(const struct attention_block *b, int64_t part, float *scratch)
{
	_tile_loadconfig(&tiles_of_16_rows);
	attention_forward(b, part, scratch);
	_tile_release();
}

static void backward(const struct attention *a, const struct attention_grad *g, int64_t kv_head, int64_t chunk, float *scratch)
{
	_tile_loadconfig(&tiles_of_16_rows);
	attention_backward(a, g, kv_head, chunk, scratch);
	_tile_release();
}

const struct attention_kernels attention_amx = {.forward = forward, .backward = backward};
#endif

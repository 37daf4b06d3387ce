/* Matrix products of bfloat16 and of 8-bit integers with the tiles of AMX, and attention of bfloat16. Large ones of float32 are in
 * variant_amx_f32.c, and others those of the variants below. */
#if defined(__x86_64__)
#pragma GCC target("amx-tile,amx-bf16,amx-int8,avx512bf16,avx512vnni,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi,bmi2")
#define PRODUCTS_ALONE
#include "optimize.h"
#define VECTOR_BYTES 64
#define GEMM_MR 32
#define GEMM_KC 512
#include <math.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernel.h"
#include "vector.h"
#include "convert.h"
#include "dtype.h"
#include "gemm_grid.h"

#define T float
#define V vf32
#define P uint32_t
#define PV vu32
#define GROUP 2
#define FEW_ROWS GEMM_FEW
#define NAME(x) gemm_bf16_##x
#define DOT _tile_dpbf16ps
#include "gemm_amx.h"

#include "gemm_bf16.h"

#define PAIR_STEP 16
#define ATTENTION_STRIP 128
#include "attention_forward.h"
#include "attention_backward.h"

#define T uint32_t
#define V vu32
#define P uint32_t
#define PV vu32
#define GROUP 4
#define NAME(x) gemm_i8_##x
#define DOT _tile_dpbssd
#include "gemm_amx.h"
#include "gemm_i8.h"

#define T uint32_t
#define V vu32
#define P uint32_t
#define PV vu32
#define GROUP 4
#define NAME(x) gemm_u8_##x
#define DOT _tile_dpbuud
#include "gemm_amx.h"
#include "gemm_i8.h"

static const struct {
	uint8_t palette, start, reserved[14];
	uint16_t bytes[16];
	uint8_t rows[16];
} amx_tiles = {.palette = 1, .bytes = {64, 64, 64, 64, 64, 64, 64, 64}, .rows = {16, 16, 16, 16, 16, 16, 16, 16}};

void gemm_amx(const struct gemm *g, int64_t lo, int64_t hi, char *scratch)
{
	gemm_tile *tile = NULL;
	if (gemm_bf16_groups(g, 2))
		tile = gemm_bf16_tile;
	else if (g->m > GEMM_FEW && gemm_i8_groups(g, 4))
		tile = g->a.dtype == DTYPE_INT8 ? gemm_i8_tile : gemm_u8_tile;
	if (tile != NULL) {
		_tile_loadconfig(&amx_tiles);
		gemm_tiles(g, lo, hi, scratch, tile);
		_tile_release();
	} else if (g->pieces != GEMM_WHOLE) {
		_tile_loadconfig(&amx_tiles);
		gemm_f32_amx(g, lo, hi, scratch);
		_tile_release();
	} else {
		gemm_avx512bf16(g, lo, hi, scratch);
	}
}

/* Returns the kernels for a direction of attention that are the fastest. Floats are split into pieces where that pays off: with so
 * many rows. */
static const struct attention_kernels *attention_of(const struct attention *a, int64_t rows)
{
	enum { MOST_DIM = 512 }; /* whose pieces the scratch memory can hold */
	static const struct attention_kernels pairs = {attention_forward, attention_backward};
	if (a->dtype == DTYPE_BFLOAT16)
		return &pairs;
	if (a->q_len < rows || a->head_dim > MOST_DIM || a->value_dim > MOST_DIM)
		return &kernel_table_avx512.attention;
	return &attention_f32_amx;
}

static void forward_amx(const struct attention_block *b, int64_t part, float *scratch)
{
	_tile_loadconfig(&amx_tiles);
	attention_of(b->a, 2 * ATTENTION_TOGETHER)->forward(b, part, scratch);
	_tile_release();
}

static void backward_amx(const struct attention *a, const struct attention_grad *g, int64_t kv_head, int64_t chunk, float *scratch)
{
	_tile_loadconfig(&amx_tiles);
	attention_of(a, 256)->backward(a, g, kv_head, chunk, scratch);
	_tile_release();
}

const struct attention_kernels attention_amx = {forward_amx, backward_amx};

/* Asks the kernel for the tiles' memory in the state of threads. Returns whether tiles may be used. */
int amx_permitted(void)
{
	enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
	return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}
#endif

/* Matrix products of bfloat16 with the tiles of AMX: blocks of 32 by 32 sums in four tiles of 16 rows
 * of 16 floats. Each instruction adds the products of 16 pairs along k. Products of float32 are in
 * variant_amx_f32.c, and others those of the variant avx512bf16. Attention of bfloat16 multiplies in the same way. */
#if defined(__x86_64__)
#pragma GCC target("amx-tile,amx-bf16,avx512bf16,avx512vnni,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi,bmi2")
#pragma GCC optimize("no-math-errno", "no-trapping-math")
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
#define CELL_STEP 16
#define NAME(x) gemm_bf16_##x
#define OWN_MICRO
#include "gemm_micro.h"

/* Tiles 0 to 3 hold the sums, 4 and 5 rows of A, 6 and 7 columns of B. */
static void amx_sums(int64_t tall, int64_t k, const uint32_t *a, int64_t a_row, const uint32_t *b, float *c, int64_t c_row, int accumulate)
{
	const int64_t a_bytes = a_row * 4, b_bytes = NR * 4, c_bytes = c_row * 4;
	__asm__ volatile("" ::: "memory"); /* the panels are in memory before tiles are loaded */
	if (accumulate) {
		_tile_loadd(0, c, c_bytes);
		_tile_loadd(1, c + 16, c_bytes);
		if (tall) {
			_tile_loadd(2, c + 16 * c_row, c_bytes);
			_tile_loadd(3, c + 16 * c_row + 16, c_bytes);
		}
	} else {
		_tile_zero(0);
		_tile_zero(1);
		_tile_zero(2);
		_tile_zero(3);
	}
	for (int64_t p = 0; p < k; p += 16, a += 16, b += 16 * NR) {
		_tile_loadd(6, b, b_bytes);
		_tile_loadd(4, a, a_bytes);
		_tile_loadd(7, b + 16, b_bytes);
		_tile_dpbf16ps(0, 4, 6);
		_tile_dpbf16ps(1, 4, 7);
		if (tall) {
			_tile_loadd(5, a + 16 * a_row, a_bytes);
			_tile_dpbf16ps(2, 5, 6);
			_tile_dpbf16ps(3, 5, 7);
		}
	}
	_tile_stored(0, c, c_bytes);
	_tile_stored(1, c + 16, c_bytes);
	if (tall) {
		_tile_stored(2, c + 16 * c_row, c_bytes);
		_tile_stored(3, c + 16 * c_row + 16, c_bytes);
	}
}

/* c[rows×NR] (+)= a[rows×k]·b[k×NR]. Both operands are packed. */
static void NAME(micro)(int64_t rows, int64_t k, const P *a, int64_t a_row, const P *b, int64_t b_k, T *c, int64_t c_row,
			int accumulate)
{
	(void)b_k;
	if (rows == 16 || rows == 32) {
		amx_sums(rows == 32, k, a, a_row, b, c, c_row, accumulate);
		return;
	}
	/* Tiles have 16 rows, of which only some belong to c. */
	T sums[GEMM_MR * NR];
	for (int64_t i = 0; accumulate && i < rows; i++)
		memcpy(sums + i * NR, c + i * c_row, NR * sizeof *sums);
	amx_sums(rows > 16, k, a, a_row, b, sums, NR, accumulate);
	for (int64_t i = 0; i < rows; i++)
		memcpy(c + i * c_row, sums + i * NR, NR * sizeof *sums);
}

#include "gemm_bf16.h"

#define PAIR_STEP 16
#define ATTENTION_STRIP 32
#include "attention_forward.h"
#include "attention_backward.h"

static const struct {
	uint8_t palette, start, reserved[14];
	uint16_t bytes[16];
	uint8_t rows[16];
} amx_tiles = {.palette = 1, .bytes = {64, 64, 64, 64, 64, 64, 64, 64}, .rows = {16, 16, 16, 16, 16, 16, 16, 16}};

void gemm_amx(const struct gemm *g, int64_t lo, int64_t hi, char *scratch)
{
	if (!gemm_bf16_pairs(g)) {
		if (g->type == GEMM_F32 && g->group == 0)
			gemm_f32_amx(g, lo, hi, scratch);
		else
			gemm_avx512bf16(g, lo, hi, scratch);
		return;
	}
	_tile_loadconfig(&amx_tiles);
	gemm_tiles(g, lo, hi, scratch, gemm_bf16_tile);
	_tile_release();
}

void attention_forward_amx(const struct attention_block *b, int64_t part, float *scratch)
{
	_tile_loadconfig(&amx_tiles);
	attention_forward(b, part, scratch);
	_tile_release();
}

void attention_backward_amx(const struct attention *a, const struct attention_grad *g, int64_t kv_head, int64_t chunk, float *scratch)
{
	_tile_loadconfig(&amx_tiles);
	attention_backward(a, g, kv_head, chunk, scratch);
	_tile_release();
}

/* Asks the kernel for the tiles' memory in the state of threads. Returns whether tiles may be used. */
int amx_permitted(void)
{
	enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
	return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}
#endif

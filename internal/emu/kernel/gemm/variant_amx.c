/* Matrix products of bfloat16 and int8 with the tiles of AMX. All others are those of avx512bf16. */
#if defined(__x86_64__)
#pragma GCC target("amx-tile,amx-bf16,amx-int8,avx512bf16,avx512vnni,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi,bmi2")
#define PRODUCTS_ALONE
#include "optimize.h"
#define VECTOR_BYTES 64
#define GEMM_MR 32
#define GEMM_KC 512
#include <math.h>
#include <string.h>

#include "convert.h"
#include "grid.h"
#include "table.h"

#define T float
#define V vf32
#define P uint32_t
#define PV vu32
#define GROUP 2
#define NAME(x) gemm_bf16_##x
#define DOT _tile_dpbf16ps
#include "amx.h"

#include "bf16.h"

#define T uint32_t
#define V vu32
#define P uint32_t
#define PV vu32
#define GROUP 4
#define NAME(x) gemm_i8_##x
#define DOT _tile_dpbssd
#include "amx.h"
#include "i8.h"

static void gemm(const struct gemm *g, int64_t lo, int64_t hi, char *scratch)
{
	gemm_tile *tile = NULL;
	if (gemm_bf16_groups(g, 2))
		tile = gemm_bf16_tile;
	else if (gemm_i8_groups(g, 4))
		tile = gemm_i8_tile;
	if (tile != NULL) {
		_tile_loadconfig(&tiles_of_16_rows);
		gemm_tiles(g, lo, hi, scratch, tile);
		_tile_release();
	} else {
		gemm_avx512bf16.gemm(g, lo, hi, scratch);
	}
}

static void triangular_solve(const struct triangular *t, int64_t lo, int64_t hi) { gemm_avx512bf16.triangular_solve(t, lo, hi); }

const struct gemm_kernels gemm_amx = {.rows = GEMM_MR, .gemm = gemm, .triangular_solve = triangular_solve};
#endif

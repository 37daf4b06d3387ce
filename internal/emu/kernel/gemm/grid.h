/* What the matrix products of every computation type share: sizes of blocks, the axes of operands
 * and the grid of tiles. */
#ifndef GEMM_GRID_H
#define GEMM_GRID_H

#include "block.h"
#include "dtype.h"
#include "gemm.h"
#include "table.h"

/* The rows of A that are packed next are fetched ahead: on Zen 4 products take 1 % less time, on a Xeon with AMX 1 to 4 % more. */
#ifndef GEMM_FETCH_A
#define GEMM_FETCH_A 0
#endif

enum {
	GEMM_STRIP = 96, /* rows of A that are packed at once: a multiple of all register blocks */
	/* A tile goes by blocks of so many rows and panels of B. With 64-byte vectors, whose CPUs have larger second-level
	 * caches, all panels of a tile stay there, and else those of a block beside the rows of A. */
	GEMM_BAND = VECTOR_BYTES == 64 ? GEMM_MR : GEMM_STRIP,
	GEMM_PANELS = VECTOR_BYTES == 64 ? GEMM_TILE_N : 8,
};

static inline int gemm_plain(const struct gemm_axis *x) { return x->tile == INT64_MAX; }

static inline int64_t gemm_offset(const struct gemm_axis *x, int64_t i)
{
	return gemm_plain(x) ? i * x->stride : i / x->tile * x->jump + i % x->tile * x->stride;
}

/* Returns how many of the n elements from i on are in the same tile of the axis. */
static inline int64_t gemm_run_length(const struct gemm_axis *x, int64_t i, int64_t n)
{
	return gemm_plain(x) ? n : gemm_min(n, x->tile - i % x->tile);
}

/* Reports whether the elements of both operands form groups of n along k, each in one tile of the storage. */
static inline int gemm_groups(const struct gemm *g, int64_t n)
{
	const struct gemm_axis *a = &g->a.col, *b = &g->b.row;
	return (gemm_plain(a) || a->tile % n == 0) && (gemm_plain(b) || b->tile % n == 0);
}

/* Reports whether the product is one of such groups of bfloat16, and may be summed in pairs. */
static inline int gemm_bf16_groups(const struct gemm *g, int64_t n)
{
	return gemm_pairs && g->type == GEMM_F32 && g->a.dtype == DTYPE_BFLOAT16 && g->b.dtype == DTYPE_BFLOAT16 && gemm_groups(g, n);
}

/* Reports whether it is one of signed 8-bit integers. */
static inline int gemm_i8_groups(const struct gemm *g, int64_t n)
{
	return g->type == GEMM_I32 && g->a.dtype == DTYPE_INT8 && g->b.dtype == DTYPE_INT8 && gemm_groups(g, n);
}

/* The matrices of one index of the batch. */
struct gemm_at {
	const char *a, *b, *d;
	char *c;
};

/* Computes rows [m0, m1) and columns [n0, n1) of one matrix of the batch. */
typedef void gemm_tile(const struct gemm *g, const struct gemm_at *at, int64_t m0, int64_t m1, int64_t n0, int64_t n1,
			  char *scratch);

/* Computes tiles [lo, hi) of the product, counted batch by batch, row of tiles by row of tiles. */
static void gemm_tiles(const struct gemm *g, int64_t lo, int64_t hi, char *scratch, gemm_tile *tile)
{
	const int64_t across = (g->n + g->tile_n - 1) / g->tile_n, down = (g->m + g->tile_m - 1) / g->tile_m;
	for (int64_t t = lo; t < hi; t++) {
		struct gemm_at at = {g->a.data, g->b.data, g->d.data, g->c.data};
		int64_t index = t / (across * down);
		for (int x = g->batch_rank - 1; x >= 0; x--) {
			const int64_t i = index % g->batch[x];
			index /= g->batch[x];
			at.a += i * g->a.batch_stride[x];
			at.b += i * g->b.batch_stride[x];
			at.c += i * g->c.batch_stride[x];
			if (at.d != NULL)
				at.d += i * g->d.batch_stride[x];
		}
		const int64_t m0 = t / across % down * g->tile_m, m1 = gemm_min(m0 + g->tile_m, g->m);
		const int64_t n0 = t % across * g->tile_n, n1 = gemm_min(n0 + g->tile_n, g->n);
		tile(g, &at, m0, m1, n0, n1, scratch);
	}
}

#endif

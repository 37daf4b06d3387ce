/* Tiles of bfloat16 attention in cells of pairs, for the units that multiply these; the micro-kernel
 * comes first. */
#ifndef ATTENTION_PAIRS_H
#define ATTENTION_PAIRS_H

#include "tile.h"

/* The cells of n elements, as many as the unit multiplies at once. */
static inline int64_t pair_cells(int64_t n) { return (n + 2 * PAIR_STEP - 1) / (2 * PAIR_STEP) * PAIR_STEP; }

/* The row stride in cells of a tile of probabilities, and the distance of panels of values. */
enum { PAIR_ROW = ATTENTION_KEYS / 2 + 16, PAIR_PANEL = PANEL * ATTENTION_KEYS / 2 };

/* Copies n elements that are stride apart. */
static inline void pair_row(uint16_t *to, const char *from, int64_t stride, int64_t n)
{
	if (stride == 1)
		memcpy(to, from, 2 * n);
	else
		for (int64_t j = 0; j < n; j++)
			to[j] = ((const uint16_t *)from)[j * stride];
}

/* Copies rows to a tile with row stride ld; their ends are padded with zeros. */
static void pair_rows(uint32_t *tile, int64_t ld, const struct columns *c, int64_t head, int64_t row, int64_t rows)
{
	const int64_t n = c->count - c->rest_count, padded = 2 * pair_cells(c->count);
	for (int64_t i = 0; i < rows; i++) {
		uint16_t *to = (uint16_t *)(tile + i * ld);
		pair_row(to, row_at(c, c->first, head, row + i), c->first->col, n);
		if (c->rest_count)
			pair_row(to + n, row_at(c, c->rest, head, row + i), c->rest->col, c->rest_count);
		memset(to + c->count, 0, 2 * (padded - c->count));
	}
}

/* Transposes a tile of rows with stride ld into panels [rows/PANEL][cells][PANEL]; missing rows are zero. */
static void pair_transpose(uint32_t *panels, const uint16_t *tile, int64_t ld, int64_t rows, int64_t cells)
{
	for (int64_t j = 0; j < rows; j += PANEL) {
		uint32_t *to = panels + j * cells;
		if (rows - j < PANEL)
			memset(to, 0, PANEL * cells * sizeof *to);
		gemm_bf16_bf16_pack(to, 0, rows - j < PANEL ? rows - j : PANEL, 2 * cells, tile + j * ld, ld, 1);
	}
}

/* Packs rows of 16-bit elements for a product that sums over them: panels of PANEL columns with the given
 * distance. Rows are row elements apart, columns col. */
static void pair_values(uint32_t *panels, int64_t panel, const uint16_t *from, int64_t row, int64_t col, int64_t rows, int64_t cols)
{
	for (int64_t j = 0; j < cols; j += PANEL, panels += panel) {
		if (cols - j < PANEL || rows % (2 * PAIR_STEP) != 0)
			memset(panels, 0, panel * sizeof *panels);
		gemm_bf16_bf16_pack(panels, 0, cols - j < PANEL ? cols - j : PANEL, rows, from + j * col, col, row);
	}
}

/* Stores n floats that are bfloat16 numbers; n is a multiple of PANEL. */
static void pair_store(uint32_t *cells, const float *s, int64_t n)
{
	for (int64_t j = 0; j < n; j += VECTOR_FLOATS)
		vnarrow16((uint16_t *)cells + j, (vu32)vload(s + j) >> 16);
}

/* c[rows×cols] (+)= a·b over cells; c has room for whole panels. */
static void pair_product(float *c, int64_t c_row, const uint32_t *a, int64_t a_row, const uint32_t *b, int64_t b_panel,
			 int64_t rows, int64_t cols, int64_t cells, int accumulate)
{
	for (int64_t n = 0; n < cols; n += PANEL, b += b_panel)
		for (int64_t r = 0; r < rows; r += GEMM_MR)
			gemm_bf16_micro(rows - r < GEMM_MR ? rows - r : GEMM_MR, cells, a + r * a_row, a_row, b, PANEL,
					c + r * c_row + n, c_row, accumulate);
}

#endif

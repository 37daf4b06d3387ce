/* Operands of the products of attention whose numbers are split into pieces of bfloat16; gemm_f32.h comes first. They have panels of
 * PANEL rows, if it is the left one, or of PANEL columns. */
#ifndef ATTENTION_PIECES_H
#define ATTENTION_PIECES_H

#include "attention_tile.h"

/* The size of a panel in floats, for a product that sums over so many steps. */
static inline int64_t piece_panel(int64_t steps) { return pad_panel(steps) / PANEL * (F32_STEP / 4); }

/* Splits the rows of a tile, which are those of the left operand. Their ends are padded with zeros. */
static void piece_rows(float *to, const float *tile, int64_t ld, int64_t rows, int64_t steps)
{
	for (int64_t i = 0; i < rows; i += PANEL, to += piece_panel(steps))
		gemm_f32_split(to, 1, rows - i < PANEL ? rows - i : PANEL, steps, tile + i * ld, ld);
}

/* Splits a tile, which is the right operand with panels so far apart. Its rows go on with zeros up to whole panels. */
static void piece_columns(float *to, int64_t panel, const float *tile, int64_t ld, int64_t rows, int64_t cols)
{
	for (int64_t j = 0; j < cols; j += PANEL, to += panel)
		gemm_f32_split(to, 0, PANEL, rows, tile + j, ld);
}

/* Loads and splits such a tile; copy has room for rows with row stride ld. */
static void
piece_tile(float *to, int64_t panel, float *copy, int64_t ld, const struct columns *c, int64_t head, int64_t row, int64_t rows)
{
	const float *from = copy;
	if (rows % PANEL == 0) {
		from = tile_rows(copy, &ld, c, head, row, rows);
	} else {
		tile_load(copy, ld, c, head, row, rows);
		memset(copy + rows * ld, 0, (pad_panel(rows) - rows) * ld * sizeof *copy);
	}
	piece_columns(to, panel, from, ld, rows, c->count);
}

/* Splits the transpose of a tile, which is the right operand. Its rows are padded with zeros; room is for a panel of them. */
static void piece_transpose(float *to, const float *tile, int64_t ld, int64_t rows, int64_t cols, float *room)
{
	for (int64_t j = 0; j < rows; j += PANEL, to += piece_panel(cols)) {
		tile_transpose(room, tile + j * ld, ld, rows - j < PANEL ? rows - j : PANEL, pad_panel(cols));
		piece_columns(to, 0, room, PANEL, cols, PANEL);
	}
}

/* Splits the transpose of a tile, which is the left operand with panels so far apart. Its rows are padded with zeros. */
static inline void piece_turn(float *to, int64_t panel, const float *tile, int64_t ld, int64_t rows, int64_t cols, float *room)
{
	for (int64_t j = 0; j < rows; j += PANEL, to += F32_STEP / 4) {
		tile_transpose(room, tile + j * ld, ld, rows - j < PANEL ? rows - j : PANEL, pad_panel(cols));
		for (int64_t i = 0; i < cols; i += PANEL)
			gemm_f32_split(to + i / PANEL * panel, 1, PANEL, PANEL, room + i * PANEL, PANEL);
	}
}

/* Reports whether some of n sums are no numbers: a piece of an infinity is none, and one of the largest numbers is infinite. */
static int piece_lost(const float *sums, int64_t n)
{
	int lost = 0;
	for (int64_t i = 0; i < n; i++)
		lost |= sums[i] != sums[i];
	return lost;
}

/* c[rows×cols] (+)= a·b; c has room for whole panels of columns. */
struct piece_product {
	float *c;
	int64_t c_row;
	const float *a, *b;
	int64_t a_panel, b_panel;
	int64_t rows, cols, steps;
	int dtype, accumulate;
};

static void piece_product(const struct piece_product *p)
{
	static const struct gemm floats = {.pieces = GEMM_PIECES, .a.dtype = DTYPE_FLOAT32, .b.dtype = DTYPE_FLOAT32};
	static const struct gemm halves = {.pieces = GEMM_PIECES, .a.dtype = DTYPE_FLOAT16, .b.dtype = DTYPE_FLOAT16};
	for (int64_t j = 0; j < p->cols; j += PANEL)
		for (int64_t i = 0; i < p->rows; i += PANEL)
			gemm_f32_micro(p->dtype == DTYPE_FLOAT16 ? &halves : &floats, p->rows - i < PANEL ? p->rows - i : PANEL, pad_panel(p->steps),
				       p->a + i / PANEL * p->a_panel, p->b + j / PANEL * p->b_panel, p->c + i * p->c_row + j, p->c_row,
				       p->accumulate);
}

#endif

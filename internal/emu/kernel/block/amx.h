/* Matrix products with the tiles of AMX: blocks of 32 by 32 sums in four tiles of 16 rows of 16 sums. Each
 * instruction adds the products of 16 cells along k. A variant_amx.c includes it once per computation type T with
 *   DOT(sums, a, b)  the instruction
 * and the definitions of micro.h. */
#ifndef AMX_H
#define AMX_H
/* The configuration of the tiles. */
static const struct {
	uint8_t palette, start, reserved[14];
	uint16_t bytes[16];
	uint8_t rows[16];
} tiles_of_16_rows = {.palette = 1, .bytes = {64, 64, 64, 64, 64, 64, 64, 64}, .rows = {16, 16, 16, 16, 16, 16, 16, 16}};
#endif

#define CELL_STEP 16
#define OWN_MICRO
#include "micro.h"

/* Tiles 0 to 3 hold the sums, 4 and 5 rows of A, 6 and 7 columns of B. */
static void NAME(tiles)(int64_t tall, int64_t k, const P *a, int64_t a_row, const P *b, T *c, int64_t c_row, int accumulate)
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
		DOT(0, 4, 6);
		DOT(1, 4, 7);
		if (tall) {
			_tile_loadd(5, a + 16 * a_row, a_bytes);
			DOT(2, 5, 6);
			DOT(3, 5, 7);
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
		NAME(tiles)(rows == 32, k, a, a_row, b, c, c_row, accumulate);
		return;
	}
	/* Tiles have 16 rows, of which only some belong to c. */
	T sums[GEMM_MR * NR];
	for (int64_t i = 0; accumulate && i < rows; i++)
		memcpy(sums + i * NR, c + i * c_row, NR * sizeof *sums);
	NAME(tiles)(rows > 16, k, a, a_row, b, sums, NR, accumulate);
	for (int64_t i = 0; i < rows; i++)
		memcpy(c + i * c_row, sums + i * NR, NR * sizeof *sums);
}
#undef DOT

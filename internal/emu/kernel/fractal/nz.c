#include "nz.h"

#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* In CANN's own layouts a row of a tile has 32 bytes. */
enum { NZ_ROWS = 16, NZ_WIDTH = 32 };

/* A position in a row of the strided matrix, and the number of elements before the next jump. */
struct cursor {
	char *p;
	int64_t left;
};

static struct cursor row_start(const struct nz *x, int64_t row)
{
	const int64_t index = x->origin + row * x->row_stride;
	if (x->run == 0)
		return (struct cursor){x->nd + index * x->size, INT64_MAX};
	const int64_t at = index % x->run;
	return (struct cursor){x->nd + (index / x->run * x->jump + at) * x->size, x->run - at};
}

/* With a constant length the compiler moves a whole tile row with vector instructions. */
static inline __attribute__((always_inline)) void move_bytes(char *tile, char *nd, int64_t n, int fill)
{
	if (fill && n == 32)
		memcpy(tile, nd, 32);
	else if (fill)
		memcpy(tile, nd, (size_t)n);
	else if (n == 32)
		memcpy(nd, tile, 32);
	else
		memcpy(nd, tile, (size_t)n);
}

/* Moves the next n elements of a row. */
static inline __attribute__((always_inline)) void
move_row(const struct nz *x, struct cursor *at, char *tile, int64_t n, int fill)
{
	if (x->col_stride != 1) {
		for (int64_t i = 0; i < n; i++, tile += x->size, at->p += x->col_stride * x->size)
			move_bytes(tile, at->p, x->size, fill);
		return;
	}
	while (n > 0) {
		const int64_t now = n < at->left ? n : at->left;
		move_bytes(tile, at->p, now * x->size, fill);
		tile += now * x->size;
		at->p += now * x->size;
		n -= now;
		at->left -= now;
		if (at->left == 0) {
			at->p += (x->jump - x->run) * x->size;
			at->left = x->run;
		}
	}
}

#ifdef __SSE2__
static inline __attribute__((always_inline)) void store_past_cache(char *dst, const char *src)
{
	_mm_stream_si128((__m128i *)dst, _mm_loadu_si128((const __m128i *)src));
	_mm_stream_si128((__m128i *)(dst + 16), _mm_loadu_si128((const __m128i *)(src + 16)));
}

static void finish_stores(void) { _mm_sfence(); }
#else
static inline __attribute__((always_inline)) void store_past_cache(char *dst, const char *src) { memcpy(dst, src, NZ_WIDTH); }

static void finish_stores(void) {}
#endif

/* The prefetch distance within a row in bytes. Rows are pages apart, which defeats the hardware
 * prefetcher. */
enum { AHEAD = 1024 };

/* Fills whole tiles in pairs, gap bytes apart, until a row ends or jumps. A pair reads whole cache
 * lines from each row and writes whole lines to each tile. Returns the number of tiles filled. */
static int64_t stream_tiles(const struct nz *x, struct cursor at[NZ_ROWS], char *tile, int64_t gap, int64_t tiles)
{
	for (int64_t r = 0; r < NZ_ROWS; r++)
		if (at[r].left / x->c0 < tiles)
			tiles = at[r].left / x->c0;
	tiles &= ~(int64_t)1;
	for (int64_t j = 0; j < tiles; j += 2, tile += 2 * gap) {
		for (int64_t r = 0; r < NZ_ROWS; r++) {
			const char *from = at[r].p + j * NZ_WIDTH;
			__builtin_prefetch(from + AHEAD, 0, 2);
			store_past_cache(tile + r * NZ_WIDTH, from);
			store_past_cache(tile + gap + r * NZ_WIDTH, from + NZ_WIDTH);
		}
	}
	for (int64_t r = 0; r < NZ_ROWS; r++) {
		at[r].p += tiles * NZ_WIDTH;
		at[r].left -= tiles * x->c0;
	}
	return tiles;
}

/* Processes the matrix by rows of tiles, so that the strided side is accessed in long rows. */
static inline __attribute__((always_inline)) void move(const struct nz *x, int64_t lo, int64_t hi, int fill)
{
	const int64_t down = (x->rows + NZ_ROWS - 1) / NZ_ROWS, across = (x->cols + x->c0 - 1) / x->c0;
	const int64_t width = x->c0 * x->size;
	const int stream = x->stream && x->col_stride == 1 && width == NZ_WIDTH && (uintptr_t)x->tiles % NZ_WIDTH == 0;
	for (int64_t i = lo; i < hi; i++) {
		const int64_t rows = x->rows - i * NZ_ROWS < NZ_ROWS ? x->rows - i * NZ_ROWS : NZ_ROWS;
		struct cursor at[NZ_ROWS];
		for (int64_t r = 0; r < rows; r++)
			at[r] = row_start(x, i * NZ_ROWS + r);
		int64_t j = 0;
		if (fill && stream && rows == NZ_ROWS)
			j = stream_tiles(x, at, x->tiles + i * NZ_ROWS * width, down * NZ_ROWS * width, x->cols / x->c0);
		for (; j < across; j++) {
			const int64_t cols = x->cols - j * x->c0 < x->c0 ? x->cols - j * x->c0 : x->c0;
			char *tile = x->tiles + (j * down + i) * NZ_ROWS * width;
			for (int64_t r = 0; r < rows; r++, tile += width) {
				move_row(x, &at[r], tile, cols, fill);
				if (fill && cols < x->c0)
					memset(tile + cols * x->size, 0, (size_t)((x->c0 - cols) * x->size));
			}
			if (fill)
				memset(tile, 0, (size_t)((NZ_ROWS - rows) * width));
		}
	}
}

void nz_fill(const struct nz *x, int64_t lo, int64_t hi)
{
	move(x, lo, hi, 1);
	finish_stores();
}

void nz_read(const struct nz *x, int64_t lo, int64_t hi) { move(x, lo, hi, 0); }

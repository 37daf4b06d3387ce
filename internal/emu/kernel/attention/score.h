/* From products to scores: scale, bias and hidden cells. The score matrix never exists as a
 * whole; the visibility rule and the mask are evaluated tile by tile. */
#ifndef ATTENTION_SCORE_H
#define ATTENTION_SCORE_H

#include "tile.h"

/* Rows [row, row+rows) of one head against columns [col, col+cols). */
struct tile {
	int64_t head, row, rows, col, cols;
};

static inline struct columns query_columns(const struct attention *a, const struct plane *first, const struct plane *rope)
{
	return (struct columns){.first = first, .rest = rope, .count = a->head_dim, .rest_count = a->rope_dim, .dtype = a->dtype};
}

static inline struct columns value_columns(const struct attention *a, const struct plane *p)
{
	return (struct columns){.first = p, .count = a->value_dim, .dtype = a->dtype};
}

/* The number of rows that are computed together, and of those with hidden cells. Scores of few rows stay in the first-level cache, but
 * the unit that multiplies tiles pauses between strips. */
#ifndef ATTENTION_STRIP
#define ATTENTION_STRIP 24
#endif
enum { EDGE_STRIP = ATTENTION_STRIP < 32 ? ATTENTION_STRIP : 32 };

/* The score of a hidden cell. Finite, so that a row without visible cells gives no NaN. */
static const float hidden = -FLT_MAX;

static inline int64_t clamp64(int64_t x, int64_t lo, int64_t hi) { return x < lo ? lo : x > hi ? hi : x; }

/* Reports whether the mask hides every cell of the tile. */
static int tile_hidden(const struct attention *a, const struct tile *t)
{
	if (!a->mask.data)
		return 0;
	for (int64_t i = 0; i < t->rows; i++) {
		const uint8_t *m = (const uint8_t *)plane_at(&a->mask, 1, t->head, t->row + i) + t->col * a->mask.col;
		if (a->mask.col == 1) {
			if (memchr(m, 0, t->cols))
				return 0;
			continue;
		}
		for (int64_t j = 0; j < t->cols; j++)
			if (m[j * a->mask.col] == 0)
				return 0;
	}
	return 1;
}

/* Reports whether all rows of a tile surely see all of its columns. */
static int tile_open(const struct attention *a, const struct tile *t)
{
	return !a->mask.data && t->col >= t->row + t->rows - 1 + a->first && t->col + t->cols - 1 <= t->row + a->last;
}

/* Shrinks the tile to the rows with visible cells, and cuts hidden columns off its right side.
 * All removed cells are hidden. Returns 0 if every cell is. */
static int tile_trim(const struct attention *a, struct tile *t)
{
	int64_t end_row = t->row + t->rows, end_col = t->col + t->cols;
	if (t->col >= a->prefix) {
		t->row = clamp64(t->col - a->last, t->row, end_row);
		end_row = clamp64(end_col - a->first, t->row, end_row);
		t->rows = end_row - t->row;
	}
	int64_t reach = end_row + a->last > a->prefix ? end_row + a->last : a->prefix;
	t->cols = clamp64(reach, t->col, end_col) - t->col;
	return t->rows > 0 && t->cols > 0 && !tile_hidden(a, t);
}

static void row_bias(const struct attention *a, const struct tile *t, int64_t row, float *s, float *scratch)
{
	if (a->bias_kind == BIAS_DISTANCE || a->bias_kind == BIAS_ROOT_DISTANCE) {
		float slope = *(const float *)plane_at(&a->bias, 4, t->head, 0);
		int64_t distance = t->col - row + a->distance;
		for (int64_t j = 0; j < t->cols; j++) {
			float d = fabsf((float)(distance + j));
			s[j] = s[j] * a->scale - slope * (a->bias_kind == BIAS_DISTANCE ? d : sqrtf(d));
		}
		return;
	}
	int64_t size = dtype_size(a->dtype), bias_row = row, col = t->col;
	if (row < a->bias_fold) {
		bias_row = row % ATTENTION_FOLD;
		col += a->bias_fold + bias_row - row;
	} else {
		bias_row -= a->bias_fold;
	}
	const char *bias = plane_at(&a->bias, size, t->head, bias_row) + size * col * a->bias.col;
	/* A folded bias row ends at the causal diagonal, beyond which cells are hidden. */
	row_load(scratch, bias, a->bias.col, a->dtype, clamp64(a->bias_cols - col, 0, t->cols), t->cols);
	if (a->bias_kind == BIAS_BEFORE_SCALE)
		for (int64_t j = 0; j < t->cols; j++)
			s[j] = (s[j] + scratch[j]) * a->scale;
	else
		for (int64_t j = 0; j < t->cols; j++)
			s[j] = s[j] * a->scale + scratch[j];
}

static void row_hide(const struct attention *a, const struct tile *t, int64_t row, float *s)
{
	int64_t from = a->prefix > t->col ? clamp64(a->prefix - t->col, 0, t->cols) : 0;
	int64_t lo = clamp64(row + a->first - t->col, from, t->cols), hi = clamp64(row + a->last + 1 - t->col, lo, t->cols);
	for (int64_t j = from; j < lo; j++)
		s[j] = hidden;
	for (int64_t j = hi; j < t->cols; j++)
		s[j] = hidden;
	if (!a->mask.data)
		return;
	const uint8_t *m = (const uint8_t *)plane_at(&a->mask, 1, t->head, row) + t->col * a->mask.col;
	if (a->mask.col == 1)
		for (int64_t j = 0; j < t->cols; j++)
			s[j] = m[j] ? hidden : s[j];
	else
		for (int64_t j = 0; j < t->cols; j++)
			s[j] = m[j * a->mask.col] ? hidden : s[j];
}

/* Gives hidden cells of one row their score, and the padding columns up to the end of the panel
 * -infinity, so that they do not contribute. */
static void row_cover(const struct attention *a, const struct tile *t, int64_t row, float *s)
{
	row_hide(a, t, row, s);
	for (int64_t j = t->cols; j < pad_panel(t->cols); j++)
		s[j] = -INFINITY;
}

/* Converts the products s of one row into scores. */
static void row_score(const struct attention *a, const struct tile *t, int64_t row, float *s, float *scratch)
{
	if (a->bias_kind == BIAS_NONE)
		for (int64_t j = 0; j < t->cols; j += VECTOR_FLOATS)
			vstore(s + j, vload(s + j) * a->scale);
	else
		row_bias(a, t, row, s, scratch);
	row_cover(a, t, row, s);
}

/* Applies dropout to one row of the tile. */
static void row_drop(const struct attention *a, const struct tile *t, int64_t row, float *p)
{
	int64_t bit = a->keep_bit + (t->head * a->q_len + row) * a->kv_len + t->col;
	for (int64_t j = 0; j < t->cols; j++, bit++)
		p[j] = a->keep[bit >> 3] >> (bit & 7) & 1 ? p[j] * a->keep_scale : 0;
}

#endif

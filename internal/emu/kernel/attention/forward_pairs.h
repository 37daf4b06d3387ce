/* The operands of the products of attention, forward, if these are of pairs of bfloat16; forward.h includes it. */
#include "pairs.h"

enum { QUERY_ALIGN = 1, PROBABILITIES_ROUND = 1 };

/* Loads the query rows of one head of the block. */
static void forward_query(struct forward *f, int64_t head)
{
	struct columns query = query_columns(f->a, &f->a->query, &f->a->query_rope);
	pair_rows((uint32_t *)f->query + head * f->rows * f->d, f->d, &query, f->head + head, f->row, f->rows);
}

/* Loads the keys and values of a tile. */
static void forward_load(struct forward *f, const struct tile *t)
{
	const struct attention *a = f->a;
	const int64_t cells = pair_cells(a->head_dim);
	const int even = rows_even(&f->keys, t->col, t->cols);
	const uint16_t *from = (uint16_t *)row_at(&f->keys, &a->key, f->kv_head, t->col);
	int64_t row = a->key.row, col = a->value.col;
	if (!even || a->rope_dim || a->key.col != 1 || a->head_dim != 2 * cells) {
		pair_rows((uint32_t *)f->rows_of_key, f->d, &f->keys, f->kv_head, t->col, t->cols);
		from = (uint16_t *)f->rows_of_key, row = 2 * f->d;
	}
	pair_transpose((uint32_t *)f->key, from, row, t->cols, cells);
	from = (uint16_t *)row_at(&f->values, &a->value, f->kv_head, t->col), row = a->value.row;
	if (!even) {
		pair_rows((uint32_t *)f->rows_of_value, f->v, &f->values, f->kv_head, t->col, t->cols);
		from = (uint16_t *)f->rows_of_value, row = 2 * f->v, col = 1;
	}
	pair_values((uint32_t *)f->value, PAIR_PANEL, from, row, col, t->cols, a->value_dim);
}

/* Multiplies rows of the block from i on with the keys. */
static void forward_scores(struct forward *f, int64_t i, int64_t rows, int64_t cols)
{
	const int64_t cells = pair_cells(f->a->head_dim);
	pair_product(f->score, f->s, (uint32_t *)f->query + i * f->d, f->d, (uint32_t *)f->key, PANEL * cells, rows, cols, cells, 0);
}

/* Row i of a strip of probabilities. */
static inline float *probability_row(const struct forward *f, int64_t i) { return f->probs + i * PAIR_ROW; }

/* Stores two vectors of a row of probabilities from column j on. They are rounded as round_away does, but none is a NaN of
 * bfloat16 that could overflow. */
INLINE void probability_put(float *row, int64_t j, vf32 low, vf32 high)
{
	vnarrow16((uint16_t *)row + j, ((vu32)low + 0x8000) >> 16);
	vnarrow16((uint16_t *)row + j + VECTOR_FLOATS, ((vu32)high + 0x8000) >> 16);
}

/* Adds the products of a strip of probabilities and the values to rows of the block from i on. */
static void forward_values(struct forward *f, int64_t i, int64_t rows, int64_t cols)
{
	pair_product(f->part.out + i * f->v, f->v, (uint32_t *)f->probs, PAIR_ROW, (uint32_t *)f->value, PAIR_PANEL, rows,
		     f->a->value_dim, pair_cells(cols), 1);
}

/* The operands of the products of attention, forward, if these are of numbers in pieces; attention_forward.h includes it. */
#include "attention_pieces.h"

enum { QUERY_ALIGN = PANEL, PROBABILITIES_ROUND = 0 };

/* Loads the query rows of the head of the block. */
static void forward_query(struct forward *f, int64_t head)
{
	struct columns query = query_columns(f->a, &f->a->query, &f->a->query_rope);
	for (int64_t i = 0; i < f->rows; i += PANEL) {
		const int64_t rows = f->rows - i < PANEL ? f->rows - i : PANEL;
		int64_t ld = f->d;
		const float *from = tile_rows(f->rows_of_key, &ld, &query, f->head + head, f->row + i, rows);
		piece_rows(f->query + i / PANEL * piece_panel(f->a->head_dim), from, ld, rows, f->a->head_dim);
	}
}

/* Loads the keys and values of a tile. */
static void forward_load(struct forward *f, const struct tile *t)
{
	int64_t ld = f->d;
	const float *rows = tile_rows(f->rows_of_key, &ld, &f->keys, f->kv_head, t->col, t->cols);
	piece_transpose(f->key, rows, ld, t->cols, f->a->head_dim, f->rows_of_value);
	piece_tile(f->value, piece_panel(ATTENTION_KEYS), f->rows_of_value, f->v, &f->values, f->kv_head, t->col, t->cols);
}

/* Multiplies rows of the block from i on with the keys. */
static void forward_scores(struct forward *f, int64_t i, int64_t rows, int64_t cols)
{
	const int64_t panel = piece_panel(f->a->head_dim);
	piece_product(&(struct piece_product){
		.c = f->score, .c_row = f->s, .a = f->query + i / PANEL * panel, .a_panel = panel, .b = f->key, .b_panel = panel,
		.rows = rows, .cols = cols, .steps = f->a->head_dim, .dtype = f->a->dtype,
	});
}

/* Row i of a strip of probabilities. */
static inline float *probability_row(const struct forward *f, int64_t i)
{
	return f->probs + i / PANEL * piece_panel(ATTENTION_KEYS) + (i % PANEL / 16 * F32_PIECES + i % 16 * 64) / 4;
}

/* Stores two vectors of a row of probabilities from column j on. */
INLINE void probability_put(float *row, int64_t j, vf32 low, vf32 high)
{
	f32_split((__m512)low, (__m512)high, (char *)row + j / PANEL * F32_STEP);
}

/* Adds the products of a strip of probabilities and the values to rows of the block from i on. */
static void forward_values(struct forward *f, int64_t i, int64_t rows, int64_t cols)
{
	piece_product(&(struct piece_product){
		.c = f->part.out + i * f->v, .c_row = f->v,
		.a = f->probs, .a_panel = piece_panel(ATTENTION_KEYS), .b = f->value, .b_panel = piece_panel(ATTENTION_KEYS),
		.rows = rows, .cols = f->a->value_dim, .steps = cols, .dtype = f->a->dtype, .accumulate = 1,
	});
}

/* Computes rows that are not numbers again, with AVX-512. The buffers of the block are lost. */
static void forward_mend(const struct forward *f, float *scratch)
{
	char lost[ATTENTION_ROWS];
	for (int64_t i = 0; i < f->rows; i++)
		lost[i] = piece_lost(f->all.out + i * f->v, f->a->value_dim);
	for (int64_t i = 0, n; i < f->rows; i += n) {
		for (n = 1; i + n < f->rows && lost[i + n] == lost[i]; n++)
			;
		if (lost[i])
			kernel_table_avx512.attention.forward(&(struct attention_block){f->a, f->head, 1, f->row + i, n, NULL},
							      ATTENTION_FINISH, scratch);
	}
}

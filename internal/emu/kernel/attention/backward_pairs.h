/* The products of attention, backward, if their operands are of pairs of bfloat16; backward.h includes it. */
#include "pairs.h"

/* Panels of the rows of query and of the output's gradient, for products that sum over rows. */
enum { PAIR_ROWS_PANEL = PANEL * ((ATTENTION_GRAD_ROWS + 2 * PAIR_STEP - 1) / (2 * PAIR_STEP) * PAIR_STEP) };

/* Loads the keys and values of a tile. */
static void backward_keys(struct backward *b, int64_t kv_head, int64_t col, int64_t cols)
{
	const struct attention *a = b->a;
	pair_rows((uint32_t *)b->rows, b->d, &b->keys, kv_head, col, cols);
	pair_transpose((uint32_t *)b->key_by_dim, (uint16_t *)b->rows, 2 * b->d, cols, pair_cells(a->head_dim));
	pair_values((uint32_t *)b->key_by_key, PAIR_PANEL, (uint16_t *)b->rows, 2 * b->d, 1, cols, a->head_dim);
	pair_rows((uint32_t *)b->rows, b->v, &b->values, kv_head, col, cols);
	pair_transpose((uint32_t *)b->value, (uint16_t *)b->rows, 2 * b->v, cols, pair_cells(a->value_dim));
	memset(b->key_sum, 0, cols * b->d * sizeof *b->key_sum);
	memset(b->value_sum, 0, cols * b->v * sizeof *b->value_sum);
}

/* Loads the rows of the tile: query and gradient of the output. */
static void backward_load(struct backward *b, const struct tile *t)
{
	const struct attention *a = b->a;
	pair_rows((uint32_t *)b->query_by_dim, b->d, &b->queries, t->head, t->row, t->rows);
	pair_rows((uint32_t *)b->dout_by_dim, b->v, &b->douts, t->head, t->row, t->rows);
	pair_values((uint32_t *)b->query_by_row, PAIR_ROWS_PANEL, (uint16_t *)b->query_by_dim, 2 * b->d, 1, t->rows, a->head_dim);
	pair_values((uint32_t *)b->dout_by_row, PAIR_ROWS_PANEL, (uint16_t *)b->dout_by_dim, 2 * b->v, 1, t->rows, a->value_dim);
}

/* Multiplies rows with keys, and gradients of the output with values. */
static void backward_scores(struct backward *b, const struct tile *t)
{
	const int64_t d = pair_cells(b->a->head_dim), v = pair_cells(b->a->value_dim);
	pair_product(b->prob, b->s, (uint32_t *)b->query_by_dim, b->d, (uint32_t *)b->key_by_dim, PANEL * d, t->rows, t->cols, d, 0);
	pair_product(b->dprob, b->s, (uint32_t *)b->dout_by_dim, b->v, (uint32_t *)b->value, PANEL * v, t->rows, t->cols, v, 0);
}

/* c[cols×n] += the transpose of probs times b. */
static void pair_transposed(struct backward *b, float *c, int64_t c_row, const float *values, const struct tile *t, int64_t n)
{
	uint32_t *panel = (uint32_t *)b->rows;
	const int64_t cells = pair_cells(t->rows);
	const int64_t room = ATTENTION_PAIR_PANEL / GEMM_KC / GEMM_MR * GEMM_MR; /* rows of a panel, in whole register blocks */
	for (int64_t j = 0; j < t->cols; j += room) {
		const int64_t w = t->cols - j < room ? t->cols - j : room;
		if (t->rows % (2 * PAIR_STEP) != 0)
			for (int64_t i = 0; i < w; i++)
				memset(panel + i * GEMM_KC, 0, cells * sizeof *panel);
		gemm_bf16_bf16_pack(panel, 1, w, t->rows, (const uint16_t *)b->probs + j, 1, 2 * PAIR_ROW);
		pair_product(c + j * c_row, c_row, panel, GEMM_KC, (uint32_t *)values, PAIR_ROWS_PANEL, w, n, cells, 1);
	}
}

/* Adds the tile's part of the gradients of values, keys and query. */
static void backward_sums(struct backward *b, const struct tile *t)
{
	const struct attention *a = b->a;
	uint32_t *probs = (uint32_t *)b->probs;
	for (int64_t i = 0; i < t->rows; i++)
		pair_store(probs + i * PAIR_ROW, b->prob + i * b->s, pad_panel(t->cols));
	pair_transposed(b, b->value_sum, b->v, b->dout_by_row, t, a->value_dim);
	for (int64_t i = 0; i < t->rows; i++)
		pair_store(probs + i * PAIR_ROW, b->dprob + i * b->s, pad_panel(t->cols));
	pair_transposed(b, b->key_sum, b->d, b->query_by_row, t, a->head_dim);
	pair_product(b->query_sum + (t->head * a->q_len + t->row) * b->d, b->d, probs, PAIR_ROW, (uint32_t *)b->key_by_key, PAIR_PANEL,
		     t->rows, a->head_dim, pair_cells(t->cols), 1);
}

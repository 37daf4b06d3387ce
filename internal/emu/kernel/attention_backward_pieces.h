/* The products of attention, backward, if their operands are of numbers in pieces; attention_backward.h includes it. Gradients of
 * keys and values are summed in columns: then probabilities are the right operand, which is not transposed. */
#include "attention_pieces.h"

/* Loads the keys and values of a tile. */
static void backward_keys(struct backward *b, int64_t kv_head, int64_t col, int64_t cols)
{
	const struct attention *a = b->a;
	float *room = b->key_grad; /* which is stored already */
	int64_t ld = b->d;
	const float *rows = tile_rows(b->rows, &ld, &b->keys, kv_head, col, cols);
	piece_transpose(b->key_by_dim, rows, ld, cols, a->head_dim, room);
	piece_tile(b->key_by_key, piece_panel(GRAD_KEYS), b->rows, b->d, &b->keys, kv_head, col, cols);
	ld = b->v;
	rows = tile_rows(b->rows, &ld, &b->values, kv_head, col, cols);
	piece_transpose(b->value, rows, ld, cols, a->value_dim, room);
	memset(b->key_sum, 0, a->head_dim * b->s * sizeof *b->key_sum);
	memset(b->value_sum, 0, a->value_dim * b->s * sizeof *b->value_sum);
}

/* Loads the rows of the tile: query and gradient of the output. */
static void backward_load(struct backward *b, const struct tile *t)
{
	const struct attention *a = b->a;
	int64_t ld = b->d;
	const float *rows = tile_rows(b->rows, &ld, &b->queries, t->head, t->row, t->rows);
	piece_rows(b->query_by_dim, rows, ld, t->rows, a->head_dim);
	piece_turn(b->query_by_row, piece_panel(GRAD_ROWS), rows, ld, t->rows, a->head_dim, b->key_grad);
	ld = b->v;
	rows = tile_rows(b->rows, &ld, &b->douts, t->head, t->row, t->rows);
	piece_rows(b->dout_by_dim, rows, ld, t->rows, a->value_dim);
	piece_turn(b->dout_by_row, piece_panel(GRAD_ROWS), rows, ld, t->rows, a->value_dim, b->value_grad);
}

/* Multiplies rows with keys, and gradients of the output with values. */
static void backward_scores(struct backward *b, const struct tile *t)
{
	const struct attention *a = b->a;
	const int64_t d = piece_panel(a->head_dim), v = piece_panel(a->value_dim);
	piece_product(&(struct piece_product){
		.c = b->prob, .c_row = b->s, .a = b->query_by_dim, .a_panel = d, .b = b->key_by_dim, .b_panel = d,
		.rows = t->rows, .cols = t->cols, .steps = a->head_dim, .dtype = a->dtype,
	});
	piece_product(&(struct piece_product){
		.c = b->dprob, .c_row = b->s, .a = b->dout_by_dim, .a_panel = v, .b = b->value, .b_panel = v,
		.rows = t->rows, .cols = t->cols, .steps = a->value_dim, .dtype = a->dtype,
	});
}

/* Adds the products of columns and a score tile to sums of columns. */
static void backward_columns(struct backward *b, const struct tile *t, float *s, float *sum, const float *columns, int64_t n)
{
	memset(s + t->rows * b->s, 0, (pad_panel(t->rows) - t->rows) * b->s * sizeof *s);
	piece_columns(b->probs, piece_panel(GRAD_ROWS), s, b->s, t->rows, t->cols);
	piece_product(&(struct piece_product){
		.c = sum, .c_row = b->s, .a = columns, .a_panel = piece_panel(GRAD_ROWS), .b = b->probs, .b_panel = piece_panel(GRAD_ROWS),
		.rows = n, .cols = t->cols, .steps = t->rows, .dtype = b->a->dtype, .accumulate = 1,
	});
}

/* Adds the tile's part of the gradients of values, keys and query. */
static void backward_sums(struct backward *b, const struct tile *t)
{
	const struct attention *a = b->a;
	backward_columns(b, t, b->prob, b->value_sum, b->dout_by_row, a->value_dim);
	backward_columns(b, t, b->dprob, b->key_sum, b->query_by_row, a->head_dim);
	piece_rows(b->probs, b->dprob, b->s, t->rows, GRAD_KEYS);
	piece_product(&(struct piece_product){
		.c = b->query_sum + (t->head * a->q_len + t->row) * b->d, .c_row = b->d,
		.a = b->probs, .a_panel = piece_panel(GRAD_KEYS), .b = b->key_by_key, .b_panel = piece_panel(GRAD_KEYS),
		.rows = t->rows, .cols = a->head_dim, .steps = t->cols, .dtype = a->dtype, .accumulate = 1,
	});
}

/* Makes rows of columns of sums. */
static void backward_turn(const struct backward *b, float *rows, int64_t ld, const float *sum, int64_t n, int64_t cols)
{
	tile_transpose(b->rows, sum, b->s, n, cols);
	for (int64_t k = 0; k < n; k += PANEL)
		for (int64_t j = 0; j < cols; j++)
			memcpy(rows + j * ld + k, b->rows + k * cols + j * PANEL, PANEL * sizeof *rows);
}

static void backward_finish(struct backward *b, int64_t cols)
{
	backward_turn(b, b->key_grad, b->d, b->key_sum, b->a->head_dim, cols);
	backward_turn(b, b->value_grad, b->v, b->value_sum, b->a->value_dim, cols);
	b->lost |= piece_lost(b->key_sum, b->a->head_dim * b->s) | piece_lost(b->value_sum, b->a->value_dim * b->s);
}

/* Computes a chunk again with AVX-512 if some of its sums are no numbers. */
static void backward_mend(const struct backward *b, int64_t kv_head, int64_t chunk, float *scratch)
{
	const int64_t group = b->a->group * b->a->q_len * b->d;
	if (b->lost | piece_lost(b->query_sum + kv_head * group, group))
		kernel_table_avx512.attention.backward(b->a, b->g, kv_head, chunk, scratch);
}

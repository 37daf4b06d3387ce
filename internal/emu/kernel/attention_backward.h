/* Flash attention, backward: probabilities are recomputed from the saved maximum and sum. With PAIR_STEP it is that of bfloat16
 * alone. */
#ifndef ATTENTION_BACKWARD_H
#define ATTENTION_BACKWARD_H

#include "attention_score.h"
#ifdef PAIR_STEP
#include "attention_pairs.h"
#endif

/* One tile of keys with its gradients, and the current block of query rows. */
struct backward {
	const struct attention *a;
	const struct attention_grad *g;
	int64_t d, v, s; /* row strides of tiles of query or key, value, score */
	float *key, *key_panels, *value_panels, *key_sum, *value_sum;
	float *query, *dout, *delta; /* rows */
	float *prob, *dprob;         /* score tiles */
	float *row;                  /* one row */
	float *query_sum;            /* of the chunk, [heads, q_len, d] */
	uint32_t *pairs;             /* for tiles of pairs of bfloat16 */
};

static struct backward backward_block(const struct attention *a, const struct attention_grad *g, int64_t chunk, float *p)
{
	struct backward b = {.a = a, .g = g};
	b.d = attention_stride(a->head_dim);
	b.v = attention_stride(a->value_dim);
	b.s = attention_stride(ATTENTION_KEYS);
	b.key = p, p += ATTENTION_KEYS * b.d;
	b.key_panels = p, p += ATTENTION_KEYS * b.d;
	b.key_sum = p, p += ATTENTION_KEYS * b.d;
	b.value_panels = p, p += ATTENTION_KEYS * b.v;
	b.value_sum = p, p += ATTENTION_KEYS * b.v;
	b.query = p, p += ATTENTION_GRAD_ROWS * b.d;
	b.dout = p, p += ATTENTION_GRAD_ROWS * b.v;
	b.delta = p, p += ATTENTION_GRAD_ROWS;
	b.prob = p, p += ATTENTION_GRAD_ROWS * b.s;
	b.dprob = p, p += ATTENTION_GRAD_ROWS * b.s;
	b.row = p, p += b.s + b.v;
	b.pairs = (uint32_t *)p;
	b.query_sum = g->query_sum + chunk * attention_query_floats(a);
	return b;
}

/* Reports whether a row of the block saw nothing and returned the mean of the values. All cells
 * contribute to its gradient, so the tile must not be trimmed. */
static int backward_blind(const struct attention *a, int64_t head, int64_t row, int64_t rows)
{
	for (int64_t i = row; i < row + rows; i++)
		if (*(float *)plane_at(&a->max, 4, head, i) == hidden && *(float *)plane_at(&a->sum, 4, head, i) != FLT_MAX)
			return 1;
	return 0;
}

/* Turns one row of scores and of dy·Vᵀ into probabilities with dropout and gradients of the
 * scores. */
static void backward_softmax(struct backward *b, const struct tile *t, int64_t i)
{
	const struct attention *a = b->a;
	float *p = b->prob + i * b->s, *dp = b->dprob + i * b->s, delta = b->delta[i];
	float max = *(float *)plane_at(&a->max, 4, t->head, t->row + i);
	float sum = *(float *)plane_at(&a->sum, 4, t->head, t->row + i);
	float inverse = sum == FLT_MAX ? 0 : 1 / sum;
	int64_t n = pad_panel(t->cols);
	for (int64_t j = 0; j < n; j += VECTOR_FLOATS)
		vstore(p + j, vexp_down(vload(p + j) - max) * inverse);
	if (a->keep)
		row_drop(a, t, t->row + i, dp);
	for (int64_t j = 0; j < n; j += VECTOR_FLOATS)
		vstore(dp + j, round_away(vload(p + j) * (vload(dp + j) - delta), a->dtype));
	if (a->keep)
		row_drop(a, t, t->row + i, p);
	if (a->dtype != DTYPE_FLOAT32)
		for (int64_t j = 0; j < n; j += VECTOR_FLOATS)
			vstore(p + j, round_away(vload(p + j), a->dtype));
}

/* Turns the products of a tile into probabilities and gradients of the scores. */
static void backward_rows(struct backward *b, const struct tile *t)
{
	for (int64_t i = 0; i < t->rows; i++) {
		row_score(b->a, t, t->row + i, b->prob + i * b->s, b->row);
		backward_softmax(b, t, i);
	}
}

#ifdef PAIR_STEP
#include "attention_backward_pairs.h"
#else
/* Loads the rows of the tile: query, gradient of the output, and its product with the output. */
static void backward_load(struct backward *b, const struct tile *t)
{
	const struct attention *a = b->a;
	struct columns query = query_columns(a, &a->query, &a->query_rope);
	struct columns out = value_columns(a, &a->out), dout = value_columns(a, &b->g->out);
	tile_load(b->query, b->d, &query, t->head, t->row, t->rows);
	tile_load(b->dout, b->v, &dout, t->head, t->row, t->rows);
	for (int64_t i = 0; i < t->rows; i++) {
		tile_load(b->row, 0, &out, t->head, t->row + i, 1);
		vf32 sum = {0};
		for (int64_t j = 0; j < pad_panel(a->value_dim); j += VECTOR_FLOATS)
			sum += vload(b->row + j) * vload(b->dout + i * b->v + j);
		b->delta[i] = vsum_lanes(sum);
	}
}

static void backward_tile(struct backward *b, const struct tile *t)
{
	const struct attention *a = b->a;
	backward_load(b, t);
	product(&(struct product){
		.c = b->prob, .c_row = b->s,
		.a = b->query, .a_row = b->d, .a_step = 1,
		.b = b->key_panels, .b_step = PANEL, .b_panel = PANEL * a->head_dim,
		.rows = t->rows, .cols = t->cols, .steps = a->head_dim,
	});
	product(&(struct product){
		.c = b->dprob, .c_row = b->s,
		.a = b->dout, .a_row = b->v, .a_step = 1,
		.b = b->value_panels, .b_step = PANEL, .b_panel = PANEL * a->value_dim,
		.rows = t->rows, .cols = t->cols, .steps = a->value_dim,
	});
	backward_rows(b, t);
	product(&(struct product){
		.c = b->value_sum, .c_row = b->v,
		.a = b->prob, .a_row = 1, .a_step = b->s,
		.b = b->dout, .b_step = b->v, .b_panel = PANEL,
		.rows = t->cols, .cols = a->value_dim, .steps = t->rows, .accumulate = 1,
	});
	product(&(struct product){
		.c = b->key_sum, .c_row = b->d,
		.a = b->dprob, .a_row = 1, .a_step = b->s,
		.b = b->query, .b_step = b->d, .b_panel = PANEL,
		.rows = t->cols, .cols = a->head_dim, .steps = t->rows, .accumulate = 1,
	});
	product(&(struct product){
		.c = b->query_sum + (t->head * a->q_len + t->row) * b->d, .c_row = b->d,
		.a = b->dprob, .a_row = b->s, .a_step = 1,
		.b = b->key, .b_step = b->d, .b_panel = PANEL,
		.rows = t->rows, .cols = a->head_dim, .steps = t->cols, .accumulate = 1,
	});
}
#endif

/* Stores the finished sums of one tile of keys. */
static void backward_store(struct backward *b, int64_t kv_head, int64_t col, int64_t cols)
{
	const struct attention *a = b->a;
	struct columns dkey = query_columns(a, &b->g->key, &b->g->key_rope), dvalue = value_columns(a, &b->g->value);
	for (int64_t j = 0; j < cols; j++) {
		float *key = b->key_sum + j * b->d;
		for (int64_t k = 0; k < pad_panel(a->head_dim); k += VECTOR_FLOATS)
			vstore(key + k, vload(key + k) * a->scale);
		columns_store(&dkey, key, kv_head, col + j);
		columns_store(&dvalue, b->value_sum + j * b->v, kv_head, col + j);
	}
}

/* Loads the keys and values of a tile. The memory of value_sum holds the value rows until they are
 * transposed. */
static void backward_keys(struct backward *b, int64_t kv_head, int64_t col, int64_t cols)
{
	const struct attention *a = b->a;
	struct columns key = query_columns(a, &a->key, &a->key_rope), value = value_columns(a, &a->value);
#ifdef PAIR_STEP
	pair_rows((uint32_t *)b->key, b->d, &key, kv_head, col, cols);
	pair_transpose((uint32_t *)b->key_panels, (uint16_t *)b->key, 2 * b->d, cols, pair_cells(a->head_dim));
	pair_values(key_values(b), PAIR_PANEL, (uint16_t *)b->key, 2 * b->d, 1, cols, a->head_dim);
	pair_rows((uint32_t *)b->value_sum, b->v, &value, kv_head, col, cols);
	pair_transpose((uint32_t *)b->value_panels, (uint16_t *)b->value_sum, 2 * b->v, cols, pair_cells(a->value_dim));
#else
	tile_load(b->key, b->d, &key, kv_head, col, cols);
	tile_transpose(b->key_panels, b->key, b->d, cols, a->head_dim);
	tile_load(b->value_sum, b->v, &value, kv_head, col, cols);
	tile_transpose(b->value_panels, b->value_sum, b->v, cols, a->value_dim);
#endif
}

/* Computes the gradients of key and value for the tiles chunk, chunk+chunks, … of one key head,
 * and the chunk's own sum of the query gradient of the head's group. */
static void attention_backward(const struct attention *a, const struct attention_grad *g, int64_t kv_head, int64_t chunk, float *scratch)
{
	struct backward b = backward_block(a, g, chunk, scratch);
	int64_t group = a->group * a->q_len * b.d;
	memset(b.query_sum + kv_head * group, 0, group * sizeof *b.query_sum);
	for (int64_t col = chunk * ATTENTION_KEYS; col < a->kv_len; col += g->chunks * ATTENTION_KEYS) {
		int64_t cols = a->kv_len - col < ATTENTION_KEYS ? a->kv_len - col : ATTENTION_KEYS;
		backward_keys(&b, kv_head, col, cols);
		memset(b.key_sum, 0, cols * b.d * sizeof *b.key_sum);
		memset(b.value_sum, 0, cols * b.v * sizeof *b.value_sum);
		for (int64_t head = kv_head * a->group; head < (kv_head + 1) * a->group; head++) {
			for (int64_t row = 0; row < a->q_len; row += ATTENTION_GRAD_ROWS) {
				struct tile t = {head, row, a->q_len - row < ATTENTION_GRAD_ROWS ? a->q_len - row : ATTENTION_GRAD_ROWS, col, cols};
				if (backward_blind(a, head, t.row, t.rows) || tile_trim(a, &t))
					backward_tile(&b, &t);
			}
		}
		backward_store(&b, kv_head, col, cols);
	}
}

#ifndef PAIR_STEP
/* Adds the chunks' sums of rows [row, row+rows) of one query head in order and stores them. */
static void attention_query_grad(const struct attention *a, const struct attention_grad *g, int64_t head, int64_t row, int64_t rows)
{
	struct columns query = query_columns(a, &g->query, &g->query_rope);
	int64_t d = attention_stride(a->head_dim), chunk = attention_query_floats(a);
	for (int64_t i = row; i < row + rows; i++) {
		float *sum = g->query_sum + (head * a->q_len + i) * d;
		for (int64_t k = 0; k < pad_panel(a->head_dim); k += VECTOR_FLOATS) {
			vf32 x = vload(sum + k);
			for (int64_t c = 1; c < g->chunks; c++)
				x += vload(sum + c * chunk + k);
			vstore(sum + k, x * a->scale);
		}
		columns_store(&query, sum, head, i);
	}
}

#endif

#endif

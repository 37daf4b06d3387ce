/* Flash attention, backward: probabilities are recomputed from the saved maximum and sum. Operands are as in attention_forward.h. */
#ifndef ATTENTION_BACKWARD_H
#define ATTENTION_BACKWARD_H

#include "forward.h"

/* One tile of keys with its gradients, and the current block of query rows. An operand is named after what the product sums over,
 * if a tensor has two. */
struct backward {
	const struct attention *a;
	const struct attention_grad *g;
	struct columns queries, keys, values, outs, douts;
	int64_t d, v, s;                                                /* row strides of tiles of query or key, value, score */
	float *key_by_dim, *key_by_key, *value;                         /* operands of a tile of keys */
	float *query_by_dim, *query_by_row, *dout_by_dim, *dout_by_row; /* operands of a block of rows */
	float *probs;                                                   /* operand of probabilities, and then of their gradients */
	float *prob, *dprob;                                            /* score tiles */
	float *key_sum, *value_sum;                                     /* of the tile of keys */
	float *query_sum; /* of the chunk, [heads, q_len, d], with delta in the last column */
	float *rows, *row; /* room for a tile of keys or values, and for one row */
};

static struct backward backward_block(const struct attention *a, const struct attention_grad *g, int64_t chunk, float *p)
{
	struct backward b = {.a = a, .g = g};
	b.queries = query_columns(a, &a->query, &a->query_rope);
	b.keys = query_columns(a, &a->key, &a->key_rope);
	b.values = value_columns(a, &a->value);
	b.outs = value_columns(a, &a->out);
	b.douts = value_columns(a, &g->out);
	b.d = attention_stride(a->head_dim);
	b.v = attention_stride(a->value_dim);
	b.s = attention_stride(ATTENTION_KEYS);
	b.key_by_dim = p, p += ATTENTION_KEYS * b.d;
	b.key_by_key = p, p += ATTENTION_KEYS * b.d;
	b.value = p, p += ATTENTION_KEYS * b.v;
	b.query_by_dim = p, p += ATTENTION_GRAD_ROWS * b.d;
	b.query_by_row = p, p += ATTENTION_GRAD_ROWS * b.d;
	b.dout_by_dim = p, p += ATTENTION_GRAD_ROWS * b.v;
	b.dout_by_row = p, p += ATTENTION_GRAD_ROWS * b.v;
	b.probs = p, p += ATTENTION_GRAD_ROWS * ATTENTION_KEYS;
	b.prob = p, p += ATTENTION_GRAD_ROWS * b.s;
	b.dprob = p, p += ATTENTION_GRAD_ROWS * b.s;
	b.key_sum = p, p += b.d * b.s;
	b.value_sum = p, p += b.v * b.s;
	b.row = p, p += b.s + b.v;
	b.rows = p;
	b.query_sum = g->query_sum + chunk * attention_query_floats(a);
	return b;
}

/* The product of a row of the output and its gradient. */
static inline float *backward_delta(const struct backward *b, int64_t head, int64_t row)
{
	return b->query_sum + (head * b->a->q_len + row + 1) * b->d - 1;
}

#if defined(PAIR_STEP)
#include "backward_pairs.h"
#else
#include "backward_floats.h"
#endif

/* Reports whether a row of the block saw nothing and returned the mean of the values. All cells
 * contribute to its gradient, so the tile must not be trimmed. */
static int backward_blind(const struct attention *a, int64_t head, int64_t row, int64_t rows)
{
	for (int64_t i = row; i < row + rows; i++)
		if (*(float *)plane_at(&a->max, 4, head, i) == hidden && *(float *)plane_at(&a->sum, 4, head, i) != FLT_MAX)
			return 1;
	return 0;
}

/* Converts one row of scores and of dy·Vᵀ into probabilities with dropout and gradients of the
 * scores. */
static void backward_softmax(struct backward *b, const struct tile *t, int64_t i)
{
	const struct attention *a = b->a;
	float *p = b->prob + i * b->s, *dp = b->dprob + i * b->s, delta = *backward_delta(b, t->head, t->row + i);
	float max = *(float *)plane_at(&a->max, 4, t->head, t->row + i);
	float sum = *(float *)plane_at(&a->sum, 4, t->head, t->row + i);
	float inverse = sum == FLT_MAX ? 0 : 1 / sum;
	int64_t n = pad_panel(t->cols);
	row_exp(p, n, 1, max, NULL);
	if (a->keep)
		row_drop(a, t, t->row + i, dp);
	for (int64_t j = 0; j < n; j += VECTOR_FLOATS) {
		vf32 prob = vload(p + j) * inverse;
		vstore(p + j, prob);
		vstore(dp + j, round_away(prob * (vload(dp + j) - delta), a->dtype));
	}
	if (a->keep)
		row_drop(a, t, t->row + i, p);
	if (a->dtype != DTYPE_FLOAT32)
		for (int64_t j = 0; j < n; j += VECTOR_FLOATS)
			vstore(p + j, round_away(vload(p + j), a->dtype));
}

/* Converts the products of a tile into probabilities and gradients of the scores. */
static void backward_rows(struct backward *b, const struct tile *t)
{
	for (int64_t i = 0; i < t->rows; i++) {
		row_score(b->a, t, t->row + i, b->prob + i * b->s, b->row);
		backward_softmax(b, t, i);
	}
}

/* Computes the deltas of all rows of a head of keys. */
static void backward_deltas(struct backward *b, int64_t kv_head)
{
	const struct attention *a = b->a;
	float *dy = b->prob; /* free until the products */
	for (int64_t head = kv_head * a->group; head < (kv_head + 1) * a->group; head++)
		for (int64_t row = 0; row < a->q_len; row++) {
			struct lanes sum = {0};
			tile_load(b->row, 0, &b->outs, head, row, 1);
			tile_load(dy, 0, &b->douts, head, row, 1);
			for (int64_t j = 0; j < pad_panel(a->value_dim); j += VECTOR_FLOATS)
				*lanes_at(&sum, j) = vfma(vload(b->row + j), vload(dy + j), *lanes_at(&sum, j));
			*backward_delta(b, head, row) = lanes_sum(sum);
		}
}

static void backward_tile(struct backward *b, const struct tile *t)
{
	backward_load(b, t);
	backward_scores(b, t);
	backward_rows(b, t);
	backward_sums(b, t);
}

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

/* Computes the gradients of key and value for the tiles chunk, chunk+chunks, … of one key head,
 * and the chunk's own sum of the query gradient of the head's group. */
static void attention_backward(const struct attention *a, const struct attention_grad *g, int64_t kv_head, int64_t chunk, float *scratch)
{
	struct backward b = backward_block(a, g, chunk, scratch);
	int64_t group = a->group * a->q_len * b.d;
	memset(b.query_sum + kv_head * group, 0, group * sizeof *b.query_sum);
	backward_deltas(&b, kv_head);
	for (int64_t col = chunk * ATTENTION_KEYS; col < a->kv_len; col += g->chunks * ATTENTION_KEYS) {
		const int64_t cols = clamp64(a->kv_len - col, 0, ATTENTION_KEYS);
		backward_keys(&b, kv_head, col, cols);
		for (int64_t head = kv_head * a->group; head < (kv_head + 1) * a->group; head++) {
			for (int64_t row = 0; row < a->q_len; row += ATTENTION_GRAD_ROWS) {
				struct tile t = {head, row, clamp64(a->q_len - row, 0, ATTENTION_GRAD_ROWS), col, cols};
				if (backward_blind(a, head, t.row, t.rows) || tile_trim(a, &t))
					backward_tile(&b, &t);
			}
		}
		backward_store(&b, kv_head, col, cols);
	}
}

#endif

/* Flash attention, forward: an online softmax over tiles of keys. With PAIR_STEP bfloat16 is
 * multiplied by a unit of the CPU. */
#ifndef ATTENTION_FORWARD_H
#define ATTENTION_FORWARD_H

#include "attention_score.h"
#ifdef PAIR_STEP
#include "attention_pairs.h"
#endif

/* A block of query rows of one head with its buffers; arrays of rows start at row. */
struct forward {
	const struct attention *a;
	int64_t head, row, rows;
	int64_t d, v, s;            /* row strides of tiles of query or key, value, score */
	float *query, *out;         /* rows */
	float *score;               /* of a strip */
	float *max, *sum;           /* one per row */
	float *key, *key_panels, *value;
	float *bias; /* one row */
	int pairs;   /* query, keys, values and probabilities are cells of pairs of bfloat16 */
};

static struct forward forward_block(const struct attention *a, int64_t head, int64_t row, int64_t rows, float *p)
{
	struct forward f = {.a = a, .head = head, .row = row, .rows = rows};
	f.d = attention_stride(a->head_dim);
	f.v = attention_stride(a->value_dim);
	f.s = attention_stride(ATTENTION_KEYS);
	f.query = p, p += ATTENTION_ROWS * f.d;
	f.out = p, p += ATTENTION_ROWS * f.v;
	f.score = p, p += STRIP * f.s;
	f.key = p, p += ATTENTION_KEYS * f.d;
	f.key_panels = p, p += ATTENTION_KEYS * f.d;
	f.value = p, p += ATTENTION_KEYS * f.v;
	f.bias = p, p += f.s;
	f.max = p, p += ATTENTION_ROWS;
	f.sum = p;
	return f;
}

/* Turns the scores s of one row into exponentials relative to the running maximum. */
static void forward_softmax(struct forward *f, const struct tile *t, int64_t row, float *s)
{
	int64_t i = row - f->row, n = pad_panel(t->cols);
	vf32 top[2] = {vload(s), vload(s + VECTOR_FLOATS)};
	for (int64_t j = PANEL; j < n; j += PANEL) {
		top[0] = vmax(vload(s + j), top[0]);
		top[1] = vmax(vload(s + j + VECTOR_FLOATS), top[1]);
	}
	float before = f->max[i], max = vmax_lanes(vmax(top[0], top[1]));
	max = max > before ? max : before;
	vf32 sum = {0};
	for (int64_t j = 0; j < n; j += VECTOR_FLOATS) {
		vf32 p = vexp_down(vload(s + j) - max);
		sum += p;
		vstore(s + j, p);
	}
	if (f->a->keep)
		row_drop(f->a, t, row, s);
	if (f->a->dtype != DTYPE_FLOAT32)
		for (int64_t j = 0; j < n; j += VECTOR_FLOATS)
			vstore(s + j, round_away(vload(s + j), f->a->dtype));
	float decay = 1;
	if (max != before) {
		decay = vexp_down(vset(before - max))[0];
		float *out = f->out + i * f->v;
		for (int64_t j = 0; j < pad_panel(f->a->value_dim); j += VECTOR_FLOATS)
			vstore(out + j, vload(out + j) * decay);
	}
	f->max[i] = max;
	f->sum[i] = f->sum[i] * decay + vsum_lanes(sum);
}

/* Loads the keys and values of a tile. */
static void forward_load(struct forward *f, const struct tile *t)
{
	const struct attention *a = f->a;
	int64_t kv_head = t->head / a->group;
	struct columns key = query_columns(a, &a->key, &a->key_rope), value = value_columns(a, &a->value);
#ifdef PAIR_STEP
	if (f->pairs) {
		pair_rows((uint32_t *)f->key, f->d, &key, kv_head, t->col, t->cols);
		pair_transpose((uint32_t *)f->key_panels, (uint32_t *)f->key, f->d, t->cols, pair_cells(a->head_dim));
		pair_values((uint32_t *)f->value, PAIR_PANEL, (const uint16_t *)plane_at(&a->value, 2, kv_head, t->col), a->value.row,
			    a->value.col, t->cols, a->value_dim);
		return;
	}
#endif
	tile_load(f->key, f->d, &key, kv_head, t->col, t->cols);
	tile_transpose(f->key_panels, f->key, f->d, t->cols, a->head_dim);
	tile_load(f->value, f->v, &value, kv_head, t->col, t->cols);
}

/* Turns the products of a strip of rows into exponentials. */
static void forward_strip(struct forward *f, const struct tile *t)
{
	for (int64_t r = 0; r < t->rows; r++) {
		float *s = f->score + r * f->s;
		row_score(f->a, t, t->row + r, s, f->bias);
		forward_softmax(f, t, t->row + r, s);
	}
}

#ifdef PAIR_STEP
static void forward_tile_pairs(struct forward *f, const struct tile *t)
{
	const struct attention *a = f->a;
	const int64_t i = t->row - f->row, cells = pair_cells(a->head_dim);
	pair_product(f->score, f->s, (uint32_t *)f->query + i * f->d, f->d, (uint32_t *)f->key_panels, PANEL * cells, t->rows, t->cols,
		     cells, 0);
	forward_strip(f, t);
	uint32_t *prob = (uint32_t *)f->key; /* the keys are in panels */
	for (int64_t r = 0; r < t->rows; r++)
		pair_store(prob + r * PAIR_ROW, f->score + r * f->s, pad_panel(t->cols));
	pair_product(f->out + i * f->v, f->v, prob, PAIR_ROW, (uint32_t *)f->value, PAIR_PANEL, t->rows, a->value_dim,
		     pair_cells(t->cols), 1);
}
#endif

/* Adds a tile, or a strip of its rows, to the running softmax and output. */
static void forward_tile(struct forward *f, const struct tile *t)
{
#ifdef PAIR_STEP
	if (f->pairs) {
		forward_tile_pairs(f, t);
		return;
	}
#endif
	const struct attention *a = f->a;
	int64_t i = t->row - f->row;
	product(&(struct product){
		.c = f->score, .c_row = f->s,
		.a = f->query + i * f->d, .a_row = f->d, .a_step = 1,
		.b = f->key_panels, .b_step = PANEL, .b_panel = PANEL * a->head_dim,
		.rows = t->rows, .cols = t->cols, .steps = a->head_dim,
	});
	forward_strip(f, t);
	product(&(struct product){
		.c = f->out + i * f->v, .c_row = f->v,
		.a = f->score, .a_row = f->s, .a_step = 1,
		.b = f->value, .b_step = f->v, .b_panel = PANEL,
		.rows = t->rows, .cols = a->value_dim, .steps = t->cols, .accumulate = 1,
	});
}

/* Processes the tiles of the key axis; with sparse set, only tiles with visible cells. */
static void forward_sweep(struct forward *f, int sparse)
{
	const struct attention *a = f->a;
	for (int64_t i = 0; i < f->rows; i++) {
		f->max[i] = hidden;
		f->sum[i] = 0;
	}
	memset(f->out, 0, f->rows * f->v * sizeof *f->out);
	for (int64_t col = 0; col < a->kv_len; col += ATTENTION_KEYS) {
		int64_t cols = a->kv_len - col < ATTENTION_KEYS ? a->kv_len - col : ATTENTION_KEYS;
		struct tile t = {f->head, f->row, f->rows, col, cols};
		if (sparse && !tile_trim(a, &t))
			continue;
		forward_load(f, &t);
		for (int64_t row = t.row; row < t.row + t.rows; row += STRIP) {
			int64_t left = t.row + t.rows - row;
			struct tile strip = {f->head, row, left < STRIP ? left : STRIP, col, t.cols};
			if (!sparse || tile_trim(a, &strip))
				forward_tile(f, &strip);
		}
	}
}

static int forward_blind(const struct forward *f)
{
	for (int64_t i = 0; i < f->rows; i++)
		if (f->max[i] == hidden)
			return 1;
	return 0;
}

static void forward_finish(struct forward *f)
{
	const struct attention *a = f->a;
	struct columns columns = value_columns(a, &a->out);
	for (int64_t i = 0; i < f->rows; i++) {
		int blind = f->max[i] == hidden && a->zero_masked_rows;
		float *out = f->out + i * f->v, sum = blind ? FLT_MAX : f->sum[i], max = f->max[i];
		if (a->kv_len == 0)
			max = sum = 0;
		float inverse = blind || a->kv_len == 0 ? 0 : 1 / sum;
		for (int64_t j = 0; j < pad_panel(a->value_dim); j += VECTOR_FLOATS)
			vstore(out + j, vload(out + j) * inverse);
		columns_store(&columns, out, f->head, f->row + i);
		float *m = (float *)plane_at(&a->max, 4, f->head, f->row + i), *l = (float *)plane_at(&a->sum, 4, f->head, f->row + i);
		for (int64_t c = 0; c < ATTENTION_STAT_COPIES; c++) {
			m[c * a->max.col] = max;
			l[c * a->sum.col] = sum;
		}
	}
}

/* Computes out, max and sum for the rows [row, row+rows) of one query head. The result does not
 * depend on how the rows are divided into blocks. */
static void attention_forward(const struct attention *a, int64_t head, int64_t row, int64_t rows, float *scratch)
{
	struct forward f = forward_block(a, head, row, rows, scratch);
	struct columns query = query_columns(a, &a->query, &a->query_rope);
#ifdef PAIR_STEP
	f.pairs = a->dtype == DTYPE_BFLOAT16;
	if (f.pairs)
		pair_rows((uint32_t *)f.query, f.d, &query, head, row, rows);
#endif
	if (!f.pairs)
		tile_load(f.query, f.d, &query, head, row, rows);
	/* A row that sees nothing averages all values, so it needs every tile. */
	forward_sweep(&f, 1);
	if (!a->zero_masked_rows && forward_blind(&f))
		forward_sweep(&f, 0);
	forward_finish(&f);
}

#endif

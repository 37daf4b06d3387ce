/* Flash attention, forward: an online softmax over tiles of keys. With PAIR_STEP it is that of bfloat16 alone, whose pairs
 * a unit of the CPU multiplies. */
#ifndef ATTENTION_FORWARD_H
#define ATTENTION_FORWARD_H

#include "attention_score.h"
#ifdef PAIR_STEP
#include "attention_pairs.h"
#endif

/* What was added up for the rows of a block. */
struct sums {
	float *out, *max, *sum; /* an output row, a maximum and a sum per row */
};

/* A block of query rows with its buffers. Rows of several heads follow each other, head by head. */
struct forward {
	const struct attention *a;
	int64_t head, heads, row, rows; /* rows of each head */
	int64_t d, v, s;                /* row strides of tiles of query or key, value, score */
	float *query;                   /* rows */
	float *score;                   /* of a strip */
	struct sums all, part;          /* of all parts of the keys so far, and of the one at hand */
	float *key, *key_panels, *value;
	const float *values; /* of the tile, with their row stride */
	int64_t values_row;
	float *bias; /* one row */
};

static struct sums forward_sums(const struct forward *f, float *p)
{
	const int64_t rows = f->heads * f->rows;
	return (struct sums){p, p + rows * f->v, p + rows * (f->v + 1)};
}

static struct forward forward_block(const struct attention_block *b, float *p)
{
	const struct attention *a = b->a;
	struct forward f = {.a = a, .head = b->head, .heads = b->heads, .row = b->row, .rows = b->rows};
	f.d = attention_stride(a->head_dim);
	f.v = attention_stride(a->value_dim);
	f.s = attention_stride(ATTENTION_KEYS);
	f.query = p, p += ATTENTION_ROWS * f.d;
	f.score = p, p += STRIP * f.s;
	f.key = p, p += ATTENTION_KEYS * (f.d > f.v ? f.d : f.v);
	f.key_panels = p, p += ATTENTION_KEYS * f.d;
	f.value = p, p += ATTENTION_KEYS * f.v;
	f.bias = p, p += f.s;
	f.all = forward_sums(&f, p), p += attention_part_floats(a->value_dim, ATTENTION_ROWS);
	f.part = forward_sums(&f, p);
	return f;
}

/* The place of a row in the block. */
static inline int64_t forward_index(const struct forward *f, int64_t head, int64_t row) { return (head - f->head) * f->rows + row - f->row; }

/* Reports whether forward_softmax multiplies with the scale, which saves a pass. A bias is added to scaled products, and
 * extreme factors could make hidden cells visible. */
static inline int forward_folds(const struct attention *a)
{
	return a->bias_kind == BIAS_NONE && a->scale > 0x1p-40f && a->scale < 0x1p40f;
}

static float row_max(const float *s, int64_t n)
{
	vf32 top[2] = {vload(s), vload(s + VECTOR_FLOATS)};
	for (int64_t j = PANEL; j < n; j += PANEL) {
		top[0] = vmax(vload(s + j), top[0]);
		top[1] = vmax(vload(s + j + VECTOR_FLOATS), top[1]);
	}
	return vmax_lanes(vmax(top[0], top[1]));
}

/* Stores exp(s·scale - max), in cells of pairs of bfloat16 if there are any, and returns the sum, of which nothing is
 * rounded. */
INLINE float row_exp(float *s, int64_t n, float scale, float max, uint32_t *cells)
{
	vf32 sum = {0};
	for (int64_t j = 0; j < n; j += VECTOR_FLOATS) {
		vf32 p = vexp_down(vload(s + j) * scale - max);
		sum += p;
		if (cells) /* as round_away does, but no NaN of bfloat16 can overflow */
			vnarrow16((uint16_t *)cells + j, ((vu32)p + 0x8000) >> 16);
		else
			vstore(s + j, p);
	}
	return vsum_lanes(sum);
}

/* Turns one row of products into exponentials relative to the running maximum. They are stored in cells of pairs
 * of bfloat16 if there are any. */
static void forward_softmax(struct forward *f, const struct tile *t, int64_t row, float *s, uint32_t *cells)
{
	const struct attention *a = f->a;
	int64_t i = forward_index(f, t->head, row), n = pad_panel(t->cols);
	float scale = forward_folds(a) ? a->scale : 1, before = f->part.max[i], max = row_max(s, n), sum;
	max = max == hidden ? hidden : max * scale;
	max = max > before ? max : before;
	if (max == hidden) /* all cells are hidden, and count alike */
		scale = 1;
	if (!a->keep && cells) {
		sum = row_exp(s, n, scale, max, cells);
	} else {
		sum = row_exp(s, n, scale, max, NULL);
		if (a->keep)
			row_drop(a, t, row, s);
		for (int64_t j = 0; a->dtype != DTYPE_FLOAT32 && j < n; j += VECTOR_FLOATS) {
			vf32 p = round_away(vload(s + j), a->dtype);
			if (cells)
				vnarrow16((uint16_t *)cells + j, (vu32)p >> 16);
			else
				vstore(s + j, p);
		}
	}
	float decay = 1;
	if (max != before) {
		decay = vexp_down(vset(before - max))[0];
		float *out = f->part.out + i * f->v;
		for (int64_t j = 0; j < pad_panel(a->value_dim); j += VECTOR_FLOATS)
			vstore(out + j, vload(out + j) * decay);
	}
	f->part.max[i] = max;
	f->part.sum[i] = f->part.sum[i] * decay + sum;
}

/* Reports whether the rows of a tile are at a constant distance, in the pages of a cache too. */
static inline int forward_even(const struct attention *a, const struct tile *t)
{
	return !a->pages || t->col / a->page_rows == (t->col + t->cols - 1) / a->page_rows;
}

/* Loads the keys and values of a tile. */
static void forward_load(struct forward *f, const struct tile *t)
{
	const struct attention *a = f->a;
	const int64_t kv_head = t->head / a->group;
	struct columns key = query_columns(a, &a->key, &a->key_rope), value = value_columns(a, &a->value);
	key.cache = value.cache = a->pages ? a : NULL;
#ifdef PAIR_STEP
	const int64_t cells = pair_cells(a->head_dim);
	const int even = forward_even(a, t);
	uint32_t *rows = (uint32_t *)f->key;
	if (even && !a->rope_dim && a->key.col == 1 && a->head_dim == 2 * cells) {
		pair_transpose((uint32_t *)f->key_panels, (uint16_t *)row_at(&key, &a->key, kv_head, t->col), a->key.row, t->cols, cells);
	} else {
		pair_rows(rows, f->d, &key, kv_head, t->col, t->cols);
		pair_transpose((uint32_t *)f->key_panels, (uint16_t *)rows, 2 * f->d, t->cols, cells);
	}
	const uint16_t *from = (uint16_t *)row_at(&value, &a->value, kv_head, t->col);
	int64_t row = a->value.row, col = a->value.col;
	if (!even) {
		pair_rows(rows, f->v, &value, kv_head, t->col, t->cols);
		from = (uint16_t *)rows, row = 2 * f->v, col = 1;
	}
	pair_values((uint32_t *)f->value, PAIR_PANEL, from, row, col, t->cols, a->value_dim);
#else
	enum { NEAR = 128 };
	const int floats = a->dtype == DTYPE_FLOAT32 && forward_even(a, t);
	if (floats && !a->rope_dim && a->key.col == 1) {
		tile_transpose(f->key_panels, (float *)row_at(&key, &a->key, kv_head, t->col), a->key.row, t->cols, a->head_dim);
	} else {
		tile_load(f->key, f->d, &key, kv_head, t->col, t->cols);
		tile_transpose(f->key_panels, f->key, f->d, t->cols, a->head_dim);
	}
	f->values = f->value, f->values_row = f->v;
	/* A copy pays off only if rows lie far apart, so that they share sets of the cache, and are read often. */
	if (floats && a->value.col == 1 && a->value_dim % PANEL == 0 && (a->value.row <= NEAR || f->heads * f->rows <= PRODUCT_ROWS))
		f->values = (float *)row_at(&value, &a->value, kv_head, t->col), f->values_row = a->value.row;
	else
		tile_load(f->value, f->v, &value, kv_head, t->col, t->cols);
#endif
}

/* Turns the products of a strip of rows into exponentials, which go to rows of cells if there are any. */
static void forward_strip(struct forward *f, const struct tile *t, uint32_t *cells, int64_t cells_row)
{
	float *s = f->score;
	for (struct tile of = *t; of.head < t->head + f->heads; of.head++)
		for (int64_t r = 0; r < t->rows; r++, s += f->s) {
			if (forward_folds(f->a))
				row_cover(f->a, &of, t->row + r, s);
			else
				row_score(f->a, &of, t->row + r, s, f->bias);
			forward_softmax(f, &of, t->row + r, s, cells);
			if (cells)
				cells += cells_row;
		}
}

/* Adds a tile, or a strip of its rows, to the running softmax and output. It stands for the same rows of all heads. */
static void forward_tile(struct forward *f, const struct tile *t)
{
	const struct attention *a = f->a;
	const int64_t i = forward_index(f, t->head, t->row), rows = f->heads * t->rows;
#ifdef PAIR_STEP
	const int64_t cells = pair_cells(a->head_dim);
	pair_product(f->score, f->s, (uint32_t *)f->query + i * f->d, f->d, (uint32_t *)f->key_panels, PANEL * cells, rows, t->cols,
		     cells, 0);
	uint32_t *prob = (uint32_t *)f->key; /* the keys are in panels */
	forward_strip(f, t, prob, PAIR_ROW);
	pair_product(f->part.out + i * f->v, f->v, prob, PAIR_ROW, (uint32_t *)f->value, PAIR_PANEL, rows, a->value_dim,
		     pair_cells(t->cols), 1);
#else
	product(&(struct product){
		.c = f->score, .c_row = f->s,
		.a = f->query + i * f->d, .a_row = f->d, .a_step = 1,
		.b = f->key_panels, .b_step = PANEL, .b_panel = PANEL * a->head_dim,
		.rows = rows, .cols = t->cols, .steps = a->head_dim,
	});
	forward_strip(f, t, NULL, 0);
	product(&(struct product){
		.c = f->part.out + i * f->v, .c_row = f->v,
		.a = f->score, .a_row = f->s, .a_step = 1,
		.b = f->values, .b_step = f->values_row, .b_panel = PANEL,
		.rows = rows, .cols = a->value_dim, .steps = t->cols, .accumulate = 1,
	});
#endif
}

/* Shrinks a tile as tile_trim does. All rows of several heads stay, for they are computed together. */
static int forward_trim(const struct forward *f, struct tile *t)
{
	if (f->heads == 1)
		return tile_trim(f->a, t);
	int64_t cols = 0;
	for (int64_t h = 0; h < f->heads; h++) {
		struct tile of = *t;
		of.head += h;
		if (tile_trim(f->a, &of) && of.cols > cols)
			cols = of.cols;
	}
	t->cols = cols;
	return cols > 0;
}

/* Sums over the tiles of a part of the keys; with sparse set, only tiles with visible cells. */
static void forward_sweep(struct forward *f, int64_t part, int sparse)
{
	const struct attention *a = f->a;
	const int64_t begin = part * ATTENTION_PART, end = a->kv_len - begin < ATTENTION_PART ? a->kv_len : begin + ATTENTION_PART;
	for (int64_t i = 0; i < f->heads * f->rows; i++) {
		f->part.max[i] = hidden;
		f->part.sum[i] = 0;
	}
	memset(f->part.out, 0, f->heads * f->rows * f->v * sizeof *f->part.out);
	for (int64_t col = begin; col < end; col += ATTENTION_KEYS) {
		struct tile t = {f->head, f->row, f->rows, col, end - col < ATTENTION_KEYS ? end - col : ATTENTION_KEYS};
		if (sparse && !forward_trim(f, &t))
			continue;
		forward_load(f, &t);
		for (int64_t row = t.row; row < t.row + t.rows; row += STRIP) {
			int64_t left = t.row + t.rows - row;
			struct tile strip = {f->head, row, left < STRIP ? left : STRIP, col, t.cols};
			if (!sparse || forward_trim(f, &strip))
				forward_tile(f, &strip);
		}
	}
}

/* Adds the sums of a part of the keys to those of the parts before it. */
static void forward_fold(struct forward *f)
{
	for (int64_t i = 0; i < f->heads * f->rows; i++) {
		const float before = f->all.max[i], now = f->part.max[i], max = now > before ? now : before;
		const float keep = vexp_down(vset(before - max))[0], take = vexp_down(vset(now - max))[0];
		float *out = f->all.out + i * f->v, *of = f->part.out + i * f->v;
		for (int64_t j = 0; j < pad_panel(f->a->value_dim); j += VECTOR_FLOATS)
			vstore(out + j, vload(out + j) * keep + vload(of + j) * take);
		f->all.sum[i] = f->all.sum[i] * keep + f->part.sum[i] * take;
		f->all.max[i] = max;
	}
}

/* Sums over all keys, or adds up the sums of their parts that there are. */
static void forward_add(struct forward *f, float *parts, int sparse)
{
	const struct sums room = f->part;
	for (int64_t part = 0; part < attention_parts(f->a); part++) {
		f->part = part ? room : f->all;
		if (parts)
			f->part = forward_sums(f, parts + part * attention_part_floats(f->a->value_dim, f->heads * f->rows));
		else
			forward_sweep(f, part, sparse);
		if (part)
			forward_fold(f);
		else
			f->all = f->part;
	}
	f->part = room;
}

static int forward_blind(const struct forward *f)
{
	for (int64_t i = 0; i < f->heads * f->rows; i++)
		if (f->all.max[i] == hidden)
			return 1;
	return 0;
}

static void forward_finish(struct forward *f)
{
	const struct attention *a = f->a;
	struct columns columns = value_columns(a, &a->out);
	for (int64_t i = 0; i < f->heads * f->rows; i++) {
		const int64_t head = f->head + i / f->rows, row = f->row + i % f->rows;
		int blind = f->all.max[i] == hidden && a->zero_masked_rows;
		float *out = f->all.out + i * f->v, sum = blind ? FLT_MAX : f->all.sum[i], max = f->all.max[i];
		if (a->kv_len == 0)
			max = sum = 0;
		float inverse = blind || a->kv_len == 0 ? 0 : 1 / sum;
		for (int64_t j = 0; j < pad_panel(a->value_dim); j += VECTOR_FLOATS)
			vstore(out + j, vload(out + j) * inverse);
		columns_store(&columns, out, head, row);
		float *m = (float *)plane_at(&a->max, 4, head, row), *l = (float *)plane_at(&a->sum, 4, head, row);
		for (int64_t c = 0; c < ATTENTION_STAT_COPIES; c++) {
			m[c * a->max.col] = max;
			l[c * a->sum.col] = sum;
		}
	}
}

/* Computes the sums of one part of the keys, or with ATTENTION_FINISH out, max and sum of the rows of a block. The result
 * does not depend on how rows and heads are divided into blocks, and who computes the parts. */
static void attention_forward(const struct attention_block *b, int64_t part, float *scratch)
{
	const struct attention *a = b->a;
	struct forward f = forward_block(b, scratch);
	struct columns query = query_columns(a, &a->query, &a->query_rope);
	for (int64_t h = 0; h < f.heads; h++) {
		float *to = f.query + h * f.rows * f.d;
#ifdef PAIR_STEP
		pair_rows((uint32_t *)to, f.d, &query, f.head + h, f.row, f.rows);
#else
		tile_load(to, f.d, &query, f.head + h, f.row, f.rows);
#endif
	}
	if (part != ATTENTION_FINISH) {
		f.part = forward_sums(&f, b->parts + part * attention_part_floats(a->value_dim, f.heads * f.rows));
		forward_sweep(&f, part, 1);
		return;
	}
	/* A row that sees nothing averages all values, so it needs every tile. */
	forward_add(&f, b->parts, 1);
	if (!a->zero_masked_rows && forward_blind(&f))
		forward_add(&f, NULL, 0);
	forward_finish(&f);
}

#endif

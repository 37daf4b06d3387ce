/* Flash attention, forward: an online softmax over tiles of keys. With PAIR_STEP it is that of bfloat16 alone, whose pairs
 * a unit of the CPU multiplies, and with ATTENTION_PIECES that of floats, which are multiplied in pieces. */
#ifndef ATTENTION_FORWARD_H
#define ATTENTION_FORWARD_H

#include "score.h"

/* What was added up for the rows of a block. */
struct sums {
	float *out, *max, *sum; /* an output row, a maximum and a sum per row */
};

/* A block of query rows with its buffers. Rows of several heads follow each other, head by head. */
struct forward {
	const struct attention *a;
	int64_t head, heads, row, rows;     /* rows of each head */
	int64_t kv_head;
	struct columns keys, values;
	int64_t d, v, s;                    /* row strides of tiles of query or key, value, score */
	float *query, *key, *value, *probs; /* operands: of the block, of a tile of keys, of a strip */
	int64_t value_row;                  /* of values that are floats */
	float *score;                       /* of a strip */
	struct sums all, part;              /* of all parts of the keys so far, and of the one at hand */
	float *rows_of_key, *rows_of_value; /* room for what is not in memory as the operands need it */
	float *bias;                        /* one row */
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
	f.kv_head = f.head / a->group;
	f.keys = query_columns(a, &a->key, &a->key_rope);
	f.values = value_columns(a, &a->value);
	f.keys.cache = f.values.cache = a->pages ? a : NULL;
	f.d = attention_stride(a->head_dim);
	f.v = attention_stride(a->value_dim);
	f.s = attention_stride(ATTENTION_KEYS);
	f.query = p, p += ATTENTION_ROWS * f.d;
	f.key = p, p += ATTENTION_KEYS * f.d;
	f.value = p, p += ATTENTION_KEYS * f.v;
	f.probs = p, p += ATTENTION_STRIP_ROWS * ATTENTION_KEYS;
	f.score = p, p += ATTENTION_STRIP_ROWS * f.s;
	f.rows_of_key = p, p += ATTENTION_KEYS * f.d;
	f.rows_of_value = p, p += ATTENTION_KEYS * (f.d + f.v);
	f.bias = p, p += f.s;
	f.all = forward_sums(&f, p), p += attention_part_floats(a->value_dim, ATTENTION_ROWS);
	f.part = forward_sums(&f, p);
	return f;
}

#if defined(PAIR_STEP)
#include "forward_pairs.h"
#else
#include "forward_floats.h"
#endif

/* The place of a row in the block. */
static inline int64_t forward_index(const struct forward *f, int64_t head, int64_t row)
{
	return (head - f->head) * f->rows + row - f->row;
}

/* Reports whether forward_strip multiplies with the scale, which saves a pass. A bias is added to scaled products, and
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
	return vmax_across(vmax(top[0], top[1]));
}

/* Stores exp(s·scale - max) of n vectors in place, or in a row of probabilities, and adds them to the sum, of which nothing is
 * rounded. */
INLINE void row_exp_part(float *s, int64_t j, const int n, float scale, float max, float *to, struct lanes *sum)
{
	const int64_t lane = PANEL % 16 == 0 ? 0 : j; /* a constant where it can be one */
	vf32 p[EXP_VECTORS];
#pragma GCC unroll 8
	for (int i = 0; i < n; i++)
		p[i] = vfma(vload(s + j + i * VECTOR_FLOATS), vset(scale), vset(-max));
	vexp_down(p, n);
#pragma GCC unroll 4
	for (int i = 0; i < n; i += 2) {
		*lanes_at(sum, lane + i * VECTOR_FLOATS) += p[i];
		*lanes_at(sum, lane + (i + 1) * VECTOR_FLOATS) += p[i + 1];
		if (to) {
			probability_put(to, j + i * VECTOR_FLOATS, p[i], p[i + 1]);
		} else {
			vstore(s + j + i * VECTOR_FLOATS, p[i]);
			vstore(s + j + (i + 1) * VECTOR_FLOATS, p[i + 1]);
		}
	}
}

/* Does so with a whole row and returns the sum. */
static NOT_INLINE float row_exp(float *s, int64_t n, float scale, float max, float *to)
{
	enum { BLOCK = EXP_VECTORS * VECTOR_FLOATS };
	struct lanes sum = {0};
	int64_t j = 0;
	for (; j + BLOCK <= n; j += BLOCK)
		row_exp_part(s, j, EXP_VECTORS, scale, max, to, &sum);
	for (; j < n; j += PANEL)
		row_exp_part(s, j, PANEL / VECTOR_FLOATS, scale, max, to, &sum);
	return lanes_sum(sum);
}

/* Converts one row of products into exponentials relative to its maximum and returns their sum. They go to a row of probabilities. */
static inline float
forward_exp(const struct attention *a, const struct tile *t, int64_t row, float *s, float scale, float max, float *to)
{
	const int64_t n = pad_panel(t->cols);
	const int at_once = !a->keep && (a->dtype == DTYPE_FLOAT32 || PROBABILITIES_ROUND);
	const float sum = row_exp(s, n, scale, max, at_once ? to : NULL);
	if (at_once)
		return sum;
	if (a->keep)
		row_drop(a, t, row, s);
	for (int64_t j = 0; j < n; j += PANEL)
		probability_put(to, j, round_away(vload(s + j), a->dtype), round_away(vload(s + j + VECTOR_FLOATS), a->dtype));
	return sum;
}

/* Converts the products of a strip of rows into exponentials relative to the running maxima. All maxima come first, so that no row
 * waits for its own. */
static void forward_strip(struct forward *f, const struct tile *t)
{
	const struct attention *a = f->a;
	const int64_t rows = f->heads * t->rows, first = forward_index(f, t->head, t->row);
	const int folds = forward_folds(a);
	const float scale = folds ? a->scale : 1;
	float *max = f->part.max + first, *sum = f->part.sum + first, decay[ATTENTION_STRIP_ROWS], scales[ATTENTION_STRIP_ROWS];
	struct tile of = *t;
	float *s = f->score;
	for (int64_t i = 0; of.head < t->head + f->heads; of.head++)
		for (int64_t r = 0; r < t->rows; r++, i++, s += f->s) {
			if (folds)
				row_cover(a, &of, t->row + r, s);
			else
				row_score(a, &of, t->row + r, s, f->bias);
			decay[i] = row_max(s, pad_panel(t->cols));
		}
	for (int64_t i = 0; i < rows; i++) {
		const float before = max[i], top = decay[i] == hidden ? hidden : decay[i] * scale, now = top > before ? top : before;
		max[i] = now;
		decay[i] = before - now;
		scales[i] = now == hidden ? 1 : scale; /* where all cells are hidden they count alike */
	}
	for (int64_t i = 0; i < rows; i += VECTOR_FLOATS) {
		vf32 x = vload(decay + i);
		vexp_down(&x, 1);
		vstore(decay + i, x);
	}
	s = f->score, of.head = t->head;
	for (int64_t i = 0; of.head < t->head + f->heads; of.head++)
		for (int64_t r = 0; r < t->rows; r++, i++, s += f->s) {
			const float added = forward_exp(a, &of, t->row + r, s, scales[i], max[i], probability_row(f, i));
			sum[i] = sum[i] * decay[i] + added;
		}
	for (int64_t i = 0; i < rows; i++) {
		if (decay[i] == 1)
			continue;
		float *out = f->part.out + (first + i) * f->v;
		for (int64_t j = 0; j < pad_panel(a->value_dim); j += VECTOR_FLOATS)
			vstore(out + j, vload(out + j) * decay[i]);
	}
}

/* Adds a tile, or a strip of its rows, to the running softmax and output. It stands for the same rows of all heads. */
static void forward_tile(struct forward *f, const struct tile *t)
{
	const int64_t i = forward_index(f, t->head, t->row), rows = f->heads * t->rows;
	forward_scores(f, i, rows, t->cols);
	forward_strip(f, t);
	forward_values(f, i, rows, t->cols);
}

/* Shrinks a tile as tile_trim does. All rows of several heads stay, for they are computed together. */
static int forward_trim(const struct forward *f, struct tile *t)
{
	if (f->heads == 1) {
		const int visible = tile_trim(f->a, t);
		const int64_t skip = (t->row - f->row) % QUERY_ALIGN; /* hidden rows of the operand that come along */
		t->row -= skip;
		t->rows += skip;
		return visible;
	}
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
		for (int64_t row = t.row, rows; row < t.row + t.rows; row += rows) {
			struct tile strip = {f->head, row, ATTENTION_STRIP, col, t.cols};
			strip.rows = rows = clamp64(t.row + t.rows - row, 0, tile_open(a, &strip) ? ATTENTION_STRIP : EDGE_STRIP);
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
		vf32 keep = vset(before - max), take = vset(now - max);
		vexp_down(&keep, 1);
		vexp_down(&take, 1);
		float *out = f->all.out + i * f->v, *of = f->part.out + i * f->v;
		for (int64_t j = 0; j < pad_panel(f->a->value_dim); j += VECTOR_FLOATS)
			vstore(out + j, vload(out + j) * keep + vload(of + j) * take);
		f->all.sum[i] = f->all.sum[i] * keep[0] + f->part.sum[i] * take[0];
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

/* Takes the sinks of the heads into the softmax of the rows. */
static void forward_sinks(struct forward *f)
{
	for (int64_t i = 0; i < f->heads * f->rows; i++) {
		const float sink = *(const float *)plane_at(&f->a->sink, 4, f->head + i / f->rows, 0), before = f->all.max[i];
		const float max = sink > before ? sink : before;
		vf32 keep = vset(before - max), take = vset(sink - max);
		vexp_down(&keep, 1);
		vexp_down(&take, 1);
		float *out = f->all.out + i * f->v;
		for (int64_t j = 0; j < pad_panel(f->a->value_dim); j += VECTOR_FLOATS)
			vstore(out + j, vload(out + j) * keep);
		f->all.sum[i] = f->all.sum[i] * keep[0] + take[0];
		f->all.max[i] = max;
	}
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
 * does not depend on how rows and heads are divided into blocks, nor on which thread computes the parts. */
static void attention_forward(const struct attention_block *b, int64_t part, float *scratch)
{
	const struct attention *a = b->a;
	struct forward f = forward_block(b, scratch);
	for (int64_t h = 0; h < f.heads; h++)
		forward_query(&f, h);
	if (part != ATTENTION_FINISH) {
		f.part = forward_sums(&f, b->parts + part * attention_part_floats(a->value_dim, f.heads * f.rows));
		forward_sweep(&f, part, 1);
		return;
	}
	forward_add(&f, b->parts, 1);
	if (a->sink.data)
		forward_sinks(&f);
	/* A row that sees nothing, and has no sink, averages all values, so it needs every tile. */
	if (!a->zero_masked_rows && forward_blind(&f))
		forward_add(&f, NULL, 0);
	forward_finish(&f);
}

#endif

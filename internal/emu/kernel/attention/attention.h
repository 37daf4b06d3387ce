/* Flash attention of one batch item (or one packed sequence): what Go hands to the kernels. */
#ifndef ATTENTION_H
#define ATTENTION_H

#include <stdint.h>

/* A [head, row, column] view; strides count elements. page is the stride of the pages of a cache. */
struct plane {
	char *data;
	int64_t head, row, col, page;
};

enum attention_bias {
	BIAS_NONE,
	BIAS_AFTER_SCALE,  /* scale*QK + bias */
	BIAS_BEFORE_SCALE, /* scale*(QK + bias) */
	BIAS_DISTANCE,     /* scale*QK - slope*|distance| */
	BIAS_ROOT_DISTANCE,
};

struct attention {
	int64_t q_len, kv_len, heads, group; /* group: query heads per key head */
	int64_t head_dim, rope_dim, value_dim; /* head_dim counts the rope columns, kept in tensors of their own */
	int32_t dtype; /* of query, key, value, out and of the matrix bias */
	int32_t bias_kind;
	float scale;
	int32_t zero_masked_rows; /* rows that see nothing give 0, not the mean of the values */
	struct plane query, query_rope, key, key_rope, value, out;
	const int64_t *pages; /* of keys and values, in the order of their tokens, or NULL; forward only */
	int64_t page_rows;    /* tokens of a page */
	struct plane max, sum; /* fp32; col is the stride between the eight copies */
	struct plane sink;     /* [heads, 1, 1], fp32: a score of each softmax row whose value is zero; forward only */
	struct plane bias;     /* [heads, q_len, kv_len], or one fp32 slope per head */
	int64_t bias_cols;     /* columns of a bias row */
	int64_t bias_fold;     /* so many leading rows share ATTENTION_FOLD bias rows by diagonals */
	int64_t distance;      /* added to column - row for the distance bias */
	/* Row i sees the columns i+first … i+last and those below prefix, unless the mask hides them. */
	int64_t first, last, prefix;
	struct plane mask;   /* bytes; a nonzero byte hides the cell */
	const uint8_t *keep; /* dropout bits, 1 keeps, in the order [heads, q_len, kv_len] */
	int64_t keep_bit;    /* index of this item's first bit */
	float keep_scale;    /* 1 / probability of being kept */
};

/* Query rows [row, row+rows) of the heads [head, head+heads), which share a key head, forward. */
struct attention_block {
	const struct attention *a;
	int64_t head, heads, row, rows;
	float *parts; /* room for the sums of all parts of the keys, or NULL if one call computes them all */
};

/* The backward pass: struct attention holds the forward tensors, with out, max and sum. */
struct attention_grad {
	struct plane out, query, query_rope, key, key_rope, value; /* gradients */
	float *query_sum;                    /* fp32 sums of the query gradient, one per chunk; see attention_query_floats */
	int64_t chunks;                      /* parts of the key axis that have their own sum */
};

enum {
	ATTENTION_KEYS = 128,       /* columns of a score tile */
	ATTENTION_PART = 1024,      /* keys that are summed apart, so that threads can share a long cache */
	ATTENTION_FINISH = -1,      /* after all parts */
	ATTENTION_ROWS = 512,       /* query rows of a block, forward, at most */
	ATTENTION_TOGETHER = 24,    /* query rows of a block of several heads, at most */
	ATTENTION_STRIP_ROWS = 128, /* rows that are computed together, at most */
	ATTENTION_GRAD_ROWS = 48,   /* rows of a tile backward: fewer waste less along a diagonal edge */
	ATTENTION_PAIR_PANEL = 32 * 512, /* cells of a panel of transposed probabilities: 32 rows of the longest block of k */
	ATTENTION_ALIGN = 32,       /* floats; rows of tiles are padded to it */
	ATTENTION_STAT_COPIES = 8,  /* equal copies of each maximum and sum */
	ATTENTION_FOLD = 1024,      /* rows of a folded bias */
};

/* The row stride in floats of a tile with n columns: padded to an odd number of cache lines, so
 * that a column of a tile does not map to a single cache set. */
static inline int64_t attention_stride(int64_t n)
{
	return (n + ATTENTION_ALIGN - 1) / ATTENTION_ALIGN * ATTENTION_ALIGN + 16;
}

/* The number of parts of the keys. It depends on their number only, and so does the order of additions. */
static inline int64_t attention_parts(const struct attention *a)
{
	return a->kv_len > ATTENTION_PART ? (a->kv_len + ATTENTION_PART - 1) / ATTENTION_PART : 1;
}

/* The number of floats of the sums of one part of the keys: an output row, a maximum and a sum per row. */
static inline int64_t attention_part_floats(int64_t value_dim, int64_t rows)
{
	return rows * attention_stride(value_dim) + (2 * rows + ATTENTION_ALIGN - 1) / ATTENTION_ALIGN * ATTENTION_ALIGN;
}

/* The number of floats of scratch memory that one call of the forward or backward kernel needs. */
static inline int64_t attention_forward_floats(int64_t head_dim, int64_t value_dim)
{
	const int64_t d = attention_stride(head_dim), v = attention_stride(value_dim), s = attention_stride(ATTENTION_KEYS);
	const int64_t operands = ATTENTION_ROWS * d + ATTENTION_KEYS * (d + v) + ATTENTION_STRIP_ROWS * ATTENTION_KEYS;
	return 2 * attention_part_floats(value_dim, ATTENTION_ROWS) + operands + (ATTENTION_STRIP_ROWS + 1) * s +
	       ATTENTION_KEYS * (2 * d + v);
}

static inline int64_t attention_backward_floats(int64_t head_dim, int64_t value_dim)
{
	const int64_t d = attention_stride(head_dim), v = attention_stride(value_dim), s = attention_stride(ATTENTION_KEYS);
	const int64_t operands = 2 * (ATTENTION_KEYS + ATTENTION_GRAD_ROWS) * (d + v) + ATTENTION_GRAD_ROWS * ATTENTION_KEYS;
	return operands + (ATTENTION_KEYS + s) * (d + v) + 2 * ATTENTION_GRAD_ROWS * s + s + v + ATTENTION_PAIR_PANEL;
}

/* The number of floats in one chunk's sum of the query gradient. */
static inline int64_t attention_query_floats(const struct attention *a)
{
	return a->heads * a->q_len * attention_stride(a->head_dim);
}

/* The work on one part of the keys of a block, or ATTENTION_FINISH. */
struct attention_forward_task {
	const struct attention_block *block;
	int64_t part;
};

/* The work on one chunk of the keys of a head. */
struct attention_backward_task {
	const struct attention *a;
	const struct attention_grad *grad;
	int64_t kv_head, chunk;
};

#endif

/* One tile of the backward pass in cells of pairs of bfloat16; attention_backward.h includes it. */

/* The keys for the product that sums over them; they have half of the memory of the panels. */
static inline uint32_t *key_values(const struct backward *b)
{
	return (uint32_t *)b->key_panels + ATTENTION_KEYS / 2 * b->d;
}

/* Panels of the rows of query and of the output's gradient, for products that sum over rows. */
enum { PAIR_ROWS_PANEL = PANEL * ATTENTION_PAIR_ROWS };

static inline uint32_t *pair_query(const struct backward *b) { return b->pairs; }

static inline uint32_t *pair_dout(const struct backward *b) { return b->pairs + ATTENTION_PAIR_ROWS * b->d; }

/* c[cols×n] += the transpose of s, a tile of numbers of 16 bits with rows of 2·PAIR_ROW, times b. */
static void pair_transposed(struct backward *b, float *c, int64_t c_row, const uint32_t *s, const uint32_t *values,
			    const struct tile *t, int64_t n)
{
	uint32_t *panel = pair_dout(b) + ATTENTION_PAIR_ROWS * b->v + ATTENTION_GRAD_ROWS * ATTENTION_KEYS;
	const int64_t cells = pair_cells(t->rows);
	const int64_t room = ATTENTION_PAIR_PANEL / GEMM_KC / GEMM_MR * GEMM_MR; /* rows of a panel, in whole register blocks */
	for (int64_t j = 0; j < t->cols; j += room) {
		const int64_t w = t->cols - j < room ? t->cols - j : room;
		if (t->rows % (2 * PAIR_STEP) != 0)
			for (int64_t i = 0; i < w; i++)
				memset(panel + i * GEMM_KC, 0, cells * sizeof *panel);
		gemm_bf16_bf16_pack(panel, 1, w, t->rows, (const uint16_t *)s + j, 1, 2 * PAIR_ROW, GEMM_IN_ORDER);
		pair_product(c + j * c_row, c_row, panel, GEMM_KC, values, PAIR_ROWS_PANEL, w, n, cells, 1);
	}
}

/* Loads the rows of the tile: query, gradient of the output, and its product with the output. */
static void backward_load(struct backward *b, const struct tile *t)
{
	const struct attention *a = b->a;
	struct columns query = query_columns(a, &a->query, &a->query_rope);
	struct columns out = value_columns(a, &a->out), dout = value_columns(a, &b->g->out);
	uint32_t *q = (uint32_t *)b->query, *dy = (uint32_t *)b->dout;
	pair_rows(q, b->d, &query, t->head, t->row, t->rows);
	pair_rows(dy, b->v, &dout, t->head, t->row, t->rows);
	pair_values(pair_query(b), PAIR_ROWS_PANEL, (uint16_t *)q, 2 * b->d, 1, t->rows, a->head_dim);
	pair_values(pair_dout(b), PAIR_ROWS_PANEL, (uint16_t *)dy, 2 * b->v, 1, t->rows, a->value_dim);
	float *y = b->dprob; /* free until the products */
	for (int64_t i = 0; i < t->rows; i++) {
		vf32 sum = {0};
		tile_load(b->row, 0, &out, t->head, t->row + i, 1);
		tile_load(y, 0, &dout, t->head, t->row + i, 1);
		for (int64_t j = 0; j < pad_panel(a->value_dim); j += VECTOR_FLOATS)
			sum += vload(b->row + j) * vload(y + j);
		b->delta[i] = vsum_lanes(sum);
	}
}

static void backward_tile(struct backward *b, const struct tile *t)
{
	const struct attention *a = b->a;
	const int64_t d = pair_cells(a->head_dim), v = pair_cells(a->value_dim);
	backward_load(b, t);
	pair_product(b->prob, b->s, (uint32_t *)b->query, b->d, (uint32_t *)b->key_panels, PANEL * d, t->rows, t->cols, d, 0);
	pair_product(b->dprob, b->s, (uint32_t *)b->dout, b->v, (uint32_t *)b->value_panels, PANEL * v, t->rows, t->cols, v, 0);
	backward_rows(b, t);
	uint32_t *prob = pair_dout(b) + ATTENTION_PAIR_ROWS * b->v; /* one tile, of probabilities and then of gradients */
	for (int64_t i = 0; i < t->rows; i++)
		pair_store(prob + i * PAIR_ROW, b->prob + i * b->s, pad_panel(t->cols));
	pair_transposed(b, b->value_sum, b->v, prob, pair_dout(b), t, a->value_dim);
	for (int64_t i = 0; i < t->rows; i++)
		pair_store(prob + i * PAIR_ROW, b->dprob + i * b->s, pad_panel(t->cols));
	pair_transposed(b, b->key_sum, b->d, prob, pair_query(b), t, a->head_dim);
	pair_product(b->query_sum + (t->head * a->q_len + t->row) * b->d, b->d, prob, PAIR_ROW, key_values(b), PAIR_PANEL, t->rows,
		     a->head_dim, pair_cells(t->cols), 1);
}

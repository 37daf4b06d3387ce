/* The products of attention, backward, if their operands are of floats: rows, of which some are read as columns, and transposed
 * panels. backward.h includes it. */

/* Loads the keys and values of a tile. */
static void backward_keys(struct backward *b, int64_t kv_head, int64_t col, int64_t cols)
{
	const struct attention *a = b->a;
	tile_load(b->key_by_key, b->d, &b->keys, kv_head, col, cols);
	tile_transpose(b->key_by_dim, b->key_by_key, b->d, cols, a->head_dim);
	int64_t ld = b->v;
	const float *rows = tile_rows(b->rows, &ld, &b->values, kv_head, col, cols);
	tile_transpose(b->value, rows, ld, cols, a->value_dim);
	memset(b->key_sum, 0, cols * b->d * sizeof *b->key_sum);
	memset(b->value_sum, 0, cols * b->v * sizeof *b->value_sum);
}

/* Loads the rows of the tile: query and gradient of the output. */
static void backward_load(struct backward *b, const struct tile *t)
{
	tile_load(b->query_by_dim, b->d, &b->queries, t->head, t->row, t->rows);
	tile_load(b->dout_by_dim, b->v, &b->douts, t->head, t->row, t->rows);
}

/* Multiplies rows with keys, and gradients of the output with values. */
static void backward_scores(struct backward *b, const struct tile *t)
{
	const struct attention *a = b->a;
	product(&(struct product){
		.c = b->prob, .c_row = b->s,
		.a = b->query_by_dim, .a_row = b->d, .a_step = 1,
		.b = b->key_by_dim, .b_step = PANEL, .b_panel = PANEL * a->head_dim,
		.rows = t->rows, .cols = t->cols, .steps = a->head_dim,
	});
	product(&(struct product){
		.c = b->dprob, .c_row = b->s,
		.a = b->dout_by_dim, .a_row = b->v, .a_step = 1,
		.b = b->value, .b_step = PANEL, .b_panel = PANEL * a->value_dim,
		.rows = t->rows, .cols = t->cols, .steps = a->value_dim,
	});
}

/* Adds the tile's part of the gradients of values, keys and query. */
static void backward_sums(struct backward *b, const struct tile *t)
{
	const struct attention *a = b->a;
	product(&(struct product){
		.c = b->value_sum, .c_row = b->v,
		.a = b->prob, .a_row = 1, .a_step = b->s,
		.b = b->dout_by_dim, .b_step = b->v, .b_panel = PANEL,
		.rows = t->cols, .cols = a->value_dim, .steps = t->rows, .accumulate = 1,
	});
	product(&(struct product){
		.c = b->key_sum, .c_row = b->d,
		.a = b->dprob, .a_row = 1, .a_step = b->s,
		.b = b->query_by_dim, .b_step = b->d, .b_panel = PANEL,
		.rows = t->cols, .cols = a->head_dim, .steps = t->rows, .accumulate = 1,
	});
	product(&(struct product){
		.c = b->query_sum + (t->head * a->q_len + t->row) * b->d, .c_row = b->d,
		.a = b->dprob, .a_row = b->s, .a_step = 1,
		.b = b->key_by_key, .b_step = b->d, .b_panel = PANEL,
		.rows = t->rows, .cols = a->head_dim, .steps = t->cols, .accumulate = 1,
	});
}

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

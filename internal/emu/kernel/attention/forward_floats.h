/* The operands of the products of attention, forward, if these are of floats: rows of the query, transposed panels of the keys, and
 * rows of the values. forward.h includes it. */

enum { QUERY_ALIGN = 1, PROBABILITIES_ROUND = 0 };

/* Loads the query rows of one head of the block. */
static void forward_query(struct forward *f, int64_t head)
{
	struct columns query = query_columns(f->a, &f->a->query, &f->a->query_rope);
	tile_load(f->query + head * f->rows * f->d, f->d, &query, f->head + head, f->row, f->rows);
}

/* Loads the keys and values of a tile. */
static void forward_load(struct forward *f, const struct tile *t)
{
	enum { NEAR = 128 };
	int64_t ld = f->d;
	const float *rows = tile_rows(f->rows_of_key, &ld, &f->keys, f->kv_head, t->col, t->cols);
	tile_transpose(f->key, rows, ld, t->cols, f->a->head_dim);
	f->value = f->rows_of_value, f->value_row = f->v;
	/* A copy pays off only if rows lie far apart, so that they share sets of the cache, and are read often. */
	if (f->a->value.row <= NEAR || f->heads * f->rows <= PRODUCT_ROWS)
		f->value = (float *)tile_rows(f->value, &f->value_row, &f->values, f->kv_head, t->col, t->cols);
	else
		tile_load(f->value, f->v, &f->values, f->kv_head, t->col, t->cols);
}

/* Multiplies rows of the block from i on with the keys. */
static void forward_scores(struct forward *f, int64_t i, int64_t rows, int64_t cols)
{
	product(&(struct product){
		.c = f->score, .c_row = f->s,
		.a = f->query + i * f->d, .a_row = f->d, .a_step = 1,
		.b = f->key, .b_step = PANEL, .b_panel = PANEL * f->a->head_dim,
		.rows = rows, .cols = cols, .steps = f->a->head_dim,
	});
}

/* Row i of a strip of probabilities. */
static inline float *probability_row(const struct forward *f, int64_t i) { return f->score + i * f->s; }

/* Stores two vectors of a row of probabilities from column j on. */
INLINE void probability_put(float *row, int64_t j, vf32 low, vf32 high)
{
	vstore(row + j, low);
	vstore(row + j + VECTOR_FLOATS, high);
}

/* Adds the products of a strip of probabilities and the values to rows of the block from i on. */
static void forward_values(struct forward *f, int64_t i, int64_t rows, int64_t cols)
{
	product(&(struct product){
		.c = f->part.out + i * f->v, .c_row = f->v,
		.a = f->score, .a_row = f->s, .a_step = 1,
		.b = f->value, .b_step = f->value_row, .b_panel = PANEL,
		.rows = rows, .cols = f->a->value_dim, .steps = cols, .accumulate = 1,
	});
}

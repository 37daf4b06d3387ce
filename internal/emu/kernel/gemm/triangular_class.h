/* Included once per element type by triangular_body.h. Four vectors of a row stay in registers
 * while the rows above are subtracted, so that each product costs one load. */

typedef T JOIN(triangular_vector, S) __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(T)), may_alias));

static void JOIN(triangular_wide, S)(const struct triangular *t, T *x)
{
	typedef JOIN(triangular_vector, S) V;
	enum { WIDTH = VECTOR_BYTES / sizeof(T) };
	for (int64_t i = 0; i < t->rows; i++) {
		const T *l = (const T *)t->l + i * t->l_row;
		T *row = x + i * t->x_row;
		V a = *(V *)row, b = *(V *)(row + WIDTH), c = *(V *)(row + 2 * WIDTH), d = *(V *)(row + 3 * WIDTH);
		for (int64_t j = 0; j < i; j++) {
			const V f = -l[j * t->l_col] - (V){0};
			const T *above = x + j * t->x_row;
			a = VECTOR_FMA(f, *(const V *)above, a);
			b = VECTOR_FMA(f, *(const V *)(above + WIDTH), b);
			c = VECTOR_FMA(f, *(const V *)(above + 2 * WIDTH), c);
			d = VECTOR_FMA(f, *(const V *)(above + 3 * WIDTH), d);
		}
		if (!t->unit) {
			const T f = l[i * t->l_col];
			a /= f, b /= f, c /= f, d /= f;
		}
		*(V *)row = a, *(V *)(row + WIDTH) = b, *(V *)(row + 2 * WIDTH) = c, *(V *)(row + 3 * WIDTH) = d;
	}
}

static void JOIN(triangular, S)(const struct triangular *t, int64_t lo, int64_t hi)
{
	enum { TILE = 4 * VECTOR_BYTES / sizeof(T) };
	T *x = (T *)t->x;
	for (; hi - lo >= TILE; lo += TILE)
		JOIN(triangular_wide, S)(t, x + lo);
	for (; lo < hi; lo++) {
		for (int64_t i = 0; i < t->rows; i++) {
			const T *l = (const T *)t->l + i * t->l_row;
			T sum = x[i * t->x_row + lo];
			for (int64_t j = 0; j < i; j++)
				sum = FMA(-l[j * t->l_col], x[j * t->x_row + lo], sum);
			x[i * t->x_row + lo] = t->unit ? sum : sum / l[i * t->l_col];
		}
	}
}

#undef T
#undef S
#undef FMA
#undef VECTOR_FMA

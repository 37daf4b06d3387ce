/* See fourier.h. A row of n numbers is transformed as n/2 complex ones. */
#ifndef FOURIER_BODY_H
#define FOURIER_BODY_H

#include <string.h>

#include "fourier.h"
#include "vector.h"

typedef vd64 fourier_v;

/* Elements of as many rows as a vector has elements. */
struct fourier_part {
	fourier_v re, im;
};

static inline struct fourier_part fourier_times(struct fourier_part x, const double *root)
{
	const fourier_v re = root[0] - (fourier_v){0}, im = root[1] - (fourier_v){0};
	return (struct fourier_part){vfma_double(x.re, re, -(x.im * im)), vfma_double(x.re, im, x.im * re)};
}

static inline struct fourier_part fourier_add(struct fourier_part x, struct fourier_part y)
{
	return (struct fourier_part){x.re + y.re, x.im + y.im};
}

static inline struct fourier_part fourier_sub(struct fourier_part x, struct fourier_part y)
{
	return (struct fourier_part){x.re - y.re, x.im - y.im};
}

/* Transforms m elements, which come in the order of reversed bits. */
static void fourier_passes(struct fourier_part *x, int64_t m, const double *roots)
{
	int64_t half = __builtin_ctzll((uint64_t)m) % 2 ? 2 : 1;
	for (int64_t i = 0; half == 2 && i < m; i += 2) {
		const struct fourier_part low = x[i];
		x[i] = fourier_add(low, x[i + 1]), x[i + 1] = fourier_sub(low, x[i + 1]);
	}
	for (; half < m; half *= 4) { /* two steps of doubling at once */
		const int64_t step = m / (4 * half);
		for (int64_t first = 0; first < m; first += 4 * half)
			for (int64_t k = 0; k < half; k++) {
				struct fourier_part *a = x + first + k, *b = a + half, *c = b + half, *d = c + half;
				const double *one = roots + 4 * k * step, *two = roots + 2 * k * step;
				const struct fourier_part p = fourier_times(*b, one), q = fourier_times(*d, one);
				const struct fourier_part even = fourier_add(*a, p), odd = fourier_sub(*a, p);
				const struct fourier_part sum = fourier_times(fourier_add(*c, q), two);
				const struct fourier_part left = fourier_times(fourier_sub(*c, q), two), rotated = {left.im, -left.re};
				*a = fourier_add(even, sum), *b = fourier_add(odd, rotated);
				*c = fourier_sub(even, sum), *d = fourier_sub(odd, rotated);
			}
	}
}

static void fourier_(const struct fourier *f, const double *roots, const double *angles, int64_t lo, int64_t hi, double *work)
{
	enum { WIDTH = VECTOR_BYTES / 8 };
	struct fourier_part *x = (struct fourier_part *)(((uintptr_t)work + 63) / 64 * 64);
	const int64_t m = f->n / 2, given = f->length < f->n ? f->length : f->n;
	for (; lo < hi; lo += WIDTH) {
		const int64_t rows = hi - lo < WIDTH ? hi - lo : WIDTH;
		int64_t at = 0;
		for (int64_t i = 0; i < m; i++) {
			double part[2][WIDTH];
			for (int l = 0; l < WIDTH; l++)
				for (int p = 0; p < 2; p++)
					part[p][l] = l < rows && 2 * i + p < given ? f->in[(lo + l) * f->length + 2 * i + p] * (f->scale / 2) : 0;
			memcpy(x + at, part, sizeof part);
			int64_t bit = m / 2; /* a carry runs down from the highest bit */
			for (; at & bit; bit /= 2)
				at ^= bit;
			at |= bit;
		}
		fourier_passes(x, m, roots);
		for (int64_t k = 0; k <= m; k++) {
			const struct fourier_part a = x[k & (m - 1)], other = x[(m - k) & (m - 1)], b = {other.re, -other.im};
			const struct fourier_part y = fourier_add(fourier_add(a, b), fourier_times(fourier_sub(a, b), angles + 2 * k));
			for (int64_t l = 0; l < rows; l++) {
				float *out = f->out + 2 * ((lo + l) * (m + 1) + k);
				out[0] = (float)y.re[l], out[1] = (float)y.im[l];
			}
		}
	}
}

#endif

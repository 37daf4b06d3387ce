/* Fourier transforms of rows of real numbers, in double, as many rows at once as a vector has elements. */
#ifndef FOURIER_H
#define FOURIER_H

#include "table.h"

/* Rows of n numbers, a power of two of at least 2, whose first length are given and scaled; the others are zeros. A row
 * of out has the n/2+1 non-negative frequencies, each a real and an imaginary part. */
struct fourier {
	const float *in;
	float *out;
	int64_t n, length;
	double scale;
};

enum { FOURIER_ROOM = 8 }; /* numbers of work for each of n, and for aligning it */

/* Transforms the rows [lo, hi). roots has exp(-4πi·k/n) for k < n/4, and angles exp(-2πi·k/n)/i for k ≤ n/2, in parts. */
static inline void fourier_rows(const struct fourier *f, const double *roots, const double *angles, int64_t lo, int64_t hi, double *work)
{
	fourier_kernels->transform(f, roots, angles, lo, hi, work);
}

#endif

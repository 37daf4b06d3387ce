/* The Fourier transform, compiled for each CPU variant. */
#ifndef TABLE_H
#define TABLE_H

#include <stdint.h>

struct fourier; /* fourier.h */

struct fourier_kernels {
	void (*transform)(const struct fourier *f, const double *roots, const double *angles, int64_t lo, int64_t hi, double *work);
};

extern const struct fourier_kernels fourier_portable;
#if defined(__x86_64__)
extern const struct fourier_kernels fourier_avx2;
#endif

/* The kernels of the variant in use. */
extern const struct fourier_kernels *fourier_kernels;

/* Chooses the kernels of a variant, or of the best one before it that has some. */
void fourier_use(int variant);

#endif

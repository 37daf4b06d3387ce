/* Moves matrices between strided memory and FRACTAL_NZ storage. */
#ifndef NZ_H
#define NZ_H

#include <stdint.h>

/* A matrix of rows×cols elements of size bytes, and its storage in tiles of 16×c0, one column of
 * tiles after another. Element (r, c) is origin + r·row_stride + c·col_stride elements from nd.
 * If run is not 0, that index is divided into runs whose starts are jump elements apart (columns
 * sliced out of the rows of a buffer), and col_stride is 1. */
struct nz {
	char *nd, *tiles;
	int64_t size, rows, cols, c0;
	int64_t origin, row_stride, col_stride;
	int64_t run, jump;
	int32_t stream; /* the storage is larger than the caches: writes bypass them */
};

/* Fills, or reads, the rows of tiles [lo, hi) of the storage. Filling writes zeros to the
 * padding. */
void nz_fill(const struct nz *x, int64_t lo, int64_t hi);
void nz_read(const struct nz *x, int64_t lo, int64_t hi);

#endif

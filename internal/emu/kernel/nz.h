/* Moving matrices between strided memory and FRACTAL_NZ storage. */
#ifndef NZ_H
#define NZ_H

#include <stdint.h>

/* A matrix of rows×cols elements of size bytes, and its storage in tiles of 16×c0, a column
 * of tiles after another. Element (r, c) lies origin + r·row_stride + c·col_stride elements
 * from nd; when run is not 0, that index is cut into runs whose starts lie jump elements
 * apart (columns sliced out of the rows of a buffer), and col_stride is 1. */
struct nz {
	char *nd, *tiles;
	int64_t size, rows, cols, c0;
	int64_t origin, row_stride, col_stride;
	int64_t run, jump;
	int32_t stream; /* the storage is larger than caches: write past them */
};

/* Fills, or reads, rows of tiles [lo, hi) of the storage. Filling writes zeros to places
 * outside the matrix. */
void nz_fill(const struct nz *x, int64_t lo, int64_t hi);
void nz_read(const struct nz *x, int64_t lo, int64_t hi);

#endif

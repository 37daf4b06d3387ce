/* Matrix products: the types shared by Go and the kernels. */
#ifndef GEMM_H
#define GEMM_H

#include <stddef.h>
#include <stdint.h>

/* Index i along an axis is (i / tile)·jump + (i % tile)·stride elements from its start. A plain
 * axis is a single tile; FRACTAL_NZ storage has tiles of C0. */
struct gemm_axis {
	int64_t stride, tile, jump;
};

enum { GEMM_MAX_BATCH = 6 };

/* An operand: a batch of matrices, whose batch strides count bytes. dtype is an aclDataType. */
struct gemm_matrix {
	char *data;
	int32_t dtype;
	struct gemm_axis row, col;
	int64_t batch_stride[GEMM_MAX_BATCH];
};

enum { GEMM_F32, GEMM_F64, GEMM_I32, GEMM_I64, GEMM_TYPES };

/* c = alpha·a·b + beta·d for every index of the batch. The addend is left out if d.data is NULL. */
struct gemm {
	int64_t m, n, k;
	int64_t tile_m, tile_n; /* size of the tiles that threads share, at most GEMM_TILE_… */
	int32_t type;           /* computation type, GEMM_F32 … */
	int32_t batch_rank;
	int64_t batch[GEMM_MAX_BATCH];
	double alpha, beta;
	struct gemm_matrix a, b, c, d;
	/* If group is not 0, b has int8 or int4 elements, and the value of one in row k and column n is
	 * (element + offset)·scale with the scale and offset in row k / group and column n of their
	 * matrices. Without offset.data offsets are 0. */
	struct gemm_matrix scale, offset;
	int64_t group;
};

enum {
	GEMM_TILE_M = 2016, /* largest tile: a multiple of every register block */
	GEMM_TILE_N = 512,
	GEMM_GRAIN_M = 64, /* tile sizes are multiples of these, and of the register block */
	GEMM_GRAIN_N = 64,
};

#endif

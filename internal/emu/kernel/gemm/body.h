/* The matrix products of one CPU variant, in the style of GotoBLAS, for four computation types, and triangular systems. A
 * variant_*.c file sets the target, KERNELS and VECTOR_BYTES and includes this file. With OTHERS, the table of another
 * variant, it has no products of integers of 64 bits, which vectors hardly speed up, and with FLOATS_ONLY products of float32 alone. */
#include "optimize.h"

#include <string.h>

#include "table.h"
#ifndef FLOATS_ONLY
#include "triangular_body.h"
#endif

#if defined(__AVX2__)
#pragma GCC push_options
#pragma GCC optimize("no-tree-pre", "no-unswitch-loops")
#endif
#include "f32.h"

#include "quant.h"

#ifndef FLOATS_ONLY
/* float64 */
#define T double
#define V vd64
#define NAME(x) gemm_f64_##x
#define MULADD(sum, a, b) vfma_double(a, b, sum)
#include "micro.h"

#define S double
#define SRC(x) NAME(f64_##x)
#include "pack.h"

#define NATIVE DTYPE_FLOAT64
#define NATIVE_OUT NATIVE
#define ELEMENT double
#define TARGETS(X) SOURCES(X)
#define SCALAR double
#define SOURCES(X) X(DTYPE_FLOAT64, double, f64)
#include "tile.h"

/* Integers of up to 32 bits. Sums wrap, so that unsigned arithmetic gives the bits of
 * signed and unsigned results alike. */
#define T uint32_t
#define V vu32
#define NAME(x) gemm_i32_##x
#include "micro.h"

#define S int8_t
#define SRC(x) NAME(i8_##x)
#include "pack.h"
#define S uint8_t
#define SRC(x) NAME(u8_##x)
#include "pack.h"
#define S int16_t
#define SRC(x) NAME(i16_##x)
#include "pack.h"
#define S int32_t
#define SRC(x) NAME(i32_##x)
#include "pack.h"

#define NATIVE DTYPE_INT32
#define NATIVE_OUT NATIVE
#define ELEMENT int32_t
#define TARGETS(X) SOURCES(X)
#define SCALAR int64_t
#define SOURCES(X)                                                                                                     \
	X(DTYPE_INT8, int8_t, i8) X(DTYPE_UINT8, uint8_t, u8) X(DTYPE_INT16, int16_t, i16) X(DTYPE_INT32, int32_t, i32)
#include "tile.h"

/* Integers of up to 64 bits, which AVX2 and AVX-512 hardly multiply faster. */
#ifndef OTHERS
typedef uint64_t gemm_vu64 __attribute__((vector_size(VECTOR_BYTES)));
#define T uint64_t
#define V gemm_vu64
#define NAME(x) gemm_i64_##x
#include "micro.h"

#define S int8_t
#define SRC(x) NAME(i8_##x)
#include "pack.h"
#define S uint8_t
#define SRC(x) NAME(u8_##x)
#include "pack.h"
#define S int16_t
#define SRC(x) NAME(i16_##x)
#include "pack.h"
#define S int32_t
#define SRC(x) NAME(i32_##x)
#include "pack.h"
#define S int64_t
#define SRC(x) NAME(i64_##x)
#include "pack.h"

#define NATIVE DTYPE_INT64
#define NATIVE_OUT NATIVE
#define ELEMENT int64_t
#define TARGETS(X) SOURCES(X)
#define SCALAR int64_t
#define SOURCES(X)                                                                                                     \
	X(DTYPE_INT8, int8_t, i8)                                                                                      \
	X(DTYPE_UINT8, uint8_t, u8)                                                                                    \
	X(DTYPE_INT16, int16_t, i16) X(DTYPE_INT32, int32_t, i32) X(DTYPE_INT64, int64_t, i64)
#include "tile.h"
#endif
#endif

static void gemm(const struct gemm *g, int64_t lo, int64_t hi, char *scratch)
{
	static gemm_tile *const tiles[] = {[GEMM_F32] = gemm_f32_tile,
#ifndef FLOATS_ONLY
		[GEMM_F64] = gemm_f64_tile, [GEMM_I32] = gemm_i32_tile,
#endif
#ifndef OTHERS
		[GEMM_I64] = gemm_i64_tile,
#endif
		[GEMM_TYPES] = NULL};
	gemm_tile *const tile = g->group > 0 ? gemm_quant_tile : tiles[g->type];
#ifdef OTHERS
	if (tile == NULL) {
		OTHERS.gemm(g, lo, hi, scratch);
		return;
	}
#endif
	gemm_tiles(g, lo, hi, scratch, tile);
}

#ifdef FLOATS_ONLY
static void triangular_solve_others(const struct triangular *t, int64_t lo, int64_t hi) { OTHERS.triangular_solve(t, lo, hi); }
#endif

#if defined(__AVX2__)
#pragma GCC pop_options
#endif

const struct gemm_kernels KERNELS = {
	.rows = GEMM_MR,
	.gemm = gemm,
#ifdef FLOATS_ONLY
	.triangular_solve = triangular_solve_others,
#else
	.triangular_solve = triangular_solve_,
#endif
};

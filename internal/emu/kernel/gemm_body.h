/* Matrix products in the style of GotoBLAS, for four computation types. */
#include <string.h>

#include "convert.h"
#include "dtype.h"
#include "gemm.h"

/* Rows of the register block, which uses two vectors per row, two for b and one for a. */
#if VECTOR_BYTES == 64
#define GEMM_MR 14
#elif defined(__aarch64__)
#define GEMM_MR 12
#else
#define GEMM_MR 6
#endif

enum { GEMM_MC = 168, GEMM_KC = 256 };

static inline int64_t gemm_min(int64_t a, int64_t b) { return a < b ? a : b; }

static inline int gemm_plain(const struct gemm_axis *x) { return x->tile == INT64_MAX; }

static inline int64_t gemm_offset(const struct gemm_axis *x, int64_t i)
{
	return gemm_plain(x) ? i * x->stride : i / x->tile * x->jump + i % x->tile * x->stride;
}

/* Returns how many of the n elements from i on are in the same tile of the axis. */
static inline int64_t gemm_run_length(const struct gemm_axis *x, int64_t i, int64_t n)
{
	return gemm_plain(x) ? n : gemm_min(n, x->tile - i % x->tile);
}

/* The matrices of one index of the batch. */
struct gemm_at {
	const char *a, *b, *d;
	char *c;
};

/* float32, from and to the 16-bit types */
#define T float
#define V vf32
#define NAME(x) gemm_f32_##x
#include "gemm_micro.h"

#define S float
#define SRC(x) NAME(f32_##x)
#include "gemm_pack.h"

#define S uint16_t
#define SRC(x) NAME(bf16_##x)
#define LOAD1(p) f32_of_bf16(*(p))
#define LOAD4(p) load4_bf16(p)
#define STORE1(p, x) (*(p) = bf16_of_f32(x))
#define STOREV(p, v) vstore_bf16(p, v)
#include "gemm_pack.h"

#define S uint16_t
#define SRC(x) NAME(f16_##x)
#define LOAD1(p) f32_of_f16(*(p))
#define LOAD4(p) load4_f16(p)
#define STORE1(p, x) (*(p) = f16_of_f32(x))
#define STOREV(p, v) vstore_f16(p, v)
#include "gemm_pack.h"

#define NATIVE DTYPE_FLOAT32
#define SCALAR float
#define SOURCES(X) X(DTYPE_FLOAT32, float, f32) X(DTYPE_FLOAT16, uint16_t, f16) X(DTYPE_BFLOAT16, uint16_t, bf16)
#include "gemm_tile.h"

/* float64 */
typedef double gemm_vf64 __attribute__((vector_size(VECTOR_BYTES)));
#define T double
#define V gemm_vf64
#define NAME(x) gemm_f64_##x
#include "gemm_micro.h"

#define S double
#define SRC(x) NAME(f64_##x)
#include "gemm_pack.h"

#define NATIVE DTYPE_FLOAT64
#define SCALAR double
#define SOURCES(X) X(DTYPE_FLOAT64, double, f64)
#include "gemm_tile.h"

/* Integers of up to 32 bits. Sums wrap, so that unsigned arithmetic gives the bits of
 * signed and unsigned results alike. */
#define T uint32_t
#define V vu32
#define NAME(x) gemm_i32_##x
#include "gemm_micro.h"

#define S int8_t
#define SRC(x) NAME(i8_##x)
#include "gemm_pack.h"
#define S uint8_t
#define SRC(x) NAME(u8_##x)
#include "gemm_pack.h"
#define S int16_t
#define SRC(x) NAME(i16_##x)
#include "gemm_pack.h"
#define S int32_t
#define SRC(x) NAME(i32_##x)
#include "gemm_pack.h"

#define NATIVE DTYPE_INT32
#define SCALAR int64_t
#define SOURCES(X)                                                                                                     \
	X(DTYPE_INT8, int8_t, i8) X(DTYPE_UINT8, uint8_t, u8) X(DTYPE_INT16, int16_t, i16) X(DTYPE_INT32, int32_t, i32)
#include "gemm_tile.h"

/* Integers of up to 64 bits. */
typedef uint64_t gemm_vu64 __attribute__((vector_size(VECTOR_BYTES)));
#define T uint64_t
#define V gemm_vu64
#define NAME(x) gemm_i64_##x
#include "gemm_micro.h"

#define S int8_t
#define SRC(x) NAME(i8_##x)
#include "gemm_pack.h"
#define S uint8_t
#define SRC(x) NAME(u8_##x)
#include "gemm_pack.h"
#define S int16_t
#define SRC(x) NAME(i16_##x)
#include "gemm_pack.h"
#define S int32_t
#define SRC(x) NAME(i32_##x)
#include "gemm_pack.h"
#define S int64_t
#define SRC(x) NAME(i64_##x)
#include "gemm_pack.h"

#define NATIVE DTYPE_INT64
#define SCALAR int64_t
#define SOURCES(X)                                                                                                     \
	X(DTYPE_INT8, int8_t, i8)                                                                                      \
	X(DTYPE_UINT8, uint8_t, u8)                                                                                    \
	X(DTYPE_INT16, int16_t, i16) X(DTYPE_INT32, int32_t, i32) X(DTYPE_INT64, int64_t, i64)
#include "gemm_tile.h"

/* Computes tiles [lo, hi) of the product, counted batch by batch, row of tiles by row of tiles. */
static void gemm(const struct gemm *g, int64_t lo, int64_t hi, char *scratch)
{
	const int64_t across = (g->n + g->tile_n - 1) / g->tile_n, down = (g->m + g->tile_m - 1) / g->tile_m;
	for (int64_t t = lo; t < hi; t++) {
		struct gemm_at at = {g->a.data, g->b.data, g->d.data, g->c.data};
		int64_t index = t / (across * down);
		for (int x = g->batch_rank - 1; x >= 0; x--) {
			const int64_t i = index % g->batch[x];
			index /= g->batch[x];
			at.a += i * g->a.batch_stride[x];
			at.b += i * g->b.batch_stride[x];
			at.c += i * g->c.batch_stride[x];
			if (at.d != NULL)
				at.d += i * g->d.batch_stride[x];
		}
		const int64_t m0 = t / across % down * g->tile_m, m1 = gemm_min(m0 + g->tile_m, g->m);
		const int64_t n0 = t % across * g->tile_n, n1 = gemm_min(n0 + g->tile_n, g->n);
		switch (g->type) {
		case GEMM_F32: gemm_f32_tile(g, &at, m0, m1, n0, n1, scratch); break;
		case GEMM_F64: gemm_f64_tile(g, &at, m0, m1, n0, n1, scratch); break;
		case GEMM_I32: gemm_i32_tile(g, &at, m0, m1, n0, n1, scratch); break;
		case GEMM_I64: gemm_i64_tile(g, &at, m0, m1, n0, n1, scratch); break;
		}
	}
}

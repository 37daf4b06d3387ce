/* Matrix products in float32, of elements of float32 and the 16-bit types. */
#include <string.h>

#include "convert.h"
#include "dtype.h"
#include "grid.h"

#define T float
#define V vf32
#define NAME(x) gemm_f32_##x
#define MULADD(sum, a, b) vfma(a, b, sum)
#include "micro.h"

#define S float
#define SRC(x) NAME(f32_##x)
#if VECTOR_BYTES >= 32
#define LINE gemm_line_f32
#endif
#include "pack.h"

#define S uint16_t
#define SRC(x) NAME(bf16_##x)
#define LOAD1(p) f32_of_bf16(*(p))
#define LOAD4(p) load4_bf16(p)
#define STORE1(p, x) (*(p) = bf16_of_f32(x))
#define STOREV(p, v) vstore_bf16(p, v)
#if VECTOR_BYTES >= 32
#define LINE gemm_line_bf16
#endif
#include "pack.h"

#define S uint16_t
#define SRC(x) NAME(f16_##x)
#define LOAD1(p) f32_of_f16(*(p))
#define LOAD4(p) load4_f16(p)
#define STORE1(p, x) (*(p) = f16_of_f32(x))
#define STOREV(p, v) vstore_f16(p, v)
#if VECTOR_BYTES >= 32
#define LINE gemm_line_f16
#endif
#include "pack.h"

#define NATIVE DTYPE_FLOAT32
#define NATIVE_OUT NATIVE
#define ELEMENT float
#define TARGETS(X) SOURCES(X)
#define SCALAR float
#define SOURCES(X) X(DTYPE_FLOAT32, float, f32) X(DTYPE_FLOAT16, uint16_t, f16) X(DTYPE_BFLOAT16, uint16_t, bf16)
#include "tile.h"

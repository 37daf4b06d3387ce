/* Matrix products of bfloat16 in cells of pairs, which a unit of the CPU multiplies and sums in
 * fp32. The including file defines the micro-kernel; the results are float32 or 16-bit. */
#define S float
#define SRC(x) NAME(f32_##x)
#define STORE_ONLY
#include "pack.h"

#define S uint16_t
#define SRC(x) NAME(bf16_##x)
#define LOAD1(p) f32_of_bf16(*(p))
#define LOAD4(p) load4_bf16(p)
#define STORE1(p, x) (*(p) = bf16_of_f32(x))
#define STOREV(p, v) vstore_bf16(p, v)
#define LINE gemm_line_pairs
#define CROSS gemm_cross_u16
#include "pack.h"

#define S uint16_t
#define SRC(x) NAME(f16_##x)
#define LOAD1(p) f32_of_f16(*(p))
#define LOAD4(p) load4_f16(p)
#define STORE1(p, x) (*(p) = f16_of_f32(x))
#define STOREV(p, v) vstore_f16(p, v)
#define STORE_ONLY
#include "pack.h"

#define NATIVE DTYPE_BFLOAT16
#define ELEMENT uint16_t
#define NATIVE_OUT DTYPE_FLOAT32
#define SCALAR float
#define SOURCES(X) X(DTYPE_BFLOAT16, uint16_t, bf16)
#define TARGETS(X) X(DTYPE_FLOAT32, float, f32) X(DTYPE_FLOAT16, uint16_t, f16) X(DTYPE_BFLOAT16, uint16_t, bf16)
#include "tile.h"

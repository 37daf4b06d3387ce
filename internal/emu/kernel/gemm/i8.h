/* Matrix products of signed 8-bit integers in cells of four, which an instruction multiplies and sums. The including file defines the micro-kernel. Sums wrap: unsigned arithmetic gives the bits of all results. */
#define S int8_t
#define SRC(x) NAME(i8_##x)
#define LINE gemm_line_quads
#define CROSS gemm_cross_u8
#include "pack.h"
#define S uint8_t
#define SRC(x) NAME(u8_##x)
#define STORE_ONLY
#include "pack.h"
#define S int16_t
#define SRC(x) NAME(i16_##x)
#define STORE_ONLY
#include "pack.h"
#define S int32_t
#define SRC(x) NAME(i32_##x)
#define STORE_ONLY
#include "pack.h"

#define NATIVE DTYPE_INT8
#define ELEMENT int8_t
#define NATIVE_OUT DTYPE_INT32
#define SCALAR int64_t
#define SOURCES(X) X(DTYPE_INT8, int8_t, i8)
#define TARGETS(X) SOURCES(X) X(DTYPE_UINT8, uint8_t, u8) X(DTYPE_INT16, int16_t, i16) X(DTYPE_INT32, int32_t, i32)
#include "tile.h"

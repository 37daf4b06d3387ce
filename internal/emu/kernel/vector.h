/* GCC vector types of the variant's width. Arithmetic on them uses C operators, and the compiler
 * chooses instructions for the target that the including file sets. */
#ifndef VECTOR_H
#define VECTOR_H

#include <stdint.h>

#define VECTOR_FLOATS (VECTOR_BYTES / 4)

/* gcc inlines a function into one with other options only if it has the attribute. */
#define INLINE static inline __attribute__((always_inline))
#define NOT_INLINE __attribute__((noinline, unused)) /* no package uses all of what the headers share */

typedef float vf32 __attribute__((vector_size(VECTOR_BYTES)));
typedef int32_t vi32 __attribute__((vector_size(VECTOR_BYTES)));
typedef uint32_t vu32 __attribute__((vector_size(VECTOR_BYTES)));
typedef float vf32u __attribute__((vector_size(VECTOR_BYTES), aligned(4), may_alias));

INLINE vf32 vload(const float *p) { return *(const vf32u *)p; }
INLINE void vstore(float *p, vf32 v) { *(vf32u *)p = v; }
INLINE vf32 vset(float x) { return x - (vf32){0}; }

#endif

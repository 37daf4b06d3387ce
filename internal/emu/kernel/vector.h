/* GCC vector types of the variant's width. Arithmetic on them uses C operators, and the compiler
 * chooses instructions for the target that the including file sets. */
#ifndef VECTOR_H
#define VECTOR_H

#define VECTOR_FLOATS (VECTOR_BYTES / 4)

typedef float vf32 __attribute__((vector_size(VECTOR_BYTES)));
typedef int32_t vi32 __attribute__((vector_size(VECTOR_BYTES)));
typedef uint32_t vu32 __attribute__((vector_size(VECTOR_BYTES)));
typedef float vf32u __attribute__((vector_size(VECTOR_BYTES), aligned(4), may_alias));

static inline vf32 vload(const float *p) { return *(const vf32u *)p; }
static inline void vstore(float *p, vf32 v) { *(vf32u *)p = v; }
static inline vf32 vset(float x) { return x - (vf32){0}; }

#if defined(__aarch64__)
/* x in the first lane; the others are not set, which takes no instruction. */
static inline vu32 vfirst(uint32_t x)
{
	vu32 v;
	__asm__("" : "=w"(v) : "0"(x));
	return v;
}
#endif

#endif

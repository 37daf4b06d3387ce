/* GCC vector types of the variant's width. Arithmetic on them uses C operators, and the compiler
 * chooses instructions for the target that the including file sets. */
#ifndef VECTOR_H
#define VECTOR_H

#include <math.h>
#include <stdint.h>

#if defined(__aarch64__)
#include <arm_neon.h>
#elif defined(__x86_64__)
#include <immintrin.h>
#endif

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

/* a·b + c, rounded once, in every variant. */
#if VECTOR_BYTES == 64
INLINE vf32 vfma(vf32 a, vf32 b, vf32 c) { return (vf32)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c); }
#elif VECTOR_BYTES == 32
INLINE vf32 vfma(vf32 a, vf32 b, vf32 c) { return (vf32)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c); }
#elif defined(__aarch64__)
INLINE vf32 vfma(vf32 a, vf32 b, vf32 c) { return (vf32)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b); }
#else
static NOT_INLINE vf32 vfma_each(vf32 a, vf32 b, vf32 c)
{
	return (vf32){fmaf(a[0], b[0], c[0]), fmaf(a[1], b[1], c[1]), fmaf(a[2], b[2], c[2]), fmaf(a[3], b[3], c[3])};
}
#if defined(__x86_64__)
/* In double the product is exact, and the sum is rounded. Rounding it to float then gives another result than rounding once only
 * where the sum became a number halfway between two floats, or is smaller than a normal float. */
INLINE vf32 vfma(vf32 a, vf32 b, vf32 c)
{
	const __m128 x = (__m128)a, y = (__m128)b, z = (__m128)c;
	const __m128d low = _mm_add_pd(_mm_mul_pd(_mm_cvtps_pd(x), _mm_cvtps_pd(y)), _mm_cvtps_pd(z));
	const __m128d high = _mm_add_pd(_mm_mul_pd(_mm_cvtps_pd(_mm_movehl_ps(x, x)), _mm_cvtps_pd(_mm_movehl_ps(y, y))), _mm_cvtps_pd(_mm_movehl_ps(z, z)));
	const vi32 ends = (vi32)_mm_shuffle_ps((__m128)low, (__m128)high, 0x88);
	const vi32 heads = (vi32)_mm_shuffle_ps((__m128)low, (__m128)high, 0xdd) & 0x7fffffff;
	const vi32 doubtful = ((ends & 0x1fffffff) == 0x10000000) | ((heads < 0x38100000) & (heads != 0));
	if (_mm_movemask_epi8((__m128i)doubtful) != 0)
		return vfma_each(a, b, c);
	return (vf32)_mm_movelh_ps(_mm_cvtpd_ps(low), _mm_cvtpd_ps(high));
}
#else
INLINE vf32 vfma(vf32 a, vf32 b, vf32 c) { return vfma_each(a, b, c); }
#endif
#endif

/* The same of doubles. */
typedef double vd64 __attribute__((vector_size(VECTOR_BYTES)));
INLINE vd64 vfma_double(vd64 a, vd64 b, vd64 c)
{
#if VECTOR_BYTES == 64
	return (vd64)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#elif VECTOR_BYTES == 32
	return (vd64)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#elif defined(__aarch64__)
	return (vd64)vfmaq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b);
#else
	return (vd64){fma(a[0], b[0], c[0]), fma(a[1], b[1], c[1])};
#endif
}

#endif

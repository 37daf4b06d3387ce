/* Conversions between float and the 16-bit types, one vector or one element at a time.
 * Narrowing rounds to nearest even; NaN stays NaN (quiet, upper payload bits kept). */
#ifndef CONVERT_H
#define CONVERT_H

#include "vector.h"

#if defined(__F16C__)
#include <immintrin.h>
#endif

typedef uint16_t vu16 __attribute__((vector_size(VECTOR_BYTES / 2)));
typedef uint16_t vu16u __attribute__((vector_size(VECTOR_BYTES / 2), aligned(2), may_alias));

INLINE vu32 vwiden16(const uint16_t *p) { return __builtin_convertvector((vu16) * (const vu16u *)p, vu32); }
INLINE void vnarrow16(uint16_t *p, vu32 v) { *(vu16u *)p = __builtin_convertvector(v, vu16); }

/* Chooses a where mask is all ones and b where it is zero. */
INLINE vu32 vpick(vi32 mask, vu32 a, vu32 b) { return ((vu32)mask & a) | (~(vu32)mask & b); }

INLINE vf32 vload_bf16(const uint16_t *p) { return (vf32)(vwiden16(p) << 16); }

INLINE void vstore_bf16(uint16_t *p, vf32 x)
{
	vu32 u = (vu32)x;
	vu32 rounded = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
	vnarrow16(p, vpick(x != x, (u >> 16) | 0x40, rounded));
}

#if defined(__F16C__) && VECTOR_BYTES == 64
INLINE vf32 vload_f16(const uint16_t *p) { return (vf32)_mm512_cvtph_ps(_mm256_loadu_si256((const void *)p)); }
INLINE void vstore_f16(uint16_t *p, vf32 x) { _mm256_storeu_si256((void *)p, _mm512_cvtps_ph((__m512)x, 0)); }
#elif defined(__F16C__) && VECTOR_BYTES == 32
INLINE vf32 vload_f16(const uint16_t *p) { return (vf32)_mm256_cvtph_ps(_mm_loadu_si128((const void *)p)); }
INLINE void vstore_f16(uint16_t *p, vf32 x) { _mm_storeu_si128((void *)p, _mm256_cvtps_ph((__m256)x, 0)); }
#else
INLINE vf32 vload_f16(const uint16_t *p)
{
	vu32 h = vwiden16(p);
	vu32 magnitude = (h & 0x7fff) << 13;
	/* The multiplication corrects the exponent bias and also normalises subnormals. */
	vu32 finite = (vu32)((vf32)magnitude * 0x1p112f);
	vu32 special = magnitude | 0x7f800000;
	special |= (vu32)((magnitude & 0x007fffff) != 0) & 0x00400000;
	return (vf32)(vpick((vi32)((h & 0x7c00) == 0x7c00), special, finite) | (h & 0x8000) << 16);
}

INLINE void vstore_f16(uint16_t *p, vf32 x)
{
	vu32 u = (vu32)x & 0x7fffffff;
	vf32 a = (vf32)u;
	vu32 normal = (u - (112u << 23) + 0xfff + ((u >> 13) & 1)) >> 13;
	/* The unit in the last place of 0.5f is the smallest fp16 subnormal: adding rounds to it. */
	vu32 subnormal = (vu32)(a + 0.5f) - 0x3f000000;
	vu32 h = vpick(a < 0x1p-14f, subnormal, normal);
	h = vpick(a >= 65520.0f, (vu32){0} + 0x7c00, h);
	h = vpick(x != x, 0x7e00 | ((u >> 13) & 0x1ff), h);
	vnarrow16(p, h | (((vu32)x >> 16) & 0x8000));
}
#endif

/* Four elements, whatever the width of the variant's vectors. */
typedef float v4f32 __attribute__((vector_size(16)));
typedef uint16_t v4u16u __attribute__((vector_size(8), aligned(2), may_alias));
typedef uint32_t v4u32 __attribute__((vector_size(16)));

INLINE v4f32 load4_bf16(const uint16_t *p)
{
	return (v4f32)(__builtin_convertvector(*(const v4u16u *)p, v4u32) << 16);
}

#if defined(__F16C__)
INLINE v4f32 load4_f16(const uint16_t *p) { return (v4f32)_mm_cvtph_ps(_mm_loadl_epi64((const void *)p)); }
#else
/* Without F16C vectors are 16 bytes wide. */
INLINE v4f32 load4_f16(const uint16_t *p) { return (v4f32)vload_f16(p); }
#endif

INLINE float f32_of_bf16(uint16_t h)
{
	union { uint32_t u; float f; } x = {.u = (uint32_t)h << 16};
	return x.f;
}

INLINE uint16_t bf16_of_f32(float f)
{
	union { float f; uint32_t u; } x = {.f = f};
	if (f != f)
		return (uint16_t)(x.u >> 16 | 0x40);
	return (uint16_t)((x.u + 0x7fff + (x.u >> 16 & 1)) >> 16);
}

#if defined(__F16C__)
INLINE float f32_of_f16(uint16_t h) { return _cvtsh_ss(h); }
INLINE uint16_t f16_of_f32(float f) { return _cvtss_sh(f, 0); }
#else
INLINE float f32_of_f16(uint16_t h)
{
	uint16_t in[VECTOR_FLOATS] = {h};
	return vload_f16(in)[0];
}

INLINE uint16_t f16_of_f32(float f)
{
	uint16_t out[VECTOR_FLOATS];
	vstore_f16(out, vset(f));
	return out[0];
}
#endif

#endif

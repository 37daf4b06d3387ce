/* Elementary functions on vectors of floats, within 2 ulp of the exact value. NaN gives
 * NaN; infinities, zeros and subnormals give what libm gives. */
#ifndef VMATH_H
#define VMATH_H

#include <math.h>

#include "vector.h"

#if defined(__F16C__)
#include <immintrin.h>
#endif

typedef double vf64 __attribute__((vector_size(VECTOR_BYTES * 2)));

/* Chooses a where mask is all ones and b where it is zero. */
static inline vf32 vselect(vi32 mask, vf32 a, vf32 b) { return (vf32)((mask & (vi32)a) | (~mask & (vi32)b)); }
static inline vf32 vabs(vf32 x) { return (vf32)((vi32)x & 0x7fffffff); }
static inline vf32 vcopysign(vf32 x, vf32 sign)
{
	return (vf32)(((vu32)x & 0x7fffffff) | ((vu32)sign & 0x80000000));
}

/* Adding this rounds |x| < 2^22 to an integer, which is then in the low bits. */
#define ROUNDING 12582912.0f

#define LN2_HI 0x1.62e4p-1f /* few bits: n * LN2_HI is exact */
#define LN2_LO 0x1.7f7d1cp-20f

/* 2^n * x, even if 2^n or the result is subnormal. */
static inline vf32 vscale(vf32 x, vi32 n)
{
	vi32 half = n >> 1;
	return x * (vf32)((half + 127) << 23) * (vf32)((n - half + 127) << 23);
}

/* The greater of each pair; b where a is NaN. */
static inline vf32 vmax(vf32 a, vf32 b)
{
#if VECTOR_BYTES == 64
	return (vf32)_mm512_max_ps((__m512)a, (__m512)b);
#elif VECTOR_BYTES == 32
	return (vf32)_mm256_max_ps((__m256)a, (__m256)b);
#else
	return vselect(a > b, a, b);
#endif
}

#if VECTOR_BYTES == 64
#define ELEMENT_NUMBERS {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
#elif VECTOR_BYTES == 32
#define ELEMENT_NUMBERS {0, 1, 2, 3, 4, 5, 6, 7}
#else
#define ELEMENT_NUMBERS {0, 1, 2, 3}
#endif

/* Rotates the elements by n. */
static inline vf32 vrotate(vf32 x, int n) { return __builtin_shuffle(x, ((vi32)ELEMENT_NUMBERS + n) & (VECTOR_FLOATS - 1)); }

static inline float vmax_across(vf32 x)
{
#pragma GCC unroll 4
	for (int n = VECTOR_FLOATS / 2; n > 0; n /= 2)
		x = vmax(x, vrotate(x, n));
	return x[0];
}

static inline float vsum_across(vf32 x)
{
#pragma GCC unroll 4
	for (int n = VECTOR_FLOATS / 2; n > 0; n /= 2)
		x += vrotate(x, n);
	return x[0];
}

/* Sums of a row in 16 virtual lanes, which are the same in every variant: element j of the row is added to lane j % 16. */
enum { LANE_VECTORS = 64 / VECTOR_BYTES };
struct lanes {
	vf32 sum[LANE_VECTORS];
};

/* Returns the vector of lanes to which the elements from j on are added, a multiple of VECTOR_FLOATS. */
static inline vf32 *lanes_at(struct lanes *l, int64_t j) { return l->sum + (uint64_t)j / VECTOR_FLOATS % LANE_VECTORS; }

/* Adds up the lanes, whose halves are added to each other. */
static inline float lanes_sum(struct lanes l)
{
#pragma GCC unroll 2
	for (int n = LANE_VECTORS / 2; n > 0; n /= 2)
#pragma GCC unroll 2
		for (int i = 0; i < n; i++)
			l.sum[i] += l.sum[i + n];
	return vsum_across(l.sum[0]);
}

/* exp(r) - 1 for |r| <= ln(2) / 2. */
static inline vf32 vexpm1_core(vf32 r)
{
	vf32 p = vfma(r, vset(1 / 5040.0f), vset(1 / 720.0f));
	p = vfma(p, r, vset(1 / 120.0f));
	p = vfma(p, r, vset(1 / 24.0f));
	p = vfma(p, r, vset(1 / 6.0f));
	p = vfma(p, r, vset(0.5f));
	return vfma(p * r, r, r);
}

static inline vf32 vclamp(vf32 x, float lo, float hi)
{
	x = vselect(x < lo, vset(lo), x);
	return vselect(x > hi, vset(hi), x);
}

static inline vf32 vexp(vf32 x)
{
	vf32 in = vclamp(x, -104, 89);
	vf32 shifted = vfma(in, vset(1.44269504f), vset(ROUNDING));
	vf32 n = shifted - ROUNDING;
	vf32 r = vfma(n, vset(-LN2_LO), vfma(n, vset(-LN2_HI), in));
	return vselect(x != x, x, vscale(vexpm1_core(r) + 1, (vi32)shifted - (vi32)vset(ROUNDING)));
}

static inline vf32 vexp2(vf32 x)
{
	vf32 in = vclamp(x, -150, 129);
	vf32 shifted = in + ROUNDING;
	vf32 r = (in - (shifted - ROUNDING)) * 0.693147181f;
	return vselect(x != x, x, vscale(vexpm1_core(r) + 1, (vi32)shifted - (vi32)vset(ROUNDING)));
}

static inline vf32 vexpm1(vf32 x)
{
	vf32 in = vclamp(x, -20, 89);
	vf32 shifted = vfma(in, vset(1.44269504f), vset(ROUNDING));
	vf32 n = shifted - ROUNDING;
	vf32 r = vfma(n, vset(-LN2_LO), vfma(n, vset(-LN2_HI), in));
	vi32 k = (vi32)shifted - (vi32)vset(ROUNDING);
	/* 2^128 does not fit a float: compute with half of it and double the result. */
	vf32 half = (vf32)((k + 126) << 23);
	vf32 y = vfma(half, vexpm1_core(r), half - 0.5f) * 2;
	y = vselect(k == 0, vexpm1_core(r), y);
	return vselect((x != x) | (x == 0), x, y);
}

/* Splits x > 0 into 2^e * (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)) and returns
 * log(1 + f) - f, which is small compared to f. */
static inline vf32 vlog_split(vf32 x, vf32 *e, vf32 *f)
{
	vi32 subnormal = x < 0x1p-126f;
	x = vselect(subnormal, x * 0x1p25f, x);
	vi32 bits = (vi32)x - 0x3f3504f3;
	vi32 exponent = bits >> 23;
	*f = (vf32)((bits & 0x007fffff) + 0x3f3504f3) - 1;
	*e = __builtin_convertvector(exponent - (subnormal & 25), vf32);
	vf32 s = *f / (2 + *f);
	vf32 z = s * s;
	vf32 r = vfma(z, vset(2 / 11.0f), vset(2 / 9.0f));
	r = vfma(r, z, vset(2 / 7.0f));
	r = vfma(r, z, vset(2 / 5.0f));
	r = vfma(r, z, vset(2 / 3.0f));
	vf32 h = 0.5f * *f * *f;
	return vfma(s, vfma(r, z, h), -h);
}

/* The result of a logarithm where x is not positive and finite. */
static inline vf32 vlog_special(vf32 x, vf32 y)
{
	y = vselect(x == 0, vset(-INFINITY), y);
	y = vselect(x < 0, vset(NAN), y);
	return vselect((x != x) | (x == INFINITY), x, y);
}

static inline vf32 vlog(vf32 x)
{
	vf32 e, f, rest = vlog_split(x, &e, &f);
	return vlog_special(x, vfma(e, vset(LN2_HI), f + vfma(e, vset(LN2_LO), rest)));
}

static inline vf32 vlog2(vf32 x)
{
	vf32 e, f, rest = vlog_split(x, &e, &f);
	/* 1/ln(2) = 1 + 0.4427 keeps the product's rounding error small. */
	return vlog_special(x, e + (f + vfma(f + rest, vset(0.442695041f), rest)));
}

static inline vf32 vlog10(vf32 x)
{
	vf32 e, f, rest = vlog_split(x, &e, &f);
	return vlog_special(x, vfma(e, vset(0x1.344p-2f), vfma(f + rest, vset(0.434294482f), e * 4.60503898e-6f)));
}

static inline vf32 vlog1p(vf32 x)
{
	vf32 u = 1 + x;
	/* (x - (u - 1)) / u corrects the logarithm for the rounding of u. */
	vf32 lost = vselect(x < 0x1p60f, x - (u - 1), vset(0));
	vf32 y = vlog(u) + vselect(u > 0, lost / u, vset(0));
	return vselect((u == 1) | (x == INFINITY), x, y);
}

static inline vf32 vsigmoid(vf32 x) { return 1 / (1 + vexp(-x)); }

static inline vf32 vtanh(vf32 x)
{
	vf32 t = vexpm1(-2 * vabs(x));
	return vselect(x != x, x, vcopysign(t / (t + 2), x));
}

/* erf(x) = x * P(x^2) for |x| < 0.9, else 1 - exp(-|x| Q(|x|)). The coefficients of Q
 * interpolate -log(erfc(x)) / x at Chebyshev nodes of [0.9, 4]; those of P are Taylor's. */
static inline vf32 verf(vf32 x)
{
	vf32 a = vabs(x), z = x * x;
	vf32 p = vfma(z, vset((float)(-1 / 6894720.0)), vset((float)(1 / 685440.0)));
	p = vfma(p, z, vset(-(float)(1 / 75600.0)));
	p = vfma(p, z, vset((float)(1 / 9360.0)));
	p = vfma(p, z, vset(-(float)(1 / 1320.0)));
	p = vfma(p, z, vset((float)(1 / 216.0)));
	p = vfma(p, z, vset(-(float)(1 / 42.0)));
	p = vfma(p, z, vset((float)(1 / 10.0)));
	p = vfma(p, z, vset(-(float)(1 / 3.0)));
	vf32 small = vfma(x, p * z, x) * 1.12837917f;
	vf32 c = vclamp(a, 0, 4);
	vf32 q = vfma(c, vset(-2.940336913e-7f), vset(4.840379238e-6f));
	q = vfma(q, c, vset(-1.578444586e-5f));
	q = vfma(q, c, vset(-0.000261620513f));
	q = vfma(q, c, vset(0.00362526573f));
	q = vfma(q, c, vset(-0.02394028025f));
	q = vfma(q, c, vset(0.106579908f));
	q = vfma(q, c, vset(0.6348933411f));
	q = vfma(q, c, vset(1.128720089f));
	vf32 large = vcopysign(1 - vexp(-c * q), x);
	return vselect(x != x, x, vselect(a < 0.9f, small, large));
}

/* sin(x + quarter * pi / 2). The argument reduction in double is accurate enough for |x| < 2^22;
 * larger elements are computed with libm. */
static inline vf32 vsine(vf32 x, int32_t quarter)
{
	vf32 shifted = vfma(x, vset(0.636619772f), vset(ROUNDING));
	vi32 k = (vi32)shifted - (vi32)vset(ROUNDING) + quarter;
	vf64 n = __builtin_convertvector(shifted - ROUNDING, vf64);
	/* n * 0x1.921fb544p0 is exact */
	vf32 r = __builtin_convertvector((__builtin_convertvector(x, vf64) - n * 0x1.921fb544p0) - n * 0x1.0b4611a626331p-34, vf32);
	vf32 z = r * r;
	vf32 s = vfma(z, vset(1 / 362880.0f), vset(-1 / 5040.0f));
	s = vfma(s, z, vset(1 / 120.0f));
	s = vfma(s, z, vset(-1 / 6.0f));
	s = vfma(s * z, r, r);
	vf32 c = vfma(z, vset(-1 / 3628800.0f), vset(1 / 40320.0f));
	c = vfma(c, z, vset(-1 / 720.0f));
	c = vfma(c, z, vset(1 / 24.0f));
	c = vfma(vfma(c, z, vset(-0.5f)), z, vset(1));
	vf32 y = vselect((k & 1) != 0, c, s);
	y = (vf32)((vu32)y ^ ((vu32)(k & 2) << 30));
#pragma GCC unroll 16
	for (int i = 0; i < VECTOR_FLOATS; i++)
		if (!(x[i] < 0x1p22f && x[i] > -0x1p22f))
			y[i] = quarter ? cosf(x[i]) : sinf(x[i]);
	return y;
}

static inline vf32 vsin(vf32 x) { return vselect(x == 0, x, vsine(x, 0)); }
static inline vf32 vcos(vf32 x) { return vsine(x, 1); }

static inline vf32 vroot(vf32 x)
{
#if defined(__F16C__) && VECTOR_BYTES == 64
	return (vf32)_mm512_sqrt_ps((__m512)x);
#elif defined(__F16C__) && VECTOR_BYTES == 32
	return (vf32)_mm256_sqrt_ps((__m256)x);
#else
	vf32 y = x;
	for (int i = 0; i < VECTOR_FLOATS; i++)
		y[i] = sqrtf(x[i] < 0 ? NAN : x[i]);
	return y;
#endif
}

/* Returns asin(s) - s for s = x if |x| <= 1/2, else for s = sqrt((1 - |x|) / 2), which is asin(x)
 * seen from the end of the range: asin(|x|) = pi/2 - 2 asin(s). */
static inline vf32 vasin_rest(vf32 x, vf32 *s)
{
	vi32 outer = vabs(x) > 0.5f;
	vf32 half = (1 - vabs(x)) * 0.5f, z = vselect(outer, half, x * x);
	*s = vselect(outer, vroot(half), x);
	vf32 p = vfma(z, vset(4.2163199048e-2f), vset(2.4181311049e-2f));
	p = vfma(p, z, vset(4.5470025998e-2f));
	p = vfma(p, z, vset(7.4953002686e-2f));
	p = vfma(p, z, vset(1.6666752422e-1f));
	return p * z * *s;
}

#define HALF_PI_HI 0x1.921fb6p0f
#define HALF_PI_LO -0x1.777a5cp-25f

static inline vf32 vasin(vf32 x)
{
	vf32 s, rest = vasin_rest(x, &s);
	vf32 y = vcopysign(HALF_PI_HI - (2 * s + (2 * rest - HALF_PI_LO)), x);
	return vselect(vabs(x) > 0.5f, y, s + rest);
}

static inline vf32 vacos(vf32 x)
{
	vf32 s, rest = vasin_rest(x, &s);
	vf32 middle = HALF_PI_HI - (s + (rest - HALF_PI_LO));
	vf32 near = 2 * (s + rest), far = 2 * HALF_PI_HI - (near - 2 * HALF_PI_LO);
	return vselect(vabs(x) > 0.5f, vselect(x > 0, near, far), middle);
}

#endif

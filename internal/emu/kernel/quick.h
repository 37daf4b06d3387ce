/* Formulas in double for functions of floats, without branches, so that gcc makes vectors of them. Their relative error
 * is about 1e-9, for erfc and erfinv 2e-7. Where a formula does not hold it gives NaN, and libm computes the element. */
#ifndef QUICK_H
#define QUICK_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t double_bits(double x)
{
	uint64_t bits;
	memcpy(&bits, &x, sizeof(x));
	return bits;
}

static inline double double_of(uint64_t bits)
{
	double x;
	memcpy(&x, &bits, sizeof(x));
	return x;
}

/* x if true_ is 1, or NaN if it is 0; a branch would keep loops from becoming vectors. */
static inline double nan_unless(int true_, double x) { return double_of(double_bits(x) | ((uint64_t)true_ - 1)); }

#define DOUBLE_ROUNDING 0x1.8p52

/* exp(x) for |x| <= 700. */
static inline double quick_exp(double x)
{
	double shifted = fma(x, M_LOG2E, DOUBLE_ROUNDING), r = fma(shifted - DOUBLE_ROUNDING, -M_LN2, x);
	double p = fma(r, 1 / 40320.0, 1 / 5040.0);
	p = fma(p, r, 1 / 720.0);
	p = fma(p, r, 1 / 120.0);
	p = fma(p, r, 1 / 24.0);
	p = fma(p, r, 1 / 6.0);
	p = fma(p, r, 0.5);
	p = fma(fma(p, r, 1), r, 1);
	return p * double_of((double_bits(shifted) + 1023) << 52);
}

/* log(x) for finite x > 0. */
static inline double quick_log(double x)
{
	uint64_t half = 0x3fe6a09e667f3bcd, bits = double_bits(x) - half + ((uint64_t)1024 << 52);
	double m = double_of((bits & 0xfffffffffffff) + half);
	double e = double_of((bits >> 52) + 0x4338000000000000) - (DOUBLE_ROUNDING + 1024);
	double s = (m - 1) / (m + 1), z = s * s;
	double p = fma(z, 1 / 11.0, 1 / 9.0);
	p = fma(p, z, 1 / 7.0);
	p = fma(p, z, 1 / 5.0);
	p = fma(p, z, 1 / 3.0);
	double y = fma(e, M_LN2, 2 * s * fma(p, z, 1));
	return nan_unless((x > 0) & (x < INFINITY), y);
}

/* 1 + z/3 + z^2/5 + ...: atanh(s)/s for z = s^2 <= 1/16, and atan(s)/s for z = -s^2 >= -0.172. */
static inline double arctangent(double z)
{
	double p = fma(z, 1 / 21.0, 1 / 19.0);
	p = fma(p, z, 1 / 17.0);
	p = fma(p, z, 1 / 15.0);
	p = fma(p, z, 1 / 13.0);
	p = fma(p, z, 1 / 11.0);
	p = fma(p, z, 1 / 9.0);
	p = fma(p, z, 1 / 7.0);
	p = fma(p, z, 1 / 5.0);
	p = fma(p, z, 1 / 3.0);
	return fma(p, z, 1);
}

/* log(1 + exp(-|a|)) */
static inline double quick_log1p_exp(double a)
{
	double b = fabs(a), t = quick_exp(-(b > 700 ? 700 : b)), u = 1 + t;
	return quick_log(u) + (t - (u - 1)) / u;
}

static inline double quick_softplus(double x) { return (x > 0 ? x : 0) + quick_log1p_exp(x); }

static inline double quick_log_add_exp2(double x, double y)
{
	return (x > y ? x : y) + quick_log1p_exp((x - y) * M_LN2) * M_LOG2E;
}

static inline double quick_tan(double x)
{
	double shifted = x * M_2_PI + DOUBLE_ROUNDING, n = shifted - DOUBLE_ROUNDING;
	double r = (x - n * 0x1.921fb544p0) - n * 0x1.0b4611a626331p-34, z = r * r; /* n * 0x1.921fb544p0 is exact */
	double s = fma(z, -1 / 39916800.0, 1 / 362880.0);
	s = fma(s, z, -1 / 5040.0);
	s = fma(s, z, 1 / 120.0);
	s = fma(s, z, -1 / 6.0);
	s = fma(s * z, r, r);
	double c = fma(z, 1 / 479001600.0, -1 / 3628800.0);
	c = fma(c, z, 1 / 40320.0);
	c = fma(c, z, -1 / 720.0);
	c = fma(c, z, 1 / 24.0);
	c = fma(fma(c, z, -0.5), z, 1);
	uint64_t odd = -(double_bits(shifted) & 1); /* rotated by a quarter: -c/s */
	uint64_t up = (double_bits(s) & ~odd) | (double_bits(-c) & odd), down = (double_bits(c) & ~odd) | (double_bits(s) & odd);
	double y = double_of(up) / double_of(down);
	return nan_unless((fabs(x) < 0x1p21) & (x != 0), y);
}

static inline double quick_cosh(double x)
{
	double a = fabs(x), e = quick_exp(a > 120 ? 120 : a);
	return (e + 1 / e) * 0.5;
}

static inline double quick_sinh(double x)
{
	double a = fabs(x), e = quick_exp(a > 120 ? 120 : a), z = x * x;
	double p = fma(z, 1 / 362880.0, 1 / 5040.0);
	p = fma(p, z, 1 / 120.0);
	p = fma(p, z, 1 / 6.0);
	double near = x + x * z * p, far = copysign((e - 1 / e) * 0.5, x);
	return a < 0.5 ? near : far;
}

static inline double quick_atan2(double y, double x)
{
	double b = fabs(y), a = fabs(x);
	int steep = b > 2.414213562373095 * a, middle = b > 0.414213562373095 * a;
	double num = steep ? -a : middle ? b - a : b, den = steep ? b : middle ? b + a : a;
	double t = num / den;
	double angle = t * arctangent(-t * t) + (steep ? M_PI_2 : middle ? M_PI_4 : 0);
	double back = M_PI - angle;
	angle = copysign(x < 0 ? back : angle, y);
	return nan_unless((x != 0) & (b < INFINITY) & (a < INFINITY), angle);
}

/* log(x / y) = 2 atanh(s) for s = (x - y) / (x + y). */
static inline double quick_log_ratio(double x, double y, double s)
{
	double far = quick_log(x / y), near = 2 * s * arctangent(s * s);
	return fabs(s) < 0.25 ? near : far;
}

static inline double quick_atanh(double x)
{
	double y = 0.5 * quick_log_ratio(1 + x, 1 - x, x);
	return nan_unless(x != 0, y);
}

static inline double quick_logit(double x, double eps)
{
	double most = eps < 0 ? INFINITY : 1 - eps, least = eps < 0 ? -INFINITY : eps;
	x = x < least ? least : x;
	x = x > most ? most : x;
	return quick_log_ratio(x, 1 - x, 2 * x - 1);
}

/* The approximation erfcc of Numerical Recipes. */
static inline double quick_erfc(double x)
{
	double a = fabs(x), t = 1 / (1 + 0.5 * (a > 12 ? 12 : a));
	double p = fma(t, 0.17087277, -0.82215223);
	p = fma(p, t, 1.48851587);
	p = fma(p, t, -1.13520398);
	p = fma(p, t, 0.27886807);
	p = fma(p, t, -0.18628806);
	p = fma(p, t, 0.09678418);
	p = fma(p, t, 0.37409196);
	p = fma(p, t, 1.00002368);
	p = fma(p, t, -1.26551223);
	double y = t * quick_exp(p - (a > 12 ? 144 : a * a)), z = 2 - y;
	return x < 0 ? z : y;
}

/* The inverse of the normal distribution: algorithm AS 241 (PPND7) of Wichura, Applied Statistics 37. */
static inline double quick_erfinv(double x)
{
	double a = fabs(x), q = 0.180625 - 0.25 * a * a, r = quick_exp(0.5 * quick_log(-quick_log(0.5 - 0.5 * a))) - 1.6; /* a root */
	double near = ((59.109374720 * q + 159.29113202) * q + 50.434271938) * q + 3.3871327179;
	near *= 0.5 * x / (((67.187563600 * q + 78.757757664) * q + 17.895169469) * q + 1);
	double far = ((0.17023821103 * r + 1.3067284816) * r + 2.7568153900) * r + 1.4234372777;
	far = copysign(far / ((0.12021132975 * r + 0.73700164250) * r + 1), x);
	return M_SQRT1_2 * (a <= 0.85 ? near : far);
}

/* exp(x) within 1 ulp, for doubles too. */
static inline double exp_double(double x)
{
	double in = x < -746 ? -746 : x > 710 ? 710 : x;
	double shifted = fma(in, M_LOG2E, DOUBLE_ROUNDING), n = shifted - DOUBLE_ROUNDING;
	double r = fma(n, -0x1.ef35793c7673p-45, in - n * 0x1.62e42fefa38p-1); /* the first product is exact */
	double p = fma(r, 1 / 6227020800.0, 1 / 479001600.0);
	p = fma(p, r, 1 / 39916800.0);
	p = fma(p, r, 1 / 3628800.0);
	p = fma(p, r, 1 / 362880.0);
	p = fma(p, r, 1 / 40320.0);
	p = fma(p, r, 1 / 5040.0);
	p = fma(p, r, 1 / 720.0);
	p = fma(p, r, 1 / 120.0);
	p = fma(p, r, 1 / 24.0);
	p = fma(p, r, 1 / 6.0);
	p = fma(p, r, 0.5);
	p = fma(p * r, r, r) + 1;
	/* The result may be subnormal: two factors. */
	double half = n * 0.5 + DOUBLE_ROUNDING, rest = n - (half - DOUBLE_ROUNDING) + DOUBLE_ROUNDING;
	return p * double_of((double_bits(half) + 1023) << 52) * double_of((double_bits(rest) + 1023) << 52);
}

#endif

/* Functions that libm lacks, each for double and for float (with the suffix f), as the operators
 * need them. */
#ifndef SPECIAL_H
#define SPECIAL_H

#include <math.h>

#include "quick.h"

/* The result is NaN if either argument is. */
#define EXTREMES(T, greatest, least) \
	static inline T greatest(T x, T y) \
	{ \
		T g = y > x ? y : x; \
		return y != y ? y : g; \
	} \
	static inline T least(T x, T y) \
	{ \
		T l = y < x ? y : x; \
		return y != y ? y : l; \
	}
EXTREMES(float, greatestf, leastf)
EXTREMES(double, greatest, least)
#undef EXTREMES

/* sqrt sets no errno. The option no-math-errno comes too late for functions that gcc knows: it would not vectorise them. */
extern float sqrtf(float) __attribute__((const));
extern double sqrt(double) __attribute__((const));

/* The remainder with the sign of the divisor. */
static inline double floored_modulo(double x, double y)
{
	double r = fmod(x, y);
	return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}
static inline float floored_modulof(float x, float y) { return (float)floored_modulo(x, y); }

/* lgamma would store the sign in a global variable, a race between threads. */
static inline double log_gamma(double x)
{
	int sign;
	return lgamma_r(x, &sign);
}

/* Reflection below 1/2, recurrence up to 10, then the asymptotic series. */
static inline double digamma(double x)
{
	if (x == 0)
		return copysign(INFINITY, -x);
	if (x < 0 && x == floor(x))
		return NAN;
	double y = 0;
	if (x < 0.5) {
		y = -M_PI / tan(M_PI * x);
		x = 1 - x;
	}
	for (; x < 10; x++)
		y -= 1 / x;
	double z = 1 / (x * x);
	double tail = z * (1 / 12.0 - z * (1 / 120.0 - z * (1 / 252.0 - z * (1 / 240.0 - z * (1 / 132.0 - z * 691 / 32760)))));
	return y + log(x) - 0.5 / x - tail;
}

/* Newton's method on erf, from a closed-form start value that is within 1 percent. Near 1 it uses
 * erfc instead, which keeps its precision there. */
static inline double erfinv(double y)
{
	double a = fabs(y);
	if (!(a < 1))
		return a == 1 ? copysign(INFINITY, y) : NAN;
	double l = log1p(-a * a), h = 2 / (M_PI * 0.147) + l / 2;
	double x = sqrt(sqrt(h * h - l / 0.147) - h);
	for (int i = 0; i < 4; i++) {
		double error = a < 0.5 ? erf(x) - a : (1 - a) - erfc(x);
		double step = error * (1 / M_2_SQRTPI) * exp(x * x);
		x -= step / (1 + x * step);
	}
	return copysign(x, y);
}

/* log(x / (1 - x)) with x clamped to [eps, 1 - eps]; a negative eps means no clamping. */
static inline double logit(double x, double eps)
{
	if (eps >= 0)
		x = x < eps ? eps : x > 1 - eps ? 1 - eps : x;
	return log(x / (1 - x));
}

static inline double logit_grad(double grad, double x, double eps)
{
	if (eps < 0)
		return x < 0 || x > 1 ? NAN : grad / (x * (1 - x));
	return x < eps || x > 1 - eps ? 0 : grad / (x * (1 - x));
}

#endif

/* Activation functions and their derivatives, on vectors of floats and on doubles. The two forms
 * of a function are next to each other. */
#ifndef ACTIVATION_H
#define ACTIVATION_H

#include "vmath.h"

static inline double sigmoid(double x) { return 1 / (1 + exp(-x)); }

/* d/dx of x * sigmoid(beta * x). */
static inline vf32 vswish_slope(vf32 x, float beta)
{
	vf32 s = vsigmoid(beta * x);
	return s * (1 + beta * x * (1 - s));
}
static inline double swish_slope(double x, double beta)
{
	double s = sigmoid(beta * x);
	return s * (1 + beta * x * (1 - s));
}

static inline vf32 vnormal_cdf(vf32 x) { return 0.5f * (1 + verf(x * (float)M_SQRT1_2)); }
static inline double normal_cdf(double x) { return 0.5 * erfc(-x * M_SQRT1_2); }

static inline vf32 vnormal_pdf(vf32 x) { return 0.398942280f * vexp(-0.5f * x * x); }
static inline double normal_pdf(double x) { return 0.3989422804014327 * exp(-0.5 * x * x); }

/* The argument of the tanh in GELU's approximation; (1 + tanh(t)) / 2 = sigmoid(2 t). */
static inline vf32 vgelu_argument(vf32 x) { return 0.797884561f * (x + 0.044715f * x * x * x); }
static inline double gelu_argument(double x) { return 0.7978845608028654 * (x + 0.044715 * x * x * x); }

static inline vf32 vgelu_tanh_slope(vf32 x)
{
	vf32 s = vsigmoid(2 * vgelu_argument(x));
	return s + x * s * (1 - s) * (1.595769122f * (1 + 0.134145f * x * x));
}
static inline double gelu_tanh_slope(double x)
{
	double s = sigmoid(2 * gelu_argument(x));
	return s + x * s * (1 - s) * (1.5957691216057308 * (1 + 0.134145 * x * x));
}

/* log(1 + exp(beta x)) / beta; x itself where beta x exceeds the threshold. Written with
 * exp(-|x|), which cannot overflow. */
static inline vf32 vsoftplus(vf32 x, float beta, float threshold)
{
	vf32 t = beta * x;
	vf32 y = (vselect(t > 0, t, vset(0)) + vlog1p(vexp(-vabs(t)))) / beta;
	return vselect((t > threshold) | (t != t), x, y);
}
static inline double softplus(double x, double beta, double threshold)
{
	double t = beta * x;
	if (t > threshold || t != t)
		return x;
	return ((t > 0 ? t : 0) + log1p(exp(-fabs(t)))) / beta;
}

static inline vf32 vmish_slope(vf32 x)
{
	vf32 t = vtanh(vsoftplus(x, 1, 20));
	return t + x * (1 - t * t) * vsigmoid(x);
}
static inline double mish_slope(double x)
{
	double t = tanh(softplus(x, 1, 20));
	return t + x * (1 - t * t) * sigmoid(x);
}

static inline vf32 vlog_add_exp(vf32 x, vf32 y)
{
	vf32 hi = vselect(x > y, x, y), lo = vselect(x > y, y, x);
	/* The difference of equal infinities would be NaN. */
	vf32 sum = hi + vlog1p(vexp(vselect(hi == lo, vset(0), lo - hi)));
	return vselect(x != x, x, sum);
}
static inline double log_add_exp(double x, double y)
{
	if (x == y)
		return x + M_LN2;
	double hi = x > y ? x : y, lo = x > y ? y : x;
	return x != x ? x : hi + log1p(exp(lo - hi));
}

#endif

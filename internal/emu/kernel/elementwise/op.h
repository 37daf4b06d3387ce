/* The element-wise operators: one row each, read by map_class.h to make the loops and here
 * to number them. x, y and z are the inputs, u, v and w the parameters. */
#ifndef OP_H
#define OP_H

#include "space.h"
#include "table.h"

/* Operators with one expression for all classes. Comparisons give 0 or 1. */
#define GENERIC_OPS(OP) \
	OP(COPY, x) \
	OP(NEG, -x) \
	OP(SIGN, (x > 0) - (x < 0)) \
	OP(SQUARE, x * x) \
	OP(CUBE, x * x * x) \
	OP(RELU, x < 0 ? 0 : x) \
	OP(ADD, x + u * y) \
	OP(RSUB, y - u * x) \
	OP(MUL, x * y) \
	OP(MAX, x > y || x != x ? x : y) \
	OP(MIN, x < y || x != x ? x : y) \
	OP(EQ, x == y) \
	OP(NE, x != y) \
	OP(LT, x < y) \
	OP(LE, x <= y) \
	OP(GT, x > y) \
	OP(GE, x >= y) \
	OP(AND, (x != 0) & (y != 0)) \
	OP(OR, (x != 0) | (y != 0)) \
	OP(XOR, (x != 0) ^ (y != 0)) \
	OP(NOT, x == 0) \
	OP(WHERE, x != 0 ? y : z) \
	OP(HEAVISIDE, x == 0 ? y : x > 0) \
	OP(CLAMP, FN(least)(FN(greatest)(x, y), z)) \
	OP(THRESHOLD, x <= u ? v : x) \
	OP(THRESHOLD_GRAD, y <= u ? 0 : x) \
	OP(ADDCMUL, x + u * y * z) \
	OP(MUL_NO_NAN, y == 0 ? 0 : x * y)

/* The expression for the floating-point classes, then the one for the integer classes. */
#define DUAL_OPS(OP) \
	OP(ABS, FN(fabs)(x), x < 0 ? -x : x) \
	OP(DIV, x / y, FN(divide)(x, y)) \
	OP(TRUNC_DIV, FN(trunc)(x / y), FN(divide)(x, y)) \
	OP(FLOOR_DIV, FN(floor)(x / y), FN(floor_divide)(x, y)) \
	OP(POW, (T)pow(x, y), FN(power)(x, y)) \
	OP(ADDCDIV, x + u * y / z, x + FN(divide)(u * y, z)) \
	OP(SIGNBIT, __builtin_signbit(x) != 0, x < 0)

/* The expression for r = x - trunc(x / y) * y in double, which is the result for floats with a
 * quotient below 2^29; then the one for the floating-point classes and that for the integers. */
#define MODULO_OPS(OP) \
	OP(FMOD, r, FN(fmod)(x, y), x - y * FN(divide)(x, y)) \
	OP(REMAINDER, (r != 0) & ((r < 0) != (y < 0)) ? r + y : r, FN(floored_modulo)(x, y), x - y * FN(floor_divide)(x, y))

#define FLOAT_OPS(OP) \
	OP(SQRT, FN(sqrt)(x)) \
	OP(RSQRT, 1 / FN(sqrt)(x)) \
	OP(RECIPROCAL, 1 / x) \
	OP(FLOOR, FN(floor)(x)) \
	OP(CEIL, FN(ceil)(x)) \
	OP(TRUNC, FN(trunc)(x)) \
	OP(ROUND, FN(rint)(x)) \
	OP(ROUND_DECIMALS, FN(rint)(x * u) / u) \
	OP(FRAC, x - FN(trunc)(x)) \
	OP(IS_FINITE, x - x == 0) \
	OP(IS_INF, FN(fabs)(x) == INFINITY) \
	OP(IS_POS_INF, x == INFINITY) \
	OP(IS_NEG_INF, x == -INFINITY) \
	OP(IS_CLOSE, x == y || (w != 0 && x != x && y != y) || \
			     (FN(fabs)(x - y) <= v + u * FN(fabs)(y) && FN(fabs)(y) < INFINITY)) \
	OP(NAN_TO_NUM, x != x ? u : x == INFINITY ? v : x == -INFINITY ? w : x) \
	OP(LERP, z < (T)0.5 ? x + z * (y - x) : y - (y - x) * (1 - z)) \
	OP(LEAKY_RELU, x > 0 ? x : u * x) \
	OP(LEAKY_RELU_GRAD, y > 0 ? x : u * x) \
	OP(HARD_SIGMOID, FN(least)(FN(greatest)(x + 3, 0), 6) / 6) \
	OP(HARD_SIGMOID_GRAD, y > -3 && y < 3 ? x / 6 : 0) \
	OP(HARD_SWISH, x * FN(least)(FN(greatest)(x + 3, 0), 6) / 6) \
	OP(HARD_SWISH_GRAD, FN(fabs)(y) < 3 || (u != 0 && FN(fabs)(y) == 3) ? x * (y / 3 + (T)0.5) : y < 0 ? 0 : x) \
	OP(HARD_TANH_GRAD, y <= u || y >= v ? 0 : x) \
	OP(HARD_SHRINK, x >= -u && x <= u ? 0 : x) \
	OP(SOFT_SHRINK, x > u ? x - u : x < -u ? x + u : x * 0) \
	OP(SHRINK, x > u ? x - v : x < -u ? x + v : x * 0) \
	OP(SHRINK_GRAD, y >= -u && y <= u ? 0 : x) \
	OP(SOFT_SIGN, x / (1 + FN(fabs)(x))) \
	OP(SOFT_SIGN_GRAD, x / ((1 + FN(fabs)(y)) * (1 + FN(fabs)(y)))) \
	OP(SIGMOID_GRAD, x * y * (1 - y)) \
	OP(TANH_GRAD, x * (1 - y * y)) \
	OP(SQRT_GRAD, y / (2 * x)) \
	OP(MASKED_SCALE, x * y * u) \
	OP(SUB_MUL, (x - y) * z) \
	OP(SQUARED_ERROR, (x - y) * (x - y)) \
	OP(SQUARED_ERROR_GRAD, u * x * (y - z)) \
	OP(ABSOLUTE_ERROR, FN(fabs)(x - y)) \
	OP(ABSOLUTE_ERROR_GRAD, u * x * ((y > z) - (y < z))) \
	OP(SMOOTH_ERROR, FN(fabs)(x - y) < u ? (T)0.5 * (x - y) * (x - y) / u : FN(fabs)(x - y) - (T)0.5 * u) \
	OP(SMOOTH_ERROR_GRAD, u * x * (y - z >= v ? 1 : y - z <= -v ? -1 : (y - z) / v)) \
	OP(PRELU, x > 0 ? x : y * x) \
	OP(PRELU_GRAD, y > 0 ? x : z * x) \
	OP(PRELU_WEIGHT_GRAD, y > 0 ? 0 : x * y) \
	OP(BINARY_ENTROPY_SLOPE, (x - y) / FN(greatest)(x * (1 - x), (T)1e-12))

#define INT_OPS(OP) \
	OP(BIT_AND, x & y) \
	OP(BIT_OR, x | y) \
	OP(BIT_XOR, x ^ y) \
	OP(BIT_NOT, ~x) \
	OP(SHIFT_LEFT, y < 0 || y > 63 ? 0 : x << y) \
	OP(SHIFT_RIGHT, x >> (y < 0 || y > 63 ? 63 : y)) \
	OP(GCD, FN(gcd)(x, y))

/* The expression on vectors of floats, then the one on doubles. */
#define MATH_OPS(OP) \
	OP(EXP, vexp(x), exp_double(x)) \
	OP(EXP2, vexp2(x), exp2(x)) \
	OP(EXPM1, vexpm1(x), expm1(x)) \
	OP(LOG, vlog(x), log(x)) \
	OP(LOG2, vlog2(x), log2(x)) \
	OP(LOG10, vlog10(x), log10(x)) \
	OP(LOG1P, vlog1p(x), log1p(x)) \
	OP(SIN, vsin(x), sin(x)) \
	OP(COS, vcos(x), cos(x)) \
	OP(ASIN, vasin(x), asin(x)) \
	OP(ACOS, vacos(x), acos(x)) \
	OP(TANH, vtanh(x), tanh(x)) \
	OP(ERF, verf(x), erf(x)) \
	OP(SIGMOID, vsigmoid(x), sigmoid(x)) \
	OP(SWISH, x * vsigmoid(u * x), x * sigmoid(u * x)) \
	OP(SWISH_GRAD, x * vswish_slope(y, u), x * swish_slope(y, u)) \
	OP(GELU, x * vnormal_cdf(x), x * normal_cdf(x)) \
	OP(GELU_GRAD, x * (vnormal_cdf(y) + y * vnormal_pdf(y)), x * (normal_cdf(y) + y * normal_pdf(y))) \
	OP(GELU_TANH, x * vsigmoid(2 * vgelu_argument(x)), x * sigmoid(2 * gelu_argument(x))) \
	OP(GELU_TANH_GRAD, x * vgelu_tanh_slope(y), x * gelu_tanh_slope(y)) \
	OP(FAST_GELU, x * vsigmoid(1.702f * x), x * sigmoid(1.702 * x)) \
	OP(FAST_GELU_GRAD, x * vswish_slope(y, 1.702f), x * swish_slope(y, 1.702)) \
	OP(SOFTPLUS, vsoftplus(x, u, v), softplus(x, u, v)) \
	OP(SOFTPLUS_GRAD, vselect(y * u > v, x, x * vsigmoid(y * u)), y * u > v ? x : x * sigmoid(y * u)) \
	OP(LOG_SIGMOID, -vsoftplus(-x, 1, INFINITY), -softplus(-x, 1, INFINITY)) \
	OP(LOG_SIGMOID_GRAD, x * vsigmoid(-y), x * sigmoid(-y)) \
	OP(MISH, x * vtanh(vsoftplus(x, 1, 20)), x * tanh(softplus(x, 1, 20))) \
	OP(MISH_GRAD, x * vmish_slope(y), x * mish_slope(y)) \
	OP(ELU, vselect(x > 0, v * x, v * u * vexpm1(w * x)), x > 0 ? v * x : v * u * expm1(w * x)) \
	OP(ELU_GRAD, vselect(y > 0, x * v, x * v * u * w * vexp(w * y)), y > 0 ? x * v : x * v * u * w * exp(w * y)) \
	OP(ELU_RESULT_GRAD, vselect(y > 0, x * v, x * w * (y + v * u)), y > 0 ? x * v : x * w * (y + v * u)) \
	OP(LOG_ADD_EXP, vlog_add_exp(x, y), log_add_exp(x, y))

/* Computed in double: for floats with a formula of quick.h, else, and where that is NaN, with libm. */
#define QUICK_OPS(OP) \
	OP(TAN, quick_tan(x), tan(x)) \
	OP(SINH, quick_sinh(x), sinh(x)) \
	OP(COSH, quick_cosh(x), cosh(x)) \
	OP(ATAN, quick_atan2(x, 1), atan(x)) \
	OP(ATANH, quick_atanh(x), atanh(x)) \
	OP(ATAN2, quick_atan2(x, y), atan2(x, y)) \
	OP(ERFC, quick_erfc(x), erfc(x)) \
	OP(ERFINV, quick_erfinv(x), erfinv(x)) \
	OP(LOGIT, quick_logit(x, u), logit(x, u)) \
	OP(LOG_ADD_EXP2, quick_log_add_exp2(x, y), log_add_exp(x * M_LN2, y * M_LN2) * M_LOG2E) \
	OP(LOGIT_ENTROPY, (1 - y) * x + (1 + (z - 1) * y) * quick_softplus(-x), \
		(1 - y) * x + (1 + (z - 1) * y) * softplus(-x, 1, INFINITY)) \
	OP(SOFT_MARGIN, quick_softplus(-x * y), softplus(-x * y, 1, INFINITY))

/* Rare functions, computed in double with libm for both classes. */
#define SPECIAL_OPS(OP) \
	OP(ASINH, asinh(x)) \
	OP(ACOSH, acosh(x)) \
	OP(LGAMMA, log_gamma(x)) \
	OP(DIGAMMA, digamma(x)) \
	OP(SINC, x == 0 ? 1 : sin(M_PI * x) / (M_PI * x)) \
	OP(LOGIT_GRAD, logit_grad(x, y, u)) \
	OP(XLOGY, y != y ? y : x == 0 ? 0 : x * log(y)) \
	OP(XLOG1PY, y != y ? y : x == 0 ? 0 : x * log1p(y)) \
	OP(ACOS_GRAD, -x / sqrt(1 - y * y)) \
	OP(ATAN_GRAD, x / (1 + y * y)) \
	OP(ASINH_GRAD, x / cosh(y)) \
	OP(BINARY_ENTROPY, -(y * greatest(log(x), -100) + (1 - y) * greatest(log1p(-x), -100))) \
	OP(LOGIT_ENTROPY_SLOPE, (z * y + 1 - y) * sigmoid(x) - z * y) \
	OP(LOGIT_ENTROPY_TARGET_SLOPE, z * softplus(-x, 1, INFINITY) - softplus(x, 1, INFINITY)) \
	OP(RELATIVE_ENTROPY, y * (log(y) - x)) \
	OP(RELATIVE_ENTROPY_SLOPE, -y) \
	OP(RELATIVE_ENTROPY_TARGET_SLOPE, log(y) - x + 1) \
	OP(LOG_RELATIVE_ENTROPY, exp(y) * (y - x)) \
	OP(LOG_RELATIVE_ENTROPY_SLOPE, -exp(y)) \
	OP(LOG_RELATIVE_ENTROPY_TARGET_SLOPE, exp(y) * (y - x + 1)) \
	OP(SOFT_MARGIN_SLOPE, -y * sigmoid(-x * y))

#define OP_NUMBER(id, ...) OP_##id,
enum {
	GENERIC_OPS(OP_NUMBER) DUAL_OPS(OP_NUMBER) MODULO_OPS(OP_NUMBER) FLOAT_OPS(OP_NUMBER)
	INT_OPS(OP_NUMBER) MATH_OPS(OP_NUMBER) QUICK_OPS(OP_NUMBER) SPECIAL_OPS(OP_NUMBER) OPS
};

/* One element-wise call. */
struct map {
	int32_t op, class, inputs;
	struct space space;
	struct operand out, in[MAX_INPUTS];
	double f[3]; /* the parameters, for the floating-point classes */
	int64_t i[3]; /* and for the integers */
};

/* Reports whether the selected variant has the operator in the class. */
static inline int map_defined(int32_t op, int32_t class) { return elementwise_kernels->map_defined(op, class); }

/* Computes the elements [lo, hi) of the space, counted in row-major order. */
static inline void map_run(const struct map *m, int64_t lo, int64_t hi) { elementwise_kernels->map(m, lo, hi); }

/* Like map_run for two inputs of n contiguous elements, given by address. Add and Sub do not
 * scale y. */
static inline void pair_run(int32_t op, int32_t class, uintptr_t out, int32_t out_dtype,
	uintptr_t x, int32_t x_dtype, uintptr_t y, int32_t y_dtype, int64_t n)
{
	struct map m;
	m.op = op;
	m.class = class;
	m.inputs = 2;
	m.space.rank = 1;
	m.space.shape[0] = n;
	m.out.data = (char *)out;
	m.out.dtype = out_dtype;
	m.in[0].data = (char *)x;
	m.in[0].dtype = x_dtype;
	m.in[1].data = (char *)y;
	m.in[1].dtype = y_dtype;
	m.out.stride[0] = m.in[0].stride[0] = m.in[1].stride[0] = 1;
	for (int i = 0; i < 3; i++) {
		m.f[i] = i == 0;
		m.i[i] = i == 0;
	}
	map_run(&m, 0, n);
}

#endif

/* Included once per integer class by map.h: arithmetic of the operators that C lacks. Division
 * by zero gives 0, since a kernel must not trap. */

static inline T FN(least)(T x, T y) { return x < y ? x : y; }
static inline T FN(greatest)(T x, T y) { return x > y ? x : y; }

/* Rounds towards zero. */
static inline T FN(divide)(T x, T y)
{
	if (y == 0)
		return 0;
	return y == (T)-1 && (T)-1 < 0 ? -x : x / y;
}

static inline T FN(floor_divide)(T x, T y)
{
	T q = FN(divide)(x, y);
	return y != 0 && (x < 0) != (y < 0) && q * y != x ? q - 1 : q;
}

/* A negative exponent gives the integer part of the exact result. */
static inline T FN(power)(T x, T y)
{
	if (y < 0)
		return x == 1 ? 1 : x == (T)-1 ? (y & 1 ? -1 : 1) : 0;
	T p = 1;
	for (; y; y >>= 1, x *= x)
		if (y & 1)
			p *= x;
	return p;
}

static inline T FN(gcd)(T x, T y)
{
	while (y != 0) {
		T r = x - y * FN(divide)(x, y);
		x = y;
		y = r;
	}
	return x < 0 ? -x : x;
}

//go:build linux && cgo && (amd64 || arm64)

/* One function type calls every operator. Integers and pointers take the integer registers
 * and then the stack, in order; floating-point arguments the vector registers, in order; on
 * System V x86-64 and AAPCS64 alike. Operators have at most eight floating-point arguments,
 * so those never reach the stack, and a callee ignores words beyond its own.
 *
 * The callee's type does not match these types. That is undefined to the compiler if it can
 * see both, so calls go through an address that it cannot see through. */
#include "shim.h"

#define W uint64_t
#define W4 W, W, W, W
#define W16 W4, W4, W4, W4
#define D8 double, double, double, double, double, double, double, double

typedef uint64_t (*words12)(W4, W4, W4);
typedef uint64_t (*words24)(W16, W4, W4, D8);
typedef uint64_t (*words64)(W16, W16, W16, W16, D8);

#define A4(i) a[i], a[i + 1], a[i + 2], a[i + 3]
#define A16(i) A4(i), A4(i + 4), A4(i + 8), A4(i + 12)
#define F8 f[0], f[1], f[2], f[3], f[4], f[5], f[6], f[7]

uint64_t cann_invoke(uint64_t fn, const uint64_t *a, uint32_t n, const double *f)
{
	__asm__("" : "+r"(fn)); /* hide the callee */
	if (!f && n <= 12)
		return ((words12)fn)(A4(0), A4(4), A4(8));
	if (n <= 24)
		return ((words24)fn)(A16(0), A4(16), A4(20), F8);
	return ((words64)fn)(A16(0), A16(16), A16(32), A16(48), F8);
}

// Operators that the program registers: a pair of functions for each number. The compiler does not know
// their parameters, so phase one takes what any parameters can be in: all registers for integers, all
// those for floating-point numbers, of which there are eight at most, and then words of the stack.
#include "export.h"

#ifdef __x86_64__
#define INTEGERS uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f
#define GIVEN WORDS(a, b, c, d, e, f)
#define REGISTERS 6
#else
#define INTEGERS uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f, uint64_t g, uint64_t h
#define GIVEN WORDS(a, b, c, d, e, f, g, h)
#define REGISTERS 8
#endif
#define FLOATS double s, double t, double u, double v, double w, double x, double y, double z
#define GIVEN_FLOATS WORDS(DOUBLE(s), DOUBLE(t), DOUBLE(u), DOUBLE(v), DOUBLE(w), DOUBLE(x), DOUBLE(y), DOUBLE(z))

static int words_of[EMU_CUSTOM];

static aclnnStatus prepare(int number, const uint64_t *integers, const uint64_t *floats, va_list stack)
{
	uint64_t words[EMU_CUSTOM_WORDS + 8];
	int n = words_of[number];
	for (int i = 0; i < n; i++)
		words[i] = i < REGISTERS ? integers[i] : va_arg(stack, uint64_t);
	memcpy(words + n, floats, 8 * sizeof *floats);
	return emu_prepare(-1 - number, words, n + 8);
}

#define OPERATOR_OF(n) \
	static aclnnStatus prepare_##n(INTEGERS, FLOATS, ...) \
	{ \
		va_list stack; \
		va_start(stack, z); \
		aclnnStatus status = prepare(n, GIVEN, GIVEN_FLOATS, stack); \
		va_end(stack); \
		return status; \
	} \
	static aclnnStatus execute_##n(void *workspace, uint64_t size, aclOpExecutor *executor, aclrtStream stream) \
	{ \
		return emu_execute(-1 - n, workspace, size, executor, stream); \
	}
#define BOTH(n) {(void *)prepare_##n, (void *)execute_##n},

// The numbers are octal.
#define EIGHT(f, n) f(n##0) f(n##1) f(n##2) f(n##3) f(n##4) f(n##5) f(n##6) f(n##7)
#define ALL(f) EIGHT(f, 00) EIGHT(f, 01) EIGHT(f, 02) EIGHT(f, 03) EIGHT(f, 04) EIGHT(f, 05) EIGHT(f, 06) EIGHT(f, 07)

ALL(OPERATOR_OF)

static void *const phases[EMU_CUSTOM][2] = {ALL(BOTH)};

void *emu_custom_prepare(int number, int words)
{
	words_of[number] = words;
	return phases[number][0];
}

void *emu_custom_execute(int number) { return phases[number][1]; }

// Macros and functions for the symbols: packing arguments into words and calling Go.
#ifndef CANN_EMU_EXPORT_H
#define CANN_EMU_EXPORT_H

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "zz_cann.h"

// Size of the per-thread block in bytes; package machine asserts that an rt.Thread fits.
#define EMU_THREAD_SIZE 20480

// A word has 64 bits. Integers are extended according to their sign, floating-point values are
// passed as bits, and records passed by value as the address of the callee's copy.
#define WORDS(...) ((uint64_t[]){__VA_ARGS__})
#define SIGNED(x) ((uint64_t)(int64_t)(x))
#define UNSIGNED(x) ((uint64_t)(x))
#define POINTER(x) ((uint64_t)(uintptr_t)(x))
#define RECORD(x) ((uint64_t)(uintptr_t)&(x))
#define DOUBLE(x) emu_double_word(x)
#define FLOAT(x) emu_float_word(x)

static inline uint64_t emu_double_word(double x)
{
	uint64_t w;
	memcpy(&w, &x, sizeof w);
	return w;
}

static inline uint64_t emu_float_word(float x)
{
	uint32_t w;
	memcpy(&w, &x, sizeof w);
	return w;
}

static inline float emu_float(uint64_t w)
{
	uint32_t low = (uint32_t)w;
	float x;
	memcpy(&x, &low, sizeof x);
	return x;
}

struct emu_symbol {
	const char *name;
	void *address;
	int since; // place of the first release that has it in abi.Releases
};

// Returns an exported CANN function, or null. Replaces dlsym in programs that link the emulator.
const struct emu_symbol *emu_lookup(const char *name);

// Returns the calling thread's rt.Thread, which is zeroed at first use and freed when the thread
// ends. Returns null when memory is exhausted.
void *emu_thread(void);

// The result by which a phase of an operator reports that it cannot run; package machine asserts that it is ACLNN_ERR_INNER.
#define EMU_OPERATOR_FAILURE 561000

// The same of each function of the list, and the number of aclGetRecentErrMsg.
extern const int32_t emu_failures[];
extern const int emu_text_function;

uint64_t emu_call(int function, uint64_t *words, int n);
aclnnStatus emu_prepare(int op, uint64_t *words, int n);
aclnnStatus emu_execute(int op, void *workspace, uint64_t size, aclOpExecutor *executor, aclrtStream stream);

// Operators that a program registers while it runs, and the most integers and pointers of one.
#define EMU_CUSTOM 64
#define EMU_CUSTOM_WORDS 64

// Return the address of a phase of the registered operator with a number. words is how many integers and
// pointers phase one takes.
void *emu_custom_prepare(int number, int words);
void *emu_custom_execute(int number);

#endif

// FUNCTIONS applies its argument to the number and the name of each function of the library.

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define NAME(number, name) #name,
static const char *const names[] = {FUNCTIONS(NAME)};

// The addresses of the functions in the emulator's library; null before the first call of any.
__attribute__((visibility("hidden"))) void *cann_functions[sizeof names / sizeof *names];

static void *loaded(void *result)
{
	if (!result) {
		fprintf(stderr, "CANN: %s\n", dlerror());
		abort();
	}
	return result;
}

static void load(void)
{
	void *emulator = loaded(dlopen("libcann_emu.so", RTLD_NOW | RTLD_LOCAL));
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		__atomic_store_n(&cann_functions[i], loaded(dlsym(emulator, names[i])), __ATOMIC_RELEASE);
}

__attribute__((visibility("hidden"))) void cann_load(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, load);
}

// Each function jumps to its namesake with its arguments where they are, so that these may be of any types. All
// registers that can hold arguments outlive the first call's loading.
#ifdef __x86_64__
__asm__(".text\n"
	"cann_enter:\n"
	"	leaq cann_functions(%rip), %r10\n"
	"	movq (%r10,%r11,8), %r10\n"
	"	testq %r10, %r10\n"
	"	jz 1f\n"
	"	jmp *%r10\n"
	"1:	pushq %rdi\n	pushq %rsi\n	pushq %rdx\n	pushq %rcx\n	pushq %r8\n	pushq %r9\n	pushq %rax\n	pushq %r11\n"
	"	subq $136, %rsp\n" // 8 registers of 16 bytes, and 8 that align the stack
	"	movups %xmm0, (%rsp)\n	movups %xmm1, 16(%rsp)\n	movups %xmm2, 32(%rsp)\n	movups %xmm3, 48(%rsp)\n"
	"	movups %xmm4, 64(%rsp)\n	movups %xmm5, 80(%rsp)\n	movups %xmm6, 96(%rsp)\n	movups %xmm7, 112(%rsp)\n"
	"	call cann_load\n"
	"	movups (%rsp), %xmm0\n	movups 16(%rsp), %xmm1\n	movups 32(%rsp), %xmm2\n	movups 48(%rsp), %xmm3\n"
	"	movups 64(%rsp), %xmm4\n	movups 80(%rsp), %xmm5\n	movups 96(%rsp), %xmm6\n	movups 112(%rsp), %xmm7\n"
	"	addq $136, %rsp\n"
	"	popq %r11\n	popq %rax\n	popq %r9\n	popq %r8\n	popq %rcx\n	popq %rdx\n	popq %rsi\n	popq %rdi\n"
	"	jmp cann_enter\n");
#define ENTRY(number, name) "	movl $" #number ", %r11d\n	jmp cann_enter\n"
#elif defined __aarch64__
__asm__(".text\n"
	"cann_enter:\n"
	"	adrp x16, cann_functions\n"
	"	add x16, x16, :lo12:cann_functions\n"
	"	ldr x16, [x16, x17, lsl 3]\n"
	"	cbz x16, 1f\n"
	"	br x16\n"
	"1:	stp x29, x30, [sp, -224]!\n"
	"	stp x0, x1, [sp, 16]\n	stp x2, x3, [sp, 32]\n	stp x4, x5, [sp, 48]\n	stp x6, x7, [sp, 64]\n	stp x8, x17, [sp, 80]\n"
	"	stp q0, q1, [sp, 96]\n	stp q2, q3, [sp, 128]\n	stp q4, q5, [sp, 160]\n	stp q6, q7, [sp, 192]\n"
	"	bl cann_load\n"
	"	ldp x0, x1, [sp, 16]\n	ldp x2, x3, [sp, 32]\n	ldp x4, x5, [sp, 48]\n	ldp x6, x7, [sp, 64]\n	ldp x8, x17, [sp, 80]\n"
	"	ldp q0, q1, [sp, 96]\n	ldp q2, q3, [sp, 128]\n	ldp q4, q5, [sp, 160]\n	ldp q6, q7, [sp, 192]\n"
	"	ldp x29, x30, [sp], 224\n"
	"	b cann_enter\n");
#define ENTRY(number, name) "	mov x17, " #number "\n	b cann_enter\n"
#else
#error "the libraries with CANN's names have code for x86-64 and arm64"
#endif
#define FUNCTION(number, name) ".globl " #name "\n.type " #name ", %function\n" #name ":\n" ENTRY(number, name) ".size " #name ", .-" #name "\n"
__asm__(FUNCTIONS(FUNCTION));

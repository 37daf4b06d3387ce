#include "export.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

/* In package machine. */
uint64_t emuCall(void *thread, int function, uint64_t *words, int n);
uint64_t emuPrepare(void *thread, int op, uint64_t *words, int n);
uint64_t emuExecute(void *thread, int op, uint64_t workspace, uint64_t size, uint64_t executor, uint64_t stream);

static pthread_key_t thread_key;
static pthread_once_t thread_once = PTHREAD_ONCE_INIT;
static __thread void *thread_block;

static void free_block(void *block)
{
	free(block);
	thread_block = 0; // a later destructor of this thread may call CANN again
}

static void make_key(void)
{
	// Without a key the blocks of ended threads leak, but everything else works.
	(void)pthread_key_create(&thread_key, free_block);
}

void *emu_thread(void)
{
	if (!thread_block) {
		pthread_once(&thread_once, make_key);
		thread_block = calloc(1, EMU_THREAD_SIZE);
		pthread_setspecific(thread_key, thread_block);
	}
	return thread_block;
}

// The text for the calls of a forked process; empty in others.
static char forked[512];

// Runs in the child of a fork. A child has only the thread that forked: the Go runtime lacks all others, so
// that a call would wait for them forever. Only a parent that has a Go runtime comes here, because the libraries
// with CANN's names load the emulator at their first call.
static void after_fork(void)
{
	snprintf(forked, sizeof forked,
		"the emulator cannot run in process %d, a fork of process %d, in which it was started: a fork has none of the threads of its parent. "
		"Fork before the first call of CANN, or start the child as a new program (exec; in Python the start methods spawn and forkserver).",
		(int)getpid(), (int)getppid());
}

__attribute__((constructor)) static void watch_forks(void)
{
	// Without memory for the handler a fork waits forever, as it would without this function.
	(void)pthread_atfork(0, 0, after_fork);
}

// Reports whether the process is a fork, and prints why its calls fail, once.
static int in_fork(void)
{
	static int printed;
	if (!forked[0])
		return 0;
	if (!__atomic_exchange_n(&printed, 1, __ATOMIC_RELAXED))
		fprintf(stderr, "CANN: %s\n", forked);
	return 1;
}

uint64_t emu_call(int function, uint64_t *words, int n)
{
	if (in_fork())
		return function == emu_text_function ? POINTER(forked) : SIGNED(emu_failures[function]);
	return emuCall(emu_thread(), function, words, n);
}

aclnnStatus emu_prepare(int op, uint64_t *words, int n)
{
	if (in_fork())
		return EMU_OPERATOR_FAILURE;
	return (aclnnStatus)emuPrepare(emu_thread(), op, words, n);
}

aclnnStatus emu_execute(int op, void *workspace, uint64_t size, aclOpExecutor *executor, aclrtStream stream)
{
	if (in_fork())
		return EMU_OPERATOR_FAILURE;
	return (aclnnStatus)emuExecute(emu_thread(), op, POINTER(workspace), size, POINTER(executor), POINTER(stream));
}

#include "export.h"

#include <pthread.h>
#include <stdlib.h>

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

uint64_t emu_call(int function, uint64_t *words, int n)
{
	return emuCall(emu_thread(), function, words, n);
}

aclnnStatus emu_prepare(int op, uint64_t *words, int n)
{
	return (aclnnStatus)emuPrepare(emu_thread(), op, words, n);
}

aclnnStatus emu_execute(int op, void *workspace, uint64_t size, aclOpExecutor *executor, aclrtStream stream)
{
	return (aclnnStatus)emuExecute(emu_thread(), op, POINTER(workspace), size, POINTER(executor), POINTER(stream));
}

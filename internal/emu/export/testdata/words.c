/* Calls generated symbols with every parameter class, with a recorder in place of Go, and checks
 * the recorded words. Built and run by TestWords in export_test.go. */
#include <assert.h>
#include <stdlib.h>

#include "../export.h"
#include "zz_functions.h"

static uint64_t seen[64], result;
static unsigned char record[64]; /* copy of the last record passed by value */
static int count, record_word = -1, record_size;
static char text[2048];

uint64_t emu_call(int function, uint64_t *words, int n)
{
	assert(function >= 0);
	count = n;
	for (int i = 0; i < n; i++)
		seen[i] = words[i];
	if (record_word >= 0)
		memcpy(record, (void *)(uintptr_t)words[record_word], record_size);
	if (n == 5) /* aclAppLog: the text lives only during the call */
		strncpy(text, words[4] ? (char *)(uintptr_t)words[4] : "", sizeof text - 1);
	return result;
}

aclnnStatus emu_prepare(int op, uint64_t *words, int n) { return (aclnnStatus)emu_call(op, words, n); }

aclnnStatus emu_execute(int op, void *workspace, uint64_t size, aclOpExecutor *executor, aclrtStream stream)
{
	return (aclnnStatus)emu_call(op, WORDS(POINTER(workspace), size, POINTER(executor), POINTER(stream)), 4);
}

#define TAG(i) ((void *)(uintptr_t)(0xCAFE0000CAFE0000u + (i)))
#define IS(i, v) assert(seen[i] == (uint64_t)(v))

static void operators(void)
{
	uint64_t size;
	aclOpExecutor *executor;
	result = 161002;
	assert(aclnnFlashAttentionScoreGetWorkspaceSize(TAG(0), TAG(1), TAG(2), 0, 0, 0, TAG(6), TAG(7), 0.25, 1.0, -1, 65536,
		8, (char *)"BSH", 0, 2, TAG(16), TAG(17), TAG(18), TAG(19), &size, &executor) == 161002);
	assert(count == 22);
	IS(0, (uintptr_t)TAG(0)); IS(3, 0); IS(7, (uintptr_t)TAG(7));
	IS(8, 0x3FD0000000000000u); IS(9, 0x3FF0000000000000u); /* doubles as bits */
	IS(10, -1); IS(11, 65536); IS(12, 8);
	assert(strcmp((char *)(uintptr_t)seen[13], "BSH") == 0);
	IS(19, (uintptr_t)TAG(19)); IS(20, (uintptr_t)&size); IS(21, (uintptr_t)&executor);

	aclnnAvgPool2dGetWorkspaceSize(TAG(0), TAG(1), TAG(2), TAG(3), true, false, -7, -1, TAG(8), &size, &executor);
	assert(count == 11);
	IS(4, 1); IS(5, 0); IS(6, -7); IS(7, -1); /* int8_t is sign-extended */

	aclnnQuantizeGetWorkspaceSize(TAG(0), TAG(1), TAG(2), ACL_DT_UNDEFINED, 3, TAG(5), &size, &executor);
	IS(3, -1); /* so are enums */

	aclnnFakeQuantPerTensorAffineCachemaskGetWorkspaceSize(TAG(0), TAG(1), TAG(2), 1.5f, -128, 127, TAG(6), TAG(7), &size, &executor);
	IS(3, 0x3FC00000); IS(4, -128); /* a float in the low half */

	result = (uint32_t)-5;
	assert(aclnnAbs(TAG(1), ~0ull, TAG(3), TAG(4)) == -5);
	assert(count == 4);
	IS(0, (uintptr_t)TAG(1)); IS(1, ~0ull); IS(2, (uintptr_t)TAG(3)); IS(3, (uintptr_t)TAG(4));
}

static void longest(void)
{
	uint64_t size;
	aclOpExecutor *executor;
#define T(i) TAG(i)
	result = 0;
	aclnnInnerFusedInferAttentionScoreTensorGetWorkspaceSize(T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10),
		T(11), T(12), T(13), T(14), T(15), T(16), T(17), T(18), T(19), T(20), T(21), T(22), T(23), T(24), T(25), T(26), T(27),
		T(28), T(29), T(30), 31, -0.0, 33, 34, (char *)"BNSD", 36, 37, 38, 39, 40, true, 42, 43, 44, 45, -46, T(47), T(48), &size,
		&executor);
	assert(count == 51);
	for (int i = 0; i <= 30; i++)
		IS(i, (uintptr_t)T(i));
	IS(31, 31); IS(32, 0x8000000000000000u); IS(41, 1); IS(46, -46); IS(48, (uintptr_t)T(48)); IS(50, (uintptr_t)&executor);
}

static int32_t dump(const acldumpChunk *chunk, int32_t n) { return chunk ? n : 0; }

static void functions(void)
{
	result = 0x3FC00000; /* 1.5f: floats come back as bits too */
	assert(aclFloat16ToFloat(0x3E00) == 1.5f);
	IS(0, 0x3E00);
	result = 0xFFFF3E00; /* a narrow result takes its low bytes */
	assert(aclFloatToFloat16(1.5f) == 0x3E00);
	IS(0, 0x3FC00000);

	result = (uint64_t)-1;
	assert(aclGetTensorDescType(TAG(1)) == ACL_DT_UNDEFINED);
	result = 0x123456789ABCDEF0u;
	assert(aclGetTensorDescSize(TAG(1)) == 0x123456789ABCDEF0u);
	assert(aclCreateTensorDesc(ACL_FLOAT, 0, 0, ACL_FORMAT_UNDEFINED) == (void *)(uintptr_t)result);
	IS(3, -1);
	assert(aclrtGetSocName() == (char *)(uintptr_t)result && count == 0);

	result = 0;
	aclmdlSetAIPPDtcPixelMin(TAG(0), 1.0f, 2.0f, -3.0f, 0.0f, 9);
	IS(1, 0x3F800000); IS(2, 0x40000000); IS(3, 0xC0400000); IS(4, 0); IS(5, 9);

	int64_t range[1][2] = {{4, 5}};
	aclSetTensorShapeRange(TAG(0), 1, range);
	IS(2, (uintptr_t)range);
	acldumpRegCallback(dump, 3);
	IS(0, (uintptr_t)dump);
	aclrtSetDevice(-1);
	IS(0, -1);
}

static void records(void)
{
	dim3 grid = {1, 2, 3}, block = {4, 5, 6};
	record_word = 2, record_size = sizeof block;
	aclrtLaunchSIMTKernelWithArgsArray(TAG(0), grid, block, 7, TAG(4), 0, 0);
	assert(memcmp(record, &block, sizeof block) == 0);
	IS(3, 7); IS(4, (uintptr_t)TAG(4));

	aclmdlRI graphs[2];
	aclmdlRICondTaskParams task = {TAG(1), ACL_MODEL_RI_COND_TYPE_SWITCH, 2, graphs};
	record_word = 0, record_size = sizeof task;
	aclmdlRIAddCondTask(task, TAG(2), 3);
	assert(memcmp(record, &task, sizeof task) == 0);
	IS(1, (uintptr_t)TAG(2)); IS(2, 3);

	aclrtIpcEventHandle handle;
	memset(&handle, 0x5A, sizeof handle);
	record_size = sizeof handle;
	aclrtIpcOpenEventHandle(handle, TAG(1));
	assert(memcmp(record, &handle, sizeof handle) == 0);
	IS(1, (uintptr_t)TAG(1));

	HcclConfigValue value = {-2};
	record_word = 1, record_size = sizeof value;
	HcclSetConfig(HCCL_DETERMINISTIC, value);
	assert(memcmp(record, &value, sizeof value) == 0);
	record_word = -1;
}

static void variadic(void)
{
	aclAppLog(ACL_ERROR, "f", "file.c", 12, "%d of %s: %.1f", 3, "four", 0.5);
	assert(count == 5 && seen[3] == 12 && strcmp(text, "3 of four: 0.5") == 0);
	char longer[3000];
	memset(longer, 'x', sizeof longer);
	longer[sizeof longer - 1] = 0;
	aclAppLog(ACL_ERROR, "f", "file.c", 12, "%s", longer); /* cut, not overrun */
	assert(strlen(text) == 1023);
	aclAppLog(ACL_ERROR, 0, 0, 0, 0);
	assert(text[0] == 0);
}

int main(void)
{
	operators();
	longest();
	functions();
	records();
	variadic();
	return EXIT_SUCCESS;
}

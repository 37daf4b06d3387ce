/* The calls a C program makes, in loops, against the empty functions: what the Go binding
 * is measured against. The functions are reached through the dynamic symbol table, as in a
 * program linked with CANN. */
#include "testdata/zz_functions.h"

/* How often a loop calls; the Go side has the same number. */
enum { LOOP = 1000 };

/* Signed 32-bit results, so that the Go side calls them like any CANN function. */
int32_t cannBenchLaunch(void);
int32_t cannBenchRecord(void);
int32_t cannBenchWait(void);
int32_t cannBenchCopy(void);

static char memory[64];

static aclTensor *tensor(int64_t rank, const int64_t *dims, const int64_t *strides, aclDataType type)
{
	int64_t storage = dims[0] * strides[0];
	return aclCreateTensor(dims, rank, type, strides, 0, ACL_FORMAT_ND, &storage, 1, memory);
}

/* FlashAttentionScore with query, key, value, mask, softmax max and sum, and the output. */
int32_t cannBenchLaunch(void)
{
	const int64_t qkv[4] = {2, 8, 128, 64}, qkv_strides[4] = {8 * 128 * 64, 128 * 64, 64, 1};
	const int64_t mask[2] = {2048, 2048}, mask_strides[2] = {2048, 1};
	const int64_t stat[4] = {2, 8, 128, 8}, stat_strides[4] = {8 * 128 * 8, 128 * 8, 8, 1};
	char layout[] = "BNSD";
	for (int64_t i = 0; i < LOOP; i++) {
		aclTensor *q = tensor(4, qkv, qkv_strides, ACL_FLOAT16), *k = tensor(4, qkv, qkv_strides, ACL_FLOAT16),
			  *v = tensor(4, qkv, qkv_strides, ACL_FLOAT16), *m = tensor(2, mask, mask_strides, ACL_BOOL),
			  *max = tensor(4, stat, stat_strides, ACL_FLOAT), *sum = tensor(4, stat, stat_strides, ACL_FLOAT),
			  *out = tensor(4, qkv, qkv_strides, ACL_FLOAT16);
		uint64_t size = 0;
		aclOpExecutor *executor = NULL;
		aclnnStatus s = aclnnFlashAttentionScoreGetWorkspaceSize(q, k, v, NULL, NULL, NULL, m, NULL, 0.125, 1.0,
									 2147483647, 2147483647, 8, layout, 0, 2, max, sum,
									 NULL, out, &size, &executor);
		if (s == 0)
			s = aclnnFlashAttentionScore(memory, size, executor, (aclrtStream)memory);
		if (s != 0)
			return s;
		aclDestroyTensor(q);
		aclDestroyTensor(k);
		aclDestroyTensor(v);
		aclDestroyTensor(m);
		aclDestroyTensor(max);
		aclDestroyTensor(sum);
		aclDestroyTensor(out);
	}
	return 0;
}

int32_t cannBenchRecord(void)
{
	for (int64_t i = 0; i < LOOP; i++)
		if (aclrtRecordEvent((aclrtEvent)memory, (aclrtStream)memory) != 0)
			return 1;
	return 0;
}

int32_t cannBenchWait(void)
{
	for (int64_t i = 0; i < LOOP; i++)
		if (aclrtStreamWaitEvent((aclrtStream)memory, (aclrtEvent)memory) != 0)
			return 1;
	return 0;
}

int32_t cannBenchCopy(void)
{
	for (int64_t i = 0; i < LOOP; i++)
		if (aclrtMemcpyAsync(memory, 64, memory, 64, ACL_MEMCPY_DEVICE_TO_DEVICE, (aclrtStream)memory) != 0)
			return 1;
	return 0;
}

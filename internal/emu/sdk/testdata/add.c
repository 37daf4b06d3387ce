/* Adds two vectors many times, calls an operator that does not exist, and prints how much the
 * process grew. Compiles as C and C++. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "aclnnop/aclnn_add.h"
#include "aclnnop/aclnn_svd.h"

#define CHECK(call) \
	do { \
		int code_ = (int)(call); \
		if (code_ != 0) { \
			const char *text_ = aclGetRecentErrMsg(); \
			fprintf(stderr, "%s: %d: %s\n", #call, code_, text_ ? text_ : ""); \
			exit(1); \
		} \
	} while (0)

enum { N = 5 };

static aclTensor *vector(void *data)
{
	int64_t shape[1] = {N}, stride[1] = {1};
	return aclCreateTensor(shape, 1, ACL_FLOAT, stride, 0, ACL_FORMAT_ND, shape, 1, data);
}

static long resident(void)
{
	char line[256];
	long kib = 0;
	FILE *f = fopen("/proc/self/status", "r");
	while (f && fgets(line, sizeof line, f))
		if (strncmp(line, "VmRSS:", 6) == 0)
			kib = atol(line + 6);
	if (f)
		fclose(f);
	return kib;
}

int main(void)
{
	const float x[N] = {1, 2, 3, 4, 5}, y[N] = {10, 20, 30, 40, 50};
	float out[N] = {0};
	float one = 1;
	void *dx, *dy, *dout;
	aclrtStream stream;
	CHECK(aclInit(NULL));
	CHECK(aclrtSetDevice(0));
	CHECK(aclrtCreateStream(&stream));
	CHECK(aclrtMalloc(&dx, sizeof x, ACL_MEM_MALLOC_HUGE_FIRST));
	CHECK(aclrtMalloc(&dy, sizeof y, ACL_MEM_MALLOC_HUGE_FIRST));
	CHECK(aclrtMalloc(&dout, sizeof out, ACL_MEM_MALLOC_HUGE_FIRST));
	CHECK(aclrtMemcpy(dx, sizeof x, x, sizeof x, ACL_MEMCPY_HOST_TO_DEVICE));
	CHECK(aclrtMemcpy(dy, sizeof y, y, sizeof y, ACL_MEMCPY_HOST_TO_DEVICE));
	// Take the least of twelve rounds: the runtime's heap takes some rounds to reach its size and
	// varies after that, but a leak grows every round.
	long before = 0, growth = LONG_MAX;
	for (int i = 0; i <= 122000; i++) {
		uint64_t size = 0;
		aclOpExecutor *executor = NULL;
		aclTensor *tx = vector(dx), *ty = vector(dy), *tout = vector(dout);
		aclScalar *alpha = aclCreateScalar(&one, ACL_FLOAT);
		CHECK(aclnnAddGetWorkspaceSize(tx, ty, alpha, tout, &size, &executor));
		CHECK(aclnnAdd(NULL, size, executor, stream));
		aclDestroyTensor(tx);
		aclDestroyTensor(ty);
		aclDestroyTensor(tout);
		aclDestroyScalar(alpha);
		if (i % 500 == 0)
			CHECK(aclrtSynchronizeStream(stream));
		if (i % 10000 == 2000) {
			long now = resident();
			if (i > 2000 && now - before < growth)
				growth = now - before;
			before = now;
		}
	}
	CHECK(aclrtSynchronizeStream(stream));
	CHECK(aclrtMemcpy(out, sizeof out, dout, sizeof out, ACL_MEMCPY_DEVICE_TO_HOST));
	printf("sum");
	for (int i = 0; i < N; i++)
		printf(" %g", out[i]);
	printf("\ngrowth %ld KiB\n", growth);

	uint64_t size = 0;
	aclOpExecutor *executor = NULL;
	aclTensor *a = vector(dx);
	int code = (int)aclnnSvdGetWorkspaceSize(a, true, true, a, a, a, &size, &executor);
	const char *text = aclGetRecentErrMsg();
	printf("missing %d %s\n", code, text ? text : "");
	aclDestroyTensor(a);
	CHECK(aclrtFree(dx));
	CHECK(aclrtFree(dy));
	CHECK(aclrtFree(dout));
	CHECK(aclrtDestroyStream(stream));
	CHECK(aclrtResetDevice(0));
	CHECK(aclFinalize());
	return 0;
}

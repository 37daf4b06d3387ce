/* Makes a few calls of each family of the runtime that CANN added after 8.1.RC1. Prints results
 * that the test compares. Compiles as C and C++. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "acl/acl_dump.h"
#include "acl/acl_tdt.h"
#include "acl/acl_tdt_queue.h"
#include "aclnnop/aclnn_add.h"
#include "mstx/ms_tools_ext.h"

#define CHECK(call) \
	do { \
		int code_ = (int)(call); \
		if (code_ != 0) { \
			const char *text_ = aclGetRecentErrMsg(); \
			fprintf(stderr, "%s: %d: %s\n", #call, code_, text_ ? text_ : ""); \
			exit(1); \
		} \
	} while (0)

static aclrtStream stream;

/* A device address that holds n bytes. */
static void *on_device(const void *data, size_t n)
{
	void *at;
	CHECK(aclrtMalloc(&at, n, ACL_MEM_MALLOC_HUGE_FIRST));
	CHECK(aclrtMemcpy(at, n, data, n, ACL_MEMCPY_HOST_TO_DEVICE));
	return at;
}

static void queues(void)
{
	uint32_t from, to, depth = 2;
	const char *name = "numbers";
	char data[8];
	size_t size;
	acltdtQueueAttr *attr = acltdtCreateQueueAttr();
	CHECK(acltdtSetQueueAttr(attr, ACL_TDT_QUEUE_DEPTH_UINT32, sizeof depth, &depth));
	CHECK(acltdtSetQueueAttr(attr, ACL_TDT_QUEUE_NAME_PTR, sizeof name, &name));
	CHECK(acltdtCreateQueue(attr, &from));
	CHECK(acltdtCreateQueue(NULL, &to));
	acltdtQueueRouteList *routes = acltdtCreateQueueRouteList();
	acltdtQueueRoute *route = acltdtCreateQueueRoute(from, to);
	CHECK(acltdtAddQueueRoute(routes, route));
	CHECK(acltdtBindQueueRoutes(routes));
	CHECK(acltdtEnqueueData(from, "hello", 6, NULL, 0, -1, 0));
	CHECK(acltdtDequeueData(to, data, sizeof data, &size, NULL, 0, 1000));
	printf("queue %s %zu\n", data, size);
	printf("empty %d\n", acltdtDequeueData(to, data, sizeof data, &size, NULL, 0, 1) == ACL_ERROR_RT_QUEUE_EMPTY);
	CHECK(acltdtUnbindQueueRoutes(routes));
	CHECK(acltdtDestroyQueueRoute(route));
	CHECK(acltdtDestroyQueueRouteList(routes));
	CHECK(acltdtDestroyQueue(from));
	CHECK(acltdtDestroyQueue(to));
	CHECK(acltdtDestroyQueueAttr(attr));
	aclGetRecentErrMsg();
	int code = acltdtEnqueue(to, NULL, 0);
	printf("buffers %d %d\n", code == ACL_ERROR_FEATURE_UNSUPPORTED, strstr(aclGetRecentErrMsg(), "acltdtEnqueue") != NULL);
}

static void channels(void)
{
	float data[2] = {1.5f, 2.5f};
	const int64_t dims[1] = {2};
	acltdtChannelHandle *channel = acltdtCreateChannelWithCapacity(0, "tensors", 2);
	acltdtDataItem *item = acltdtCreateDataItem(ACL_TENSOR_DATA_TENSOR, dims, 1, ACL_FLOAT, data, sizeof data);
	acltdtDataset *sent = acltdtCreateDataset(), *got = acltdtCreateDataset();
	CHECK(acltdtAddDataItem(sent, item));
	CHECK(acltdtSendTensor(channel, sent, -1));
	data[0] = 0; /* the channel has a copy */
	CHECK(acltdtReceiveTensor(channel, got, -1));
	const float *x = (const float *)acltdtGetDataAddrFromItem(acltdtGetDataItem(got, 0));
	printf("channel %zu %g %g\n", acltdtGetDatasetSize(got), x[0], x[1]);
	CHECK(acltdtDestroyDataset(got));
	CHECK(acltdtDestroyDataset(sent));
	CHECK(acltdtDestroyDataItem(item));
	CHECK(acltdtDestroyChannel(channel));
}

/* A graph that copies the number of the chosen branch. */
static void conditions(void)
{
	const uint64_t numbers[3] = {10, 20, 30};
	uint64_t out = 0, *number;
	void *from = on_device(numbers, sizeof numbers), *to = on_device(&out, sizeof out);
	aclrtStream inner;
	aclmdlRI graph, bodies[3];
	aclmdlRICaptureStatus status;
	aclmdlRICondHandle condition;
	aclmdlRICondTaskParams task;
	CHECK(aclrtCreateStream(&inner));
	CHECK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
	CHECK(aclmdlRICaptureGetInfo(stream, &status, &graph));
	CHECK(aclmdlRICondHandleCreate(graph, 0, (aclmdlRICondHandleFlag)0, &condition));
	CHECK(aclmdlRICondHandleGetCondPtr(condition, &number));
	memset(&task, 0, sizeof task);
	task.handle = condition;
	task.type = ACL_MODEL_RI_COND_TYPE_SWITCH;
	task.size = 3;
	task.modelRIArray = bodies;
	CHECK(aclmdlRIAddCondTask(task, stream, 0));
	for (int i = 0; i < 3; i++) {
		CHECK(aclmdlRICaptureToModelRIBegin(inner, bodies[i], ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
		CHECK(aclrtMemcpyAsync(to, 8, (char *)from + 8 * i, 8, ACL_MEMCPY_DEVICE_TO_DEVICE, inner));
		CHECK(aclmdlRICaptureEnd(inner, &bodies[i]));
	}
	CHECK(aclmdlRICaptureEnd(stream, &graph));
	for (uint64_t i = 0; i < 3; i++) {
		CHECK(aclrtMemcpy(number, 8, &i, 8, ACL_MEMCPY_HOST_TO_DEVICE));
		CHECK(aclmdlRIExecuteAsync(graph, stream));
		CHECK(aclrtSynchronizeStream(stream));
		CHECK(aclrtMemcpy(&out, 8, to, 8, ACL_MEMCPY_DEVICE_TO_HOST));
		printf("branch %d %d\n", (int)i, (int)out);
	}
	CHECK(aclmdlRIDestroy(graph));
	CHECK(aclrtDestroyStream(inner));
	CHECK(aclrtFree(from));
	CHECK(aclrtFree(to));
}

static void events(void)
{
	aclrtEvent mine, theirs;
	aclrtIpcEventHandle handle;
	aclrtEventRecordedStatus status;
	CHECK(aclrtCreateEventExWithFlag(&mine, ACL_EVENT_IPC));
	CHECK(aclrtIpcGetEventHandle(mine, &handle));
	CHECK(aclrtIpcOpenEventHandle(handle, &theirs));
	CHECK(aclrtRecordEvent(mine, stream));
	CHECK(aclrtStreamWaitEvent(stream, theirs));
	CHECK(aclrtSynchronizeEvent(theirs));
	CHECK(aclrtQueryEventStatus(theirs, &status));
	printf("event %d\n", status == ACL_EVENT_RECORDED_STATUS_COMPLETE);
	CHECK(aclrtDestroyEvent(theirs));
	CHECK(aclrtDestroyEvent(mine));
}

static aclrtRandomParaInfo value(const void *x, size_t size)
{
	aclrtRandomParaInfo p;
	memset(&p, 0, sizeof p);
	memcpy(p.valueOrAddr, x, size);
	p.size = (uint8_t)size;
	return p;
}

static void randoms(void)
{
	enum { N = 100 };
	const uint64_t counter[2] = {0, 0}, seed = 1, count = N;
	const int32_t min = 5, max = 8;
	int32_t out[2][N] = {{0}};
	int inside = 1;
	void *at = on_device(out[0], sizeof out[0]), *offset = on_device(counter, sizeof counter);
	aclrtRandomNumTaskInfo task;
	memset(&task, 0, sizeof task);
	task.dataType = ACL_INT32;
	task.randomNumFuncParaInfo.funcType = ACL_RT_RANDOM_NUM_FUNC_TYPE_UNIFORM_DIS;
	task.randomNumFuncParaInfo.paramInfo.uniformDisInfo.min = value(&min, sizeof min);
	task.randomNumFuncParaInfo.paramInfo.uniformDisInfo.max = value(&max, sizeof max);
	task.randomResultAddr = at;
	task.randomCounterAddr = offset;
	task.randomSeed = value(&seed, sizeof seed);
	task.randomNum = value(&count, sizeof count);
	for (int i = 0; i < 2; i++) {
		CHECK(aclrtRandomNumAsync(&task, stream, NULL));
		CHECK(aclrtSynchronizeStream(stream));
		CHECK(aclrtMemcpy(out[i], sizeof out[i], at, sizeof out[i], ACL_MEMCPY_DEVICE_TO_HOST));
	}
	for (int i = 0; i < N; i++)
		inside = inside && out[0][i] >= min && out[0][i] < max;
	printf("random %d %d\n", inside, memcmp(out[0], out[1], sizeof out[0]) == 0);
	CHECK(aclrtFree(at));
	CHECK(aclrtFree(offset));
}

static int dumped, dump_wrong;

static int32_t on_dump(const acldumpChunk *chunk, int32_t length)
{
	dumped++;
	dump_wrong += (size_t)length != sizeof *chunk + chunk->bufLen || !chunk->isLastChunk;
	dump_wrong += strstr(chunk->fileName, "Add.aclnnAdd.") == NULL || memcmp(chunk->dataBuf + 8, "{\"output.out\"", 12) != 0;
	return 0;
}

static void add(aclTensor *x, aclTensor *y, aclScalar *one, aclTensor *out)
{
	uint64_t size;
	aclOpExecutor *executor;
	CHECK(aclnnAddGetWorkspaceSize(x, y, one, out, &size, &executor));
	CHECK(aclnnAdd(NULL, 0, executor, stream));
	CHECK(aclrtSynchronizeStream(stream));
}

static void dumps(const char *config, const char *folder)
{
	float data[3] = {1, 2, 3}, alpha = 1;
	const int64_t shape[1] = {3}, strides[1] = {1};
	void *at[3];
	aclTensor *x[3];
	for (int i = 0; i < 3; i++) {
		at[i] = on_device(data, sizeof data);
		x[i] = aclCreateTensor(shape, 1, ACL_FLOAT, strides, 0, ACL_FORMAT_ND, shape, 1, at[i]);
	}
	aclScalar *one = aclCreateScalar(&alpha, ACL_FLOAT);
	CHECK(aclmdlInitDump());
	CHECK(aclmdlSetDump(config));
	printf("path %s\n", acldumpGetPath(DATA_DUMP));
	add(x[0], x[1], one, x[2]); /* a file */
	CHECK(acldumpRegCallback(on_dump, 0));
	add(x[0], x[1], one, x[2]);
	acldumpUnregCallback();
	CHECK(aclmdlFinalizeDump());
	CHECK(aclopStartDumpArgs(ACL_OP_DUMP_OP_AICORE_ARGS, folder));
	add(x[0], x[1], one, x[2]);
	CHECK(aclopStopDumpArgs(ACL_OP_DUMP_OP_AICORE_ARGS));
	printf("dump %d %d\n", dumped, dump_wrong);
	aclDestroyScalar(one);
	for (int i = 0; i < 3; i++) {
		aclDestroyTensor(x[i]);
		CHECK(aclrtFree(at[i]));
	}
}

static void marks(void)
{
	mstxDomainHandle_t domain = mstxDomainCreateA("test");
	mstxRangeId range = mstxDomainRangeStartA(domain, "range", stream);
	mstxDomainMarkA(domain, "mark", stream);
	mstxMarkA("mark", stream);
	mstxDomainRangeEnd(domain, range);
	mstxRangeEnd(mstxRangeStartA("range", NULL));
	printf("marks %d\n", range != 0 && aclGetRecentErrMsg() == NULL);
	mstxDomainDestroy(domain);
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	CHECK(aclInit(NULL));
	CHECK(aclrtSetDevice(0));
	CHECK(aclrtCreateStream(&stream));
	queues();
	channels();
	conditions();
	events();
	randoms();
	dumps(argv[1], argv[2]);
	marks();
	CHECK(aclrtDestroyStream(stream));
	CHECK(aclFinalize());
	return 0;
}

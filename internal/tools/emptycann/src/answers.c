/* The functions of the empty CANN whose callers need a result. */
#include "testdata/zz_functions.h"

#include <stdlib.h>

static char object[64]; /* what every handle points to */

aclError aclrtGetDeviceCount(uint32_t *count)
{
	*count = 1;
	return 0;
}

const char *aclrtGetSocName(void) { return "Ascend910B1"; }

aclError aclrtGetVersion(int32_t *major, int32_t *minor, int32_t *patch)
{
	*major = 1;
	*minor = 13;
	*patch = 0;
	return 0;
}

aclError aclrtGetCurrentContext(aclrtContext *context)
{
	*context = object;
	return 0;
}

aclError aclrtCreateContext(aclrtContext *context, int32_t device)
{
	(void)device;
	*context = object;
	return 0;
}

aclError aclrtCreateStream(aclrtStream *stream)
{
	*stream = object;
	return 0;
}

aclError aclrtCreateStreamWithConfig(aclrtStream *stream, uint32_t priority, uint32_t flag)
{
	(void)priority;
	(void)flag;
	*stream = object;
	return 0;
}

aclError aclrtCreateEvent(aclrtEvent *event)
{
	*event = object;
	return 0;
}

aclError aclrtCreateEventWithFlag(aclrtEvent *event, uint32_t flag)
{
	(void)flag;
	*event = object;
	return 0;
}

aclError aclrtCreateEventExWithFlag(aclrtEvent *event, uint32_t flag)
{
	(void)flag;
	*event = object;
	return 0;
}

/* COMPLETE, so that nobody waits for ever. */
aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus *status)
{
	(void)event;
	*status = ACL_EVENT_RECORDED_STATUS_COMPLETE;
	return 0;
}

aclError aclrtMalloc(void **address, size_t size, aclrtMemMallocPolicy policy)
{
	(void)policy;
	*address = malloc(size);
	return *address ? 0 : ACL_ERROR_RT_MEMORY_ALLOCATION;
}

aclError aclrtFree(void *address)
{
	free(address);
	return 0;
}

aclError aclrtMallocHost(void **address, size_t size) { return aclrtMalloc(address, size, ACL_MEM_MALLOC_HUGE_FIRST); }

aclError aclrtFreeHost(void *address) { return aclrtFree(address); }

aclError aclrtGetMemInfo(aclrtMemAttr attribute, size_t *available, size_t *total)
{
	(void)attribute;
	*available = *total = (size_t)64 << 30;
	return 0;
}

aclTensor *aclCreateTensor(const int64_t *viewDims, uint64_t viewDimsNum, aclDataType dataType, const int64_t *stride,
			   int64_t offset, aclFormat format, const int64_t *storageDims, uint64_t storageDimsNum,
			   void *tensorData)
{
	(void)viewDims;
	(void)viewDimsNum;
	(void)dataType;
	(void)stride;
	(void)offset;
	(void)format;
	(void)storageDims;
	(void)storageDimsNum;
	(void)tensorData;
	return (aclTensor *)object;
}

aclScalar *aclCreateScalar(void *value, aclDataType dataType)
{
	(void)value;
	(void)dataType;
	return (aclScalar *)object;
}

aclTensorList *aclCreateTensorList(const aclTensor *const *value, uint64_t size)
{
	(void)value;
	(void)size;
	return (aclTensorList *)object;
}

aclIntArray *aclCreateIntArray(const int64_t *value, uint64_t size)
{
	(void)value;
	(void)size;
	return (aclIntArray *)object;
}

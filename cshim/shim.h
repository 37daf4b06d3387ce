/* The two crossings from Go to C: a runtime call and an operator launch. The structs hold
 * no pointer types, so that cgo neither scans nor copies them. */
#ifndef CSHIM_H
#define CSHIM_H

#include <stdatomic.h>
#include <stdint.h>

enum { CANN_ARGS = 12, CANN_MAX_PARAMS = 64, CANN_MAX_FLOATS = 8, CANN_MAX_RANK = 8 };

/* One runtime call. The Go type Call begins with the same fields. */
struct cann_call {
	uint64_t args[CANN_ARGS];
	uint32_t out;     /* bit i: the callee gets the address of args[i] */
	uint8_t host;     /* 1 + index of the argument that is the host pointer; 0 = none */
	uint8_t rebinds;  /* the callee changes the thread's current context */
	uint8_t value;    /* the result is a value, not an error code */
	int32_t bind;     /* error code of making the context current */
	uint64_t fn;
	uint64_t context; /* made current on this thread first; 0 = leave */
	uint64_t ret;
	uint64_t message; /* malloc'ed error text of a failed call, or 0 */
};

void cann_call(struct cann_call *c);
/* The same with host memory for the argument that c->host names. It is a function of its
 * own because cgo checks every pointer it is given. */
void cann_call_host(struct cann_call *c, void *host);
/* The same for a callee that may call back into Go on this thread. */
void cann_call_back(struct cann_call *c, void *host);
/* The same on a thread that is made for the call; on this one if the system has no more. */
void cann_call_fresh(struct cann_call *c, void *host);

/* A call with any number of arguments of an operator's kinds: 64 words and 8 floating-point numbers. The other fields of
 * the block are as for cann_call. */
void cann_call_wide(struct cann_call *c, const uint64_t *words, uint32_t n, const double *floats);

/* The arguments of an operator are words in C order. An argument that is an object in C
 * (tensor, scalar, array, list) or a string also has a record, from which its word is made
 * in the crossing. A record is this head and its payload, in whole words. */
enum cann_class {
	CANN_TENSOR = 1, /* struct cann_tensor is the whole record */
	CANN_TENSORS,    /* count tensor records follow */
	CANN_SCALAR,     /* two words of value */
	CANN_SCALARS,    /* count scalar records follow */
	CANN_STRING,     /* count bytes, the NUL among them */
	CANN_INTS,       /* count values */
	CANN_FLOATS,     /* count values, packed */
	CANN_BOOLS,      /* count bytes, packed */
};

struct cann_record {
	uint8_t class, slot; /* slot: which word */
	int16_t dtype;
	uint32_t count;
};

/* The Go type TensorDesc has the same fields. Begins as a record does. */
struct cann_tensor {
	uint8_t class, slot;
	int16_t dtype, format;
	uint8_t rank, storage_rank;
	uint64_t address;
	int64_t offset, dims[CANN_MAX_RANK], strides[CANN_MAX_RANK], storage[CANN_MAX_RANK];
};

enum cann_stage { CANN_DONE, CANN_BIND, CANN_BUILD, CANN_PREPARE, CANN_EXECUTE, CANN_WORKSPACE };

/* One operator launch. The part above `objects` is set by Go. */
struct cann_launch {
	uint64_t prepare, execute; /* the two phases */
	uint64_t context, stream;
	uint64_t workspace, size; /* scratch memory at hand */
	uint32_t words, records;
	uint64_t word[CANN_MAX_PARAMS]; /* integers and pointers, in C order */
	double floats[CANN_MAX_FLOATS]; /* floating-point arguments, in C order; a float in the low half */
	uint32_t objects;               /* descriptors to destroy */
	int32_t code;
	int32_t stage;                  /* where it stopped */
	uint8_t kind[CANN_MAX_PARAMS];
	uint64_t object[CANN_MAX_PARAMS];
	uint64_t executor;
	uint64_t need;    /* workspace size that phase one asked for */
	uint64_t message; /* malloc'ed error text, or 0 */
};

/* Runs both phases. When the workspace at hand is too small it ends after phase one with stage
 * CANN_WORKSPACE and holds nothing; called again with a larger one it begins again. Phase two of
 * the same executor could run on another OS thread, where it would share the buffer of an entry
 * of the first thread's cache with calls of that thread. */
void cann_launch(struct cann_launch *l, const uint64_t *records);
/* Destroys what a prepared launch holds. */
void cann_release(struct cann_launch *l);
/* Phase one only, for an executor that runs repeatedly; phase two with other addresses:
 * addresses[i] for tensor i in declaration order, 0 = keep. tensors holds the descriptors, and
 * places twice the index of each among the inputs, or among the outputs and one. */
void cann_prepare(struct cann_launch *l, const uint64_t *records, uint64_t *tensors);
void cann_run(struct cann_launch *l, const uint64_t *tensors, const uint64_t *places, const uint64_t *addresses,
	      uint32_t count);

/* Functions the shim itself calls. */
enum cann_base {
	CANN_SET_CONTEXT,
	CANN_ERROR_TEXT,
	CANN_CREATE_TENSOR,
	CANN_DESTROY_TENSOR,
	CANN_CREATE_TENSORS,
	CANN_DESTROY_TENSORS,
	CANN_CREATE_SCALAR,
	CANN_DESTROY_SCALAR,
	CANN_CREATE_SCALARS,
	CANN_DESTROY_SCALARS,
	CANN_CREATE_INTS,
	CANN_DESTROY_INTS,
	CANN_CREATE_FLOATS,
	CANN_DESTROY_FLOATS,
	CANN_CREATE_BOOLS,
	CANN_DESTROY_BOOLS,
	CANN_DESTROY_EXECUTOR,
	CANN_SET_REPEATABLE,
	CANN_SET_INPUT,
	CANN_SET_OUTPUT,
	CANN_BYPASS_CACHE, /* these two may be absent */
	CANN_USE_CACHE,
	CANN_EXCEPTION_TASK, /* what an aclrtExceptionInfo holds; absent ones leave ~0 */
	CANN_EXCEPTION_STREAM,
	CANN_EXCEPTION_THREAD,
	CANN_EXCEPTION_DEVICE,
	CANN_EXCEPTION_CODE,
	CANN_BASE_COUNT
};
void cann_set_base(int which, uint64_t fn);

/* Forgets which context each thread has made current. */
void cann_forget(void);

/* Calls fn with n integer words and up to eight floating-point words, whatever its C
 * signature: see trampoline.c. */
uint64_t cann_invoke(uint64_t fn, const uint64_t *ints, uint32_t n, const double *floats);

/* Shared by call.c and launch.c. */
extern _Atomic uint64_t cann_base_address[CANN_BASE_COUNT];
static inline uint64_t cann_base(int which)
{
	return atomic_load_explicit(&cann_base_address[which], memory_order_acquire);
}
int32_t cann_bind(uint64_t context);
uint64_t cann_error_text(void);

/* The function that aclrtLaunchHostFunc and aclrtLaunchCallback get; it runs the Go
 * function registered under the number that is its argument. */
void cann_host_func(void *number);
uint64_t cann_host_func_address(void);
/* pthread_self of the calling thread. */
uint64_t cann_thread(void);

/* The exception callback of the process keeps the last failed tasks. It must not call into Go: CANN
 * runs it on a thread that may be inside a call from Go which promised not to call back. */
enum { CANN_EXCEPTIONS = 32 };
struct cann_exception {
	uint32_t task, stream, thread, device, code;
};
void cann_on_exception(void *info);
uint64_t cann_exception_address(void);
/* Copies the tasks that failed after the first `from` ones, as far as they are still kept, and
 * returns how many failed in all. */
uint64_t cann_exceptions(uint64_t from, struct cann_exception *out, uint32_t *count);

#endif

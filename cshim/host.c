//go:build linux && cgo && (amd64 || arm64)

#include "_cgo_export.h"
#include "shim.h"

#include <pthread.h>

void cann_host_func(void *number) { cannHostFunc((uint64_t)number); }

uint64_t cann_host_func_address(void) { return (uint64_t)cann_host_func; }

uint64_t cann_thread(void) { return (uint64_t)pthread_self(); }

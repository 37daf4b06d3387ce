#include "_cgo_export.h"
#include "shim.h"

void cann_host_func(void *number) { cannHostFunc((uint64_t)number); }

uint64_t cann_host_func_address(void) { return (uint64_t)cann_host_func; }

package rt

// #include <stdlib.h>
import "C"

import "unsafe"

// Malloc returns n bytes of C heap memory, zeroed, for results that the C caller frees.
func Malloc(n int) unsafe.Pointer { return C.calloc(1, C.size_t(max(n, 1))) }

// Free releases memory of Malloc.
func Free(p unsafe.Pointer) { C.free(p) }

package rt

// #include <stdlib.h>
import "C"

import "unsafe"

// Malloc returns n bytes of C heap memory, zeroed, for results that the C caller frees.
func Malloc(n int) unsafe.Pointer { return C.calloc(1, C.size_t(max(n, 1))) }

// mallocAligned returns n bytes aligned to a host page, or nil.
func mallocAligned(n uint64) unsafe.Pointer {
	rounded := (n + hostPage - 1) / hostPage * hostPage
	if rounded < n {
		return nil
	}
	return C.aligned_alloc(hostPage, C.size_t(rounded))
}

// Free releases memory that Malloc returned.
func Free(p unsafe.Pointer) { C.free(p) }

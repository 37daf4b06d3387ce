//go:build asan

package sanitize

// #include <sanitizer/asan_interface.h>
import "C"

import "unsafe"

// FenceSize is the number of bytes that the address sanitizer needs behind an allocation: more than
// the widest vector of a kernel.
const FenceSize = 64

// Fence marks device memory as unallocated, so that the address sanitizer reports a kernel that
// accesses it.
func Fence(b []byte) {
	C.__asan_poison_memory_region(unsafe.Pointer(unsafe.SliceData(b)), C.size_t(len(b)))
}

// Unfence undoes Fence.
func Unfence(b []byte) {
	C.__asan_unpoison_memory_region(unsafe.Pointer(unsafe.SliceData(b)), C.size_t(len(b)))
}

//go:build asan

package rt

// #include <sanitizer/asan_interface.h>
import "C"

import "unsafe"

// fenceSize is the number of bytes that the address sanitizer needs behind an allocation: more than
// the widest vector of a kernel.
const fenceSize = 64

// fence marks device memory as unallocated, so that the address sanitizer reports a kernel that
// accesses it.
func fence(b []byte) {
	C.__asan_poison_memory_region(unsafe.Pointer(unsafe.SliceData(b)), C.size_t(len(b)))
}

// unfence undoes fence.
func unfence(b []byte) {
	C.__asan_unpoison_memory_region(unsafe.Pointer(unsafe.SliceData(b)), C.size_t(len(b)))
}

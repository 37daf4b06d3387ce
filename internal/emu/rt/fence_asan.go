//go:build asan

package rt

// #include <sanitizer/asan_interface.h>
import "C"

import "unsafe"

// fenceSize is the least that the address sanitizer needs behind an allocation: more than
// the widest vector of a kernel.
const fenceSize = 64

// fence tells the address sanitizer which device memory nobody has allocated, so that it
// reports a kernel that touches it.
func fence(b []byte) {
	C.__asan_poison_memory_region(unsafe.Pointer(unsafe.SliceData(b)), C.size_t(len(b)))
}

// unfence takes that back.
func unfence(b []byte) {
	C.__asan_unpoison_memory_region(unsafe.Pointer(unsafe.SliceData(b)), C.size_t(len(b)))
}

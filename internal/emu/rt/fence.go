//go:build !asan

package rt

// fenceSize is the number of bytes that the address sanitizer needs behind an allocation; without
// the sanitizer it needs none.
const fenceSize = 0

// fence marks unallocated device memory for the address sanitizer. Without the sanitizer it does
// nothing.
func fence([]byte) {}

// unfence undoes fence.
func unfence([]byte) {}

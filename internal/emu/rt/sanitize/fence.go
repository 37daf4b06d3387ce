//go:build !asan

package sanitize

// FenceSize is the number of bytes that the address sanitizer needs behind an allocation; without
// the sanitizer it needs none.
const FenceSize = 0

// Fence marks unallocated device memory for the address sanitizer. Without the sanitizer it does
// nothing.
func Fence([]byte) {}

// Unfence undoes Fence.
func Unfence([]byte) {}

package rt

import "unsafe"

// Pointer makes a C address usable; going through memory says that the address is not one
// of Go's heap.
func Pointer(w uint64) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&w)) }

// Read copies n values from C memory; it never returns nil.
func Read[T any](w uint64, n uint64) []T {
	out := make([]T, n)
	copy(out, unsafe.Slice((*T)(Pointer(w)), n))
	return out
}

// Write stores a value at a C address.
func Write[T any](w uint64, v T) { *(*T)(Pointer(w)) = v }

// CString copies a NUL-terminated text.
func CString(w uint64) string {
	p := (*byte)(Pointer(w))
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(p, n))
}

// bytes views n bytes of host memory.
func bytes(p unsafe.Pointer, n int64) []byte { return unsafe.Slice((*byte)(p), n) }

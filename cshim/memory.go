package cshim

import "unsafe"

// pointer makes a C address usable; going through memory shows the compiler that the address is not one
// of Go's heap.
func pointer(p uint64) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&p)) }

// CString copies the NUL-terminated text at a C address; address 0 gives "".
func CString(p uint64) string {
	if p == 0 {
		return ""
	}
	start := (*byte)(pointer(p))
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(start), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(start, n))
}

// Bytes views n bytes of C memory, such as pinned host memory; it copies nothing, so the
// memory must outlive the slice.
func Bytes(p uint64, n int) []byte { return unsafe.Slice((*byte)(pointer(p)), n) }

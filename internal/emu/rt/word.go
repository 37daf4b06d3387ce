package rt

import "unsafe"

// Types of the parameters and results of handlers, in addition to numbers, strings and pointers
// that may be null (*T).
type (
	// Address is an address of host or device memory. As a parameter it may not be null; an address
	// that may be null is a uintptr.
	Address uint64

	// Handle refers to an object of the emulator, see Handles. It may be null.
	Handle = uint64

	// Code is the result of most functions: 0 or an error code.
	Code = uint64

	// In points to values of T that a call reads. It may not be null.
	In[T any] uint64

	// Out points to memory for values of T that a call writes. It may not be null.
	Out[T any] uint64
)

// Get reads the value.
func (in In[T]) Get() T { return *(*T)(Pointer(uint64(in))) }

// Slice returns a view of n values in the program's memory.
func (in In[T]) Slice(n uint64) []T { return unsafe.Slice((*T)(Pointer(uint64(in))), n) }

// Set writes a value.
func (o Out[T]) Set(v T) { *(*T)(Pointer(uint64(o))) = v }

// Fill writes consecutive values.
//
//go:noinline
func (o Out[T]) Fill(v []T) { copy(unsafe.Slice((*T)(Pointer(uint64(o))), len(v)), v) } // inlining crashes Go 1.26 when the length is constant

// Pointer converts a C address to a pointer. It goes through memory to state that the address is
// not in the Go heap.
func Pointer(w uint64) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&w)) }

// Read returns a copy of n values of C memory; it never returns nil.
func Read[T any](w uint64, n uint64) []T {
	out := make([]T, n)
	copy(out, unsafe.Slice((*T)(Pointer(w)), n))
	return out
}

// Write stores a value at a C address.
func Write[T any](w uint64, v T) { *(*T)(Pointer(w)) = v }

// CString returns a copy of a NUL-terminated string.
func CString(w uint64) string {
	p := (*byte)(Pointer(w))
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(p, n))
}

// OptionalCString is CString, but returns nil for a null address.
func OptionalCString(w uint64) *string {
	if w == 0 {
		return nil
	}
	s := CString(w)
	return &s
}

// bytes returns a view of n bytes of host memory.
func bytes(p unsafe.Pointer, n int64) []byte { return unsafe.Slice((*byte)(p), n) }

package nn

import "unsafe"

// The list and array objects of aclnn. A tensor list owns its members: destroying it
// destroys them.
type (
	tensorList struct{ members []uint64 }
	scalarList struct {
		members []uint64
		values  []*Scalar
	}
	intArray   struct{ values []int64 }
	floatArray struct{ values []float32 }
	boolArray  struct{ values []bool }
)

// pointer makes a C address usable; the conversion through memory says that the address
// does not come from Go's heap.
func pointer(w uint64) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&w)) }

// read copies n values from C memory; it never returns nil.
func read[T any](w uint64, n uint64) []T {
	out := make([]T, n)
	copy(out, unsafe.Slice((*T)(pointer(w)), n))
	return out
}

// write stores a value at a C address.
func write[T any](w uint64, v T) { *(*T)(pointer(w)) = v }

func cString(w uint64) string {
	p := (*byte)(pointer(w))
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(p, n))
}

package kernel

/*
#include "kernel.h"
*/
import "C"

import (
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
)

// MaxRank is the largest number of dimensions a kernel takes.
const MaxRank = C.MAX_RANK

// View is a strided view of host memory; strides count elements. Data points to the first
// element of the view and must be memory that Go's collector does not own, since C keeps
// it in a struct. The owner of the memory has checked its bounds.
type View struct {
	Data    unsafe.Pointer
	DType   dtype.Type
	Shape   []int64
	Strides []int64
}

// Len is the number of elements.
func (v View) Len() int64 {
	n := int64(1)
	for _, d := range v.Shape {
		n *= d
	}
	return n
}

// Contiguous reports whether the elements lie in row-major order without gaps.
func (v View) Contiguous() bool {
	want := int64(1)
	for i := len(v.Shape) - 1; i >= 0; i-- {
		if v.Shape[i] != 1 && v.Strides[i] != want {
			return false
		}
		want *= v.Shape[i]
	}
	return true
}

// c fills the C form of v.
func (v View) c() C.struct_view {
	out := C.struct_view{data: (*C.char)(v.Data), dtype: C.int32_t(v.DType), rank: C.int32_t(len(v.Shape))}
	for i := range v.Shape {
		out.shape[i], out.stride[i] = C.int64_t(v.Shape[i]), C.int64_t(v.Strides[i])
	}
	return out
}

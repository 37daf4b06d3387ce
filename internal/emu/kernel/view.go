package kernel

import (
	"slices"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
)

// View is a strided view of host memory; strides count elements. Data points to the first element
// of the view. It must not be Go memory, since C keeps the pointer in a struct. Kernels do not
// check bounds: the owner of the memory has to.
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

// Contiguous reports whether the elements are stored in row-major order without gaps.
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

// Narrow returns the view of n elements of a dimension, from first on.
func (v View) Narrow(axis int, first, n int64) View {
	if v.Data != nil { // a view without data has only a shape
		v.Data = unsafe.Add(v.Data, first*v.Strides[axis]*int64(v.DType.Size()))
	}
	v.Shape = slices.Clone(v.Shape)
	v.Shape[axis] = n
	return v
}

// Select returns the view of one element of a dimension, without that dimension.
func (v View) Select(axis int, at int64) View {
	v = v.Narrow(axis, at, 1)
	v.Shape = slices.Delete(v.Shape, axis, axis+1)
	v.Strides = slices.Delete(slices.Clone(v.Strides), axis, axis+1)
	return v
}

// Diagonal returns the vector of the elements whose indices are all equal.
func (v View) Diagonal() View {
	n, stride := v.Shape[0], int64(0)
	for i, d := range v.Shape {
		n = min(n, d)
		stride += v.Strides[i]
	}
	v.Shape, v.Strides = []int64{n}, []int64{stride}
	return v
}

// Part returns the view of n elements of an axis, from start on with stride step.
func (v View) Part(axis int, start, n, step int64) View {
	p := View{Data: v.Data, DType: v.DType, Shape: slices.Clone(v.Shape), Strides: slices.Clone(v.Strides)}
	p.Shape[axis] = n
	p.Strides[axis] *= step
	if v.Len() > 0 {
		p.Data = unsafe.Add(v.Data, start*v.Strides[axis]*int64(v.DType.Size()))
	}
	return p
}

// Leading returns the view of the first n dimensions, at index 0 of the others.
func (v View) Leading(n int) View {
	return View{Data: v.Data, DType: v.DType, Shape: v.Shape[:n], Strides: v.Strides[:n]}
}

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

// Reshaped returns a contiguous view in another shape with the same number of elements.
func (v View) Reshaped(shape ...int64) View {
	v.Shape, v.Strides = shape, ContiguousStrides(shape)
	return v
}

// At returns the view at the given indices of the dimensions that follow the first lead ones.
func (v View) At(lead int, indices []int64) View {
	n := len(indices)
	for i, k := range indices {
		v.Data = unsafe.Add(v.Data, k*v.Strides[lead+i]*int64(v.DType.Size()))
	}
	v.Shape = slices.Delete(slices.Clone(v.Shape), lead, lead+n)
	v.Strides = slices.Delete(slices.Clone(v.Strides), lead, lead+n)
	return v
}

// Transposed exchanges the last two dimensions.
func (v View) Transposed() View {
	n := len(v.Shape)
	v.Shape, v.Strides = slices.Clone(v.Shape), slices.Clone(v.Strides)
	v.Shape[n-2], v.Shape[n-1] = v.Shape[n-1], v.Shape[n-2]
	v.Strides[n-2], v.Strides[n-1] = v.Strides[n-1], v.Strides[n-2]
	return v
}

// Matrix returns the address of the i-th matrix of a batch.
func (v View) Matrix(i int64) unsafe.Pointer {
	at := int64(0)
	for d := len(v.Shape) - 3; d >= 0; d-- {
		at += i % v.Shape[d] * v.Strides[d]
		i /= v.Shape[d]
	}
	return unsafe.Add(v.Data, at*int64(v.DType.Size()))
}

// Reversed returns v with a dimension in reverse order.
func (v View) Reversed(axis int) View {
	n := v.Shape[axis]
	v = v.Narrow(axis, n-1, n)
	v.Strides = slices.Clone(v.Strides)
	v.Strides[axis] *= -1
	return v
}

// Row returns a view without dimensions as a vector of one element.
func (v View) Row() View {
	v.Shape, v.Strides = []int64{1}, []int64{1}
	return v
}

// Doubles returns the memory of a contiguous float64 view as a slice.
func (v View) Doubles() []float64 { return unsafe.Slice((*float64)(v.Data), v.Len()) }

// Bytes returns the memory of a contiguous view of one-byte elements as a slice.
func (v View) Bytes() []byte { return unsafe.Slice((*byte)(v.Data), v.Len()) }

// Floats returns the memory of a contiguous float32 view as a slice.
func (v View) Floats() []float32 { return unsafe.Slice((*float32)(v.Data), v.Len()) }

// Ints returns the memory of a contiguous int64 view as a slice.
func (v View) Ints() []int64 { return unsafe.Slice((*int64)(v.Data), v.Len()) }

// Permuted returns v with its dimensions in the given order.
func (v View) Permuted(order []int) View {
	shape, strides := make([]int64, len(order)), make([]int64, len(order))
	for i, d := range order {
		shape[i], strides[i] = v.Shape[d], v.Strides[d]
	}
	v.Shape, v.Strides = shape, strides
	return v
}

// Line returns a contiguous view as a vector.
func (v View) Line() View {
	v.Shape, v.Strides = []int64{v.Len()}, []int64{1}
	return v
}

// Planes returns a contiguous view as a matrix, with the last n dimensions merged into the
// columns and the others into the rows.
func (v View) Planes(n int) View {
	lead := len(v.Shape) - n
	return v.Reshaped(View{Shape: v.Shape[:lead]}.Len(), View{Shape: v.Shape[lead:]}.Len())
}

// Last returns v with a dimension moved to the end.
func (v View) Last(axis int) View {
	move := func(d []int64) []int64 { return append(slices.Delete(slices.Clone(d), axis, axis+1), d[axis]) }
	v.Shape, v.Strides = move(v.Shape), move(v.Strides)
	return v
}

func (v View) Across() View { return Kept(v, 2, []int{0}) }

// Column returns a vector as a matrix of one column, across as a matrix of one row.
func (v View) Column() View { return Kept(v, 2, []int{1}) }

// RowStep returns the distance between consecutive rows of the last dimension. ok is false
// unless the elements of a row are packed and all rows are equally far apart.
func (v View) RowStep() (step int64, ok bool) {
	n := len(v.Shape) - 1
	shape, strides := Merged(View{Shape: v.Shape[:n], Strides: v.Strides[:n]}, nil, nil)
	return strides[0], len(shape) == 1 && (v.Strides[n] == 1 || v.Shape[n] == 1)
}

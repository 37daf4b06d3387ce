package elementwise

import (
	"slices"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// SetFloats sets the elements of v in row-major order.
func SetFloats(v kernel.View, values []float64) error {
	if len(values) == 0 {
		return nil
	}
	return SetBy(v, func(y []float64) { copy(y, values) })
}

// is reports whether the elements of v lie in row-major order as a slice of T has them.
func is[T float32 | float64](v kernel.View) (d dtype.Type, ok bool) {
	d = dtype.Float64
	if _, short := any(T(0)).(float32); short {
		d = dtype.Float32
	}
	return d, v.DType == d && v.Contiguous()
}

// SetBy sets the elements of v to those that set writes, in row-major order. Their memory is not cleared.
func SetBy[T float32 | float64](v kernel.View, set func(y []T)) error {
	d, ok := is[T](v)
	if ok {
		set(unsafe.Slice((*T)(v.Data), v.Len()))
		return nil
	}
	t, release := kernel.TemporaryOf(d, v.Shape...)
	defer release()
	set(unsafe.Slice((*T)(t.Data), t.Len()))
	return Copy(v, t)
}

// Borrow returns the elements of v in row-major order, which are not to be changed: those in its own memory if they
// are of type T, else copies that release frees.
func Borrow[T float32 | float64](v kernel.View) (x []T, release func(), err error) {
	release = func() {}
	if d, ok := is[T](v); !ok {
		t, free := kernel.TemporaryOf(d, v.Shape...)
		err = Copy(t, v)
		v, release = t, free
	}
	return unsafe.Slice((*T)(v.Data), v.Len()), release, err
}

// Floats reads the elements of a view in row-major order as float32.
func Floats(v kernel.View) ([]float32, error) {
	x, release, err := Borrow[float32](v)
	defer release()
	return slices.Clone(x), err
}

// Doubles reads the elements of a view in row-major order as float64.
func Doubles(v kernel.View) ([]float64, error) {
	x, release, err := Borrow[float64](v)
	defer release()
	return slices.Clone(x), err
}

// Indices reads the elements of an integer view in row-major order.
func Indices(v kernel.View) ([]int64, error) {
	whole, release := kernel.TemporaryOf(dtype.Int64, v.Shape...)
	defer release()
	if err := Copy(whole, v); err != nil {
		return nil, err
	}
	return slices.Clone(whole.Ints()), nil
}

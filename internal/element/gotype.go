package element

import (
	"reflect"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/half"
)

// kinds maps the kinds of Go types to dtypes; it covers defined types as well.
var kinds = map[reflect.Kind]dtype.Type{
	reflect.Bool: dtype.Bool, reflect.Int8: dtype.Int8, reflect.Int16: dtype.Int16, reflect.Int32: dtype.Int32,
	reflect.Int64: dtype.Int64, reflect.Int: dtype.Int64, reflect.Uint8: dtype.Uint8, reflect.Uint16: dtype.Uint16,
	reflect.Uint32: dtype.Uint32, reflect.Uint64: dtype.Uint64, reflect.Float32: dtype.Float32,
	reflect.Float64: dtype.Float64, reflect.Complex64: dtype.Complex64, reflect.Complex128: dtype.Complex128,
}

// Of returns the dtype of values of T: that of the 16-bit float types of package half, else that of
// the underlying type. It returns Undefined for a type that is not numeric.
func Of[T any]() dtype.Type {
	var zero T
	switch any(zero).(type) {
	case half.Float16:
		return dtype.Float16
	case half.BFloat16:
		return dtype.BFloat16
	}
	kind := reflect.TypeFor[T]().Kind()
	dt, known := kinds[kind]
	if !known || dt.Size() != int(unsafe.Sizeof(zero)) { // int on a 32-bit machine
		return dtype.Undefined
	}
	return dt
}

// Bytes returns the memory of a slice whose element type Of supports.
func Bytes[T any](values []T) []byte {
	if len(values) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&values[0])), len(values)*int(unsafe.Sizeof(values[0])))
}

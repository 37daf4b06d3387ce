package kerneltest

import (
	"fmt"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/half"
)

// Set stores x as one element of type d: floating-point types round to nearest even,
// integers wrap, a bool is x != 0, a complex number gets the imaginary part 0.
func Set(d dtype.Type, p unsafe.Pointer, x float64) {
	switch d {
	case dtype.Float32:
		*(*float32)(p) = float32(x)
	case dtype.Float64:
		*(*float64)(p) = x
	case dtype.Float16:
		*(*half.Float16)(p) = half.Float16FromFloat32(float32(x))
	case dtype.BFloat16:
		*(*half.BFloat16)(p) = half.BFloat16FromFloat32(float32(x))
	case dtype.Int8, dtype.Uint8:
		*(*int8)(p) = int8(int64(x))
	case dtype.Int16, dtype.Uint16:
		*(*int16)(p) = int16(int64(x))
	case dtype.Int32, dtype.Uint32:
		*(*int32)(p) = int32(int64(x))
	case dtype.Int64:
		*(*int64)(p) = int64(x)
	case dtype.Uint64:
		if x < 0 { // Go does not define the conversion of a negative number to uint64
			*(*int64)(p) = int64(x)
		} else {
			*(*uint64)(p) = uint64(x)
		}
	case dtype.Bool:
		*(*bool)(p) = x != 0
	case dtype.Complex64:
		*(*complex64)(p) = complex(float32(x), 0)
	case dtype.Complex128:
		*(*complex128)(p) = complex(x, 0)
	default:
		panic(fmt.Sprintf("kerneltest: no element type %v", d))
	}
}

// Get reads one element. It returns the real part of a complex number.
func Get(d dtype.Type, p unsafe.Pointer) float64 {
	switch d {
	case dtype.Float32:
		return float64(*(*float32)(p))
	case dtype.Float64:
		return *(*float64)(p)
	case dtype.Float16:
		return float64((*(*half.Float16)(p)).Float32())
	case dtype.BFloat16:
		return float64((*(*half.BFloat16)(p)).Float32())
	case dtype.Int8:
		return float64(*(*int8)(p))
	case dtype.Uint8:
		return float64(*(*uint8)(p))
	case dtype.Int16:
		return float64(*(*int16)(p))
	case dtype.Uint16:
		return float64(*(*uint16)(p))
	case dtype.Int32:
		return float64(*(*int32)(p))
	case dtype.Uint32:
		return float64(*(*uint32)(p))
	case dtype.Int64:
		return float64(*(*int64)(p))
	case dtype.Uint64:
		return float64(*(*uint64)(p))
	case dtype.Bool:
		// A byte other than 0 and 1 is not a bool: return it unchanged so that tests see it.
		return float64(*(*uint8)(p))
	case dtype.Complex64:
		return float64(real(*(*complex64)(p)))
	case dtype.Complex128:
		return real(*(*complex128)(p))
	}
	panic(fmt.Sprintf("kerneltest: no element type %v", d))
}

// Round returns x converted to type d and back.
func Round(d dtype.Type, x float64) float64 {
	var b [16]byte
	Set(d, unsafe.Pointer(&b), x)
	return Get(d, unsafe.Pointer(&b))
}

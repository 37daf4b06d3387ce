package optest

import (
	"math"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/kernel/minifloat"
	"github.com/goascend/cann/internal/half"
)

// codes returns the values of a type of at most eight bits that package kerneltest does not know, by
// code, or nil.
func codes(d dtype.Type) []float64 {
	switch d {
	case dtype.Int4:
		return int4
	case dtype.Uint1:
		return []float64{0, 1}
	}
	return minifloat.Values(d)
}

var int4 = []float64{0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1}

// put stores v as element i of type d. A type without imaginary parts drops that of v.
func put(d dtype.Type, base unsafe.Pointer, i int64, v complex128) {
	at := unsafe.Add(base, i*int64(d.Size()))
	switch {
	case d == dtype.Complex32:
		parts := (*[2]half.Float16)(at)
		parts[0], parts[1] = half.Float16FromFloat64(real(v)), half.Float16FromFloat64(imag(v))
	case d == dtype.Complex64:
		*(*complex64)(at) = complex64(v)
	case d == dtype.Complex128:
		*(*complex128)(at) = v
	case codes(d) == nil:
		kerneltest.Set(d, at, real(v))
	default:
		bits := d.Bits()
		code := nearest(codes(d), real(v))
		for k := range bits {
			bit := int(i)*bits + k
			p := (*byte)(unsafe.Add(base, bit/8))
			*p = *p&^(1<<(bit%8)) | byte(code>>k&1)<<(bit%8)
		}
	}
}

// get loads element i of type d.
func get(d dtype.Type, base unsafe.Pointer, i int64) complex128 {
	at := unsafe.Add(base, i*int64(d.Size()))
	switch {
	case d == dtype.Complex32:
		parts := (*[2]half.Float16)(at)
		return complex(float64(parts[0].Float32()), float64(parts[1].Float32()))
	case d == dtype.Complex64:
		return complex128(*(*complex64)(at))
	case d == dtype.Complex128:
		return *(*complex128)(at)
	case codes(d) == nil:
		return complex(kerneltest.Get(d, at), 0)
	}
	bits, code := d.Bits(), 0
	for k := range bits {
		bit := int(i)*bits + k
		code |= int(*(*byte)(unsafe.Add(base, bit/8))) >> (bit % 8) & 1 << k
	}
	return complex(codes(d)[code], 0)
}

// nearest returns the code of the value that is nearest to v.
func nearest(values []float64, v float64) int {
	best, distance := 0, math.Inf(1)
	for code, x := range values {
		if d := math.Abs(x - v); d < distance {
			best, distance = code, d
		}
	}
	return best
}

// rounded returns v converted to type d and back.
func rounded(d dtype.Type, v float64) float64 {
	var b [2]complex128
	put(d, unsafe.Pointer(&b), 0, complex(v, 0))
	return real(get(d, unsafe.Pointer(&b), 0))
}

// limits returns the smallest and the largest value of an integer type or bool; ok is false for
// others.
func limits(d dtype.Type) (low, high float64, ok bool) {
	switch d {
	case dtype.Bool, dtype.Uint1:
		return 0, 1, true
	case dtype.Uint8, dtype.Uint16, dtype.Uint32, dtype.Uint64:
		return 0, math.Ldexp(1, d.Bits()) - 1, true
	case dtype.Int4, dtype.Int8, dtype.Int16, dtype.Int32, dtype.Int64:
		return -math.Ldexp(1, d.Bits()-1), math.Ldexp(1, d.Bits()-1) - 1, true
	}
	return 0, 0, false
}

// precision returns the distance of a floating-point type's numbers near one, or 0 for other types.
func precision(d dtype.Type) float64 {
	switch d {
	case dtype.Float64, dtype.Complex128:
		return 0x1p-52
	case dtype.Float32, dtype.Complex64:
		return 0x1p-23
	case dtype.Float16, dtype.Complex32:
		return 0x1p-10
	case dtype.BFloat16:
		return 0x1p-7
	case dtype.Float8E4M3, dtype.HiFloat8, dtype.Float6E2M3:
		return 0x1p-3
	case dtype.Float8E5M2, dtype.Float6E3M2, dtype.Float4E1M2:
		return 0x1p-2
	case dtype.Float4E2M1:
		return 0x1p-1
	case dtype.Float8E8M0:
		return 1
	}
	return 0
}

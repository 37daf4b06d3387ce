package minifloat

import (
	"unsafe"

	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
)

// Read returns the elements of a view in row-major order. Two elements of four bits share a byte, the
// first in the low half; the view must start with a whole byte.
func Read(v kernel.View) ([]float64, error) {
	f := formats[v.DType]
	if f == nil {
		return elementwise.Doubles(v)
	}
	out := make([]float64, 0, v.Len())
	bits := int64(v.DType.Bits())
	each(v.Shape, v.Strides, 0, func(at int64) {
		b := *(*byte)(unsafe.Add(v.Data, at*bits>>3))
		if bits == 4 {
			b = b >> (at & 1 * 4) & 0xf
		}
		out = append(out, f.values[b])
	})
	return out, nil
}

// Write sets the elements of a view, which are as for Read, in row-major order. Types of package kernel
// are rounded to nearest even.
func Write(v kernel.View, x []float64, r Rounding) error {
	f := formats[v.DType]
	if f == nil {
		return elementwise.SetFloats(v, x)
	}
	bits, i := int64(v.DType.Bits()), 0
	each(v.Shape, v.Strides, 0, func(at int64) {
		p, code := (*byte)(unsafe.Add(v.Data, at*bits>>3)), byte(f.code(x[i], r))
		if bits == 4 {
			shift := at & 1 * 4
			code = *p&(0xf0>>shift) | code<<shift
		}
		*p = code
		i++
	})
	return nil
}

// each calls f with the place of each element, in row-major order.
func each(shape, strides []int64, at int64, f func(at int64)) {
	if len(shape) == 0 {
		f(at)
		return
	}
	for i := range shape[0] {
		each(shape[1:], strides[1:], at+i*strides[0], f)
	}
}

package gemm

// #include "int4.h"
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/thread"
)

// UnpackInt4 widens the packed int4 elements at src to the int8 elements of dst. dst must be
// contiguous with an even number of elements.
func UnpackInt4(dst kernel.View, src unsafe.Pointer) error {
	n := dst.Len()
	if dst.DType != dtype.Int8 || !dst.Contiguous() || n%2 != 0 {
		return fmt.Errorf("kernel: int4 unpacked to %v %v strides %v: want contiguous int8, an even number", dst.DType, dst.Shape, dst.Strides)
	}
	thread.Parallel(n/2, 1<<15, func(lo, hi int64) {
		C.int4_unpack((*C.int8_t)(dst.Data), (*C.uint8_t)(src), C.int64_t(lo), C.int64_t(hi))
	})
	return nil
}

// MostInt4 is the highest int4, to which a dynamic quantisation to int4 maps the extreme.
const MostInt4 = 7

// PackInt4 writes the int8 elements of src as packed int4 to dst, the first of each byte in its low half. What is
// outside of -8 to 7 becomes the nearest of them. src must be contiguous with an even number of elements.
func PackInt4(dst unsafe.Pointer, src kernel.View) error {
	n := src.Len()
	if src.DType != dtype.Int8 || !src.Contiguous() || n%2 != 0 {
		return fmt.Errorf("kernel: int4 packed from %v %v strides %v: want contiguous int8, an even number", src.DType, src.Shape, src.Strides)
	}
	values, bytes := unsafe.Slice((*int8)(src.Data), n), unsafe.Slice((*byte)(dst), n/2)
	thread.Parallel(n/2, 1<<15, func(lo, hi int64) {
		for i := lo; i < hi; i++ {
			low, high := min(max(values[2*i], -8), MostInt4), min(max(values[2*i+1], -8), MostInt4)
			bytes[i] = byte(low)&15 | byte(high)<<4
		}
	})
	return nil
}

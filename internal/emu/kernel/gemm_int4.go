package kernel

// #include "gemm_int4.h"
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
)

// UnpackInt4 widens the packed int4 elements at src to the int8 elements of dst. dst must be
// contiguous with an even number of elements.
func UnpackInt4(dst View, src unsafe.Pointer) error {
	n := dst.Len()
	if dst.DType != dtype.Int8 || !dst.Contiguous() || n%2 != 0 {
		return fmt.Errorf("kernel: int4 unpacked to %v %v strides %v: want contiguous int8, an even number", dst.DType, dst.Shape, dst.Strides)
	}
	Parallel(n/2, 1<<15, func(lo, hi int64) {
		C.int4_unpack((*C.int8_t)(dst.Data), (*C.uint8_t)(src), C.int64_t(lo), C.int64_t(hi))
	})
	return nil
}

package compare

/*
#cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra
#cgo LDFLAGS: -ldl
#include "library.h"
*/
import "C"

import (
	"unsafe"

	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/thread"
)

// Library is another implementation of matrix products.
type Library int

// The libraries.
const (
	OneDNN   Library = C.LIBRARY_ONEDNN
	OpenBLAS Library = C.LIBRARY_OPENBLAS
)

// Load loads the library and sets its number of threads. It reports whether the library is there.
func (l Library) Load(threads int) bool {
	return C.library_load(C.int(l), C.int(threads)) != 0
}

// Multiply sets out [m,n] of float32 to a·b, of contiguous a [m,k] of float32 or bfloat16 and b
// [k,n] of the same type, contiguous or transposed. It reports whether the library can.
func (l Library) Multiply(out, a, b kernel.View, bf16 bool) bool {
	m, k, n := a.Shape[0], a.Shape[1], b.Shape[1]
	is := map[bool]C.int{true: 1}
	return C.library_multiply(C.int(l), is[bf16], is[b.Strides[1] != 1], C.int64_t(m), C.int64_t(n), C.int64_t(k), a.Data, b.Data, (*C.float)(out.Data)) != 0
}

// Read reads n bytes at data, aligned to 64 bytes, with all threads of the kernels and does nothing
// else: no product that reads as much can be faster than this, up to the noise of the machine.
func Read(data unsafe.Pointer, n int64) {
	const block = 1 << 16
	thread.Parallel(n/block, 1, func(lo, hi int64) {
		C.library_read(unsafe.Add(data, lo*block), C.int64_t((hi-lo)*block))
	})
}

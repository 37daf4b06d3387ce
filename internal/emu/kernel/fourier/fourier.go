package fourier

/*
#cgo noescape fourier_rows
#cgo nocallback fourier_rows
#include "fourier.h"
*/
import "C"

import (
	"math"
	"math/cmplx"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/thread"
)

// RealFourier transforms the rows of in […, length], cut or filled up with zeros to n numbers, a power of two of at
// least 2. out […, n/2+1, 2] has the parts of the non-negative frequencies of scale times the numbers. Both are
// float32; sums are in double precision.
func RealFourier(out, in kernel.View, n int64, scale float64) error {
	x, release, err := elementwise.Borrow[float32](in)
	defer release()
	if err != nil || len(x) == 0 {
		return err
	}
	length := in.Shape[len(in.Shape)-1]
	roots, angles := make([]complex128, n/4+1), make([]complex128, n/2+1)
	for k := range angles {
		angles[k] = cmplx.Rect(1, -2*math.Pi*float64(k)/float64(n)-math.Pi/2)
	}
	for k := range roots {
		roots[k] = angles[2*k] * 1i
	}
	return elementwise.SetBy(out, func(y []float32) {
		f := C.struct_fourier{in: (*C.float)(&x[0]), out: (*C.float)(&y[0]), n: C.int64_t(n), length: C.int64_t(length), scale: C.double(scale)}
		thread.Parallel(int64(len(x))/length, max(thread.Grain/n, 8), func(lo, hi int64) {
			work, release := kernel.TemporaryOf(dtype.Float64, (n+1)*C.FOURIER_ROOM)
			defer release()
			C.fourier_rows(&f, (*C.double)(unsafe.Pointer(&roots[0])), (*C.double)(unsafe.Pointer(&angles[0])), C.int64_t(lo), C.int64_t(hi), (*C.double)(work.Data))
		})
	})
}

package compare_test

import (
	"testing"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// newView makes a contiguous or transposed view like kerneltest.New, but at the start of a page, as the emulator's
// device memory is. At other addresses vectors cross cache lines, which slows small products down by a tenth.
func newView(t testing.TB, d dtype.Type, l kerneltest.Layout, shape []int64, values []float64) kernel.View {
	const page = 4096
	v := kerneltest.New(t, d, l, shape, nil)
	room := kerneltest.New(t, dtype.Uint8, kerneltest.Contiguous, []int64{v.Len()*int64(d.Size()) + page}, nil)
	v.Data = unsafe.Add(room.Data, -uintptr(room.Data)&(page-1))
	if len(values) > 0 {
		i := 0
		kerneltest.Each(v, func(p unsafe.Pointer) {
			kerneltest.Set(d, p, values[i%len(values)])
			i++
		})
	}
	return v
}

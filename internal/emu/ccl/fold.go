package ccl

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// fold combines the elements of the ranks, piece by piece, in rank order. Half-precision
// elements of more than two ranks are combined in float32 and rounded once.
type fold struct {
	op    kernel.Op
	dtype dtype.Type
	ranks int
	keep  []byte // 2*piece bytes outside Go's heap, for what is combined so far
	at    int
	sum   kernel.View
}

// add takes the next rank's piece, which stays unchanged until the one after it was added;
// with the last rank's, dst holds the result.
func (f *fold) add(dst, b []byte) error {
	n := int64(len(b) / f.dtype.Size())
	x := view(b, f.dtype, n)
	f.at++
	first, last := f.at == 1, f.at == f.ranks
	if last {
		f.at = 0
	}
	switch {
	case first && last:
		copy(dst, b)
		return nil
	case first:
		f.sum = x
		return nil
	}
	out := view(dst, f.dtype, n)
	if !last {
		between := f.dtype
		if between == dtype.Float16 || between == dtype.BFloat16 {
			between = dtype.Float32
		}
		out = view(f.keep, between, n)
	}
	err := kernel.Map(f.op, f.dtype, out, []kernel.Input{kernel.Of(f.sum), kernel.Of(x)}, kernel.Whole(1))
	f.sum = out
	return err
}

func view(b []byte, d dtype.Type, n int64) kernel.View {
	return kernel.View{Data: unsafe.Pointer(unsafe.SliceData(b)), DType: d, Shape: []int64{n}, Strides: []int64{1}}
}

// scratch is memory outside Go's heap, which kernels require; release gives it back.
func scratch(n int) ([]byte, error) {
	return unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
}

func release(b []byte) {
	if b != nil {
		_ = unix.Munmap(b) // the range is our own
	}
}

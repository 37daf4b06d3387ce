package ccl

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
)

// fold reduces the elements of the ranks, piece by piece, in rank order. Half-precision
// elements of more than two ranks are reduced in float32 and rounded once.
type fold struct {
	of    reduction
	pair  elementwise.Pair
	dtype dtype.Type
	ranks int
	keep  []byte // 2*piece bytes outside Go's heap, for the intermediate result
	at    int
	sum   elementwise.Row
}

// reduction is the element type and the operator of a fold.
type reduction struct{ dtype, op int32 }

func newFold(of reduction, ranks int, keep []byte) (fold, error) {
	d := elements[of.dtype].dtype
	pair, err := elementwise.NewPair(opKernels[of.op], d)
	return fold{of: of, pair: pair, dtype: d, ranks: ranks, keep: keep}, err
}

// add adds the next rank's piece, which must not change until the following piece was added.
// After the last rank's piece dst holds the result.
func (f *fold) add(dst, b []byte) {
	x := row(b, f.dtype)
	f.at++
	first, last := f.at == 1, f.at == f.ranks
	if last {
		f.at = 0
	}
	switch {
	case first && last:
		copy(dst, b)
		return
	case first:
		f.sum = x
		return
	}
	out := row(dst, f.dtype)
	if !last {
		between := f.dtype
		if between == dtype.Float16 || between == dtype.BFloat16 {
			between = dtype.Float32
		}
		out = row(f.keep, between)
	}
	f.pair.Run(out, f.sum, x, int64(len(b)/f.dtype.Size()))
	f.sum = out
}

func row(b []byte, d dtype.Type) elementwise.Row {
	return elementwise.Row{Data: unsafe.Pointer(unsafe.SliceData(b)), DType: d}
}

// scratch allocates n bytes outside Go's heap, as kernels require. The caller frees them with
// release.
func scratch(n int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err == nil && n >= hugePage {
		_ = unix.Madvise(b, unix.MADV_HUGEPAGE) // only advice: saves page faults
	}
	return b, err
}

const hugePage = 2 << 20

func release(b []byte) {
	if b != nil {
		_ = unix.Munmap(b) // cannot fail: the range is our own
	}
}

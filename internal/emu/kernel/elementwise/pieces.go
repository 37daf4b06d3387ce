package elementwise

import (
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/thread"
)

// PieceLen is the number of elements of a piece. A few temporaries of so many numbers stay in the cache of
// a core, where a sequence of maps is several times as fast as in memory.
const PieceLen = 1 << 14

// Pieces divides tensors along leading dimensions that they have in common. The division depends on the
// shapes only.
type Pieces struct {
	shape []int64 // of the dimensions
	axis  int     // the last dimension that is divided; a piece has one index of those before it
	Each  int64   // indices of axis in a piece
	count int64
}

// NewPieces divides the first dims dimensions of shape. There is one piece if an output overlaps another
// tensor, since pieces are computed at the same time.
func NewPieces(shape []int64, dims int, outs []kernel.View, ins ...kernel.View) *Pieces {
	p := &Pieces{shape: shape[:dims], count: 1}
	if dims == 0 || (kernel.View{Shape: shape}).Len() <= PieceLen {
		return p
	}
	for i, out := range outs {
		for k, other := range slices.Concat(outs, ins) {
			if k != i && out.Data != nil && other.Data != nil && kernel.Overlaps(out, other) {
				return p
			}
		}
	}
	inner := (kernel.View{Shape: shape}).Len()
	for p.axis = 0; ; p.axis++ {
		if inner /= shape[p.axis]; inner <= PieceLen || p.axis == dims-1 {
			break
		}
	}
	p.Each = max(PieceLen/inner, 1)
	p.count = (kernel.View{Shape: shape[:p.axis]}).Len() * p.along()
	return p
}

// along returns the number of pieces along axis.
func (p *Pieces) along() int64 { return (p.shape[p.axis] + p.Each - 1) / p.Each }

// Run calls f for each piece, on all threads, and returns one of its errors.
func (p *Pieces) Run(f func(k int64, of func(kernel.View) kernel.View) error) error {
	if p.count == 1 {
		return f(0, func(v kernel.View) kernel.View { return v })
	}
	var failed atomic.Pointer[error]
	thread.Parallel(p.count, 1, func(lo, hi int64) {
		for k := lo; k < hi && failed.Load() == nil; k++ {
			if err := f(k, func(v kernel.View) kernel.View { return p.of(k, v) }); err != nil {
				failed.Store(&err)
			}
		}
	})
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// of returns the k-th piece of a view, which has the dimensions first, or 1 in their place. A view without
// data stays as it is.
func (p *Pieces) of(k int64, v kernel.View) kernel.View {
	if v.Data == nil {
		return v
	}
	shape := append([]int64(nil), v.Shape...)
	at, n := k%p.along()*p.Each, p.Each
	k /= p.along()
	for i := p.axis; i >= 0; i-- {
		if v.Shape[i] != 1 {
			v.Data = unsafe.Add(v.Data, at*v.Strides[i]*int64(v.DType.Size()))
			shape[i] = min(n, v.Shape[i]-at)
		}
		if i > 0 {
			at, n = k%p.shape[i-1], 1
			k /= p.shape[i-1]
		}
	}
	v.Shape = shape
	return v
}

package elementwise

// #include "op.h"
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// Pair is a Map of two inputs over contiguous elements, prepared once for many calls, such as
// the pieces of a reduction. Run does not allocate and runs on the calling thread.
type Pair struct{ op, class C.int32_t }

// NewPair prepares op in the arithmetic class of compute. It fails if the class does not have
// the operator.
func NewPair(op Op, compute dtype.Type) (Pair, error) {
	class, ok := kernel.Classes[compute]
	if !ok || C.map_defined(C.int32_t(op), C.int32_t(class)) == 0 {
		return Pair{}, fmt.Errorf("kernel: operator %d is not defined for %v", op, compute)
	}
	return Pair{C.int32_t(op), C.int32_t(class)}, nil
}

// Row points to contiguous elements outside Go's heap, of a type that kernels compute with.
type Row struct {
	Data  unsafe.Pointer
	DType dtype.Type
}

// Run sets n elements of out to op of those of x and y. out may be x or y, but must not overlap
// them otherwise.
func (p Pair) Run(out, x, y Row, n int64) {
	// Pass addresses as integers: cgo's pointer checks would take longer than a small sum.
	C.pair_run(p.op, p.class, C.uintptr_t(uintptr(out.Data)), C.int32_t(out.DType),
		C.uintptr_t(uintptr(x.Data)), C.int32_t(x.DType), C.uintptr_t(uintptr(y.Data)), C.int32_t(y.DType), C.int64_t(n))
}

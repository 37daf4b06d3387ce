package kernel

// #include "op.h"
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
)

// Pair is Map of two inputs over contiguous elements, prepared once for many calls: what a
// reduction does to every piece. It allocates nothing and stays on the calling thread.
type Pair struct{ m C.struct_map }

// NewPair prepares op in the arithmetic class of compute. It fails for operators that the
// class does not have.
func NewPair(op Op, compute dtype.Type) (*Pair, error) {
	class, ok := classes[compute]
	if !ok || C.map_defined(C.int32_t(op), class) == 0 {
		return nil, fmt.Errorf("kernel: operator %d is not defined for %v", op, compute)
	}
	p := &Pair{C.struct_map{op: C.int32_t(op), class: class, inputs: 2}}
	p.m.f[0], p.m.i[0] = 1, 1 // Add and Sub scale y
	p.m.space.rank = 1
	p.m.out.stride[0], p.m.in[0].stride[0], p.m.in[1].stride[0] = 1, 1, 1
	return p, nil
}

// Row is contiguous elements of a type that kernels compute with, outside Go's heap.
type Row struct {
	Data  unsafe.Pointer
	DType dtype.Type
}

// Run sets n elements of out to op of those of x and y. out may be x or y, but not overlap
// them otherwise.
func (p *Pair) Run(out, x, y Row, n int64) {
	m := &p.m
	m.space.shape[0] = C.int64_t(n)
	m.out.data, m.out.dtype = (*C.char)(out.Data), C.int32_t(out.DType)
	m.in[0].data, m.in[0].dtype = (*C.char)(x.Data), C.int32_t(x.DType)
	m.in[1].data, m.in[1].dtype = (*C.char)(y.Data), C.int32_t(y.DType)
	C.map_run(m, 0, C.int64_t(n))
}

package nn

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/ops/matmul"
	"github.com/goascend/cann/internal/emu/rt"
)

// aclnnTransSparse4to2Para works on host memory. The caller releases the returned arrays, with
// delete[] in C++.
func (l *Library) aclnnTransSparse4to2Para(weight *int8, shape rt.Handle, sparseWeight, sparseWeightDims *rt.Address, sparseWeightDimsNum *uint64, index, indexDims *rt.Address, indexDimsNum *uint64) error {
	refuse := func(code int32, format string, args ...any) error {
		return &op.Error{Code: code, Text: "aclnnTransSparse4to2Para: " + fmt.Sprintf(format, args...)}
	}
	if weight == nil || shape == 0 || slices.Contains([]*rt.Address{sparseWeight, sparseWeightDims, index, indexDims}, nil) || sparseWeightDimsNum == nil || indexDimsNum == nil {
		return refuse(op.NullPointer, "weight, shape or an output is null")
	}
	sizes, ok := rt.Lookup[*intArray](&l.rt.Handles, shape)
	if !ok {
		return stale("aclIntArray", shape)
	}
	if len(sizes.values) != 2 || slices.Min(sizes.values) <= 0 {
		return refuse(op.InvalidParam, "shape %s must be [n,k], not empty", op.Dims(sizes.values))
	}
	n, k := sizes.values[0], sizes.values[1]
	w, err := matmul.Sparsify(copied(weight, uint64(n*k)), n, k)
	if err != nil {
		return refuse(op.InvalidParam, "%v", err)
	}
	*sparseWeight, *sparseWeightDims, *sparseWeightDimsNum = inC(w.Kept), inC(w.KeptShape), uint64(len(w.KeptShape))
	*index, *indexDims, *indexDimsNum = inC(w.Index), inC(w.IndexShape), uint64(len(w.IndexShape))
	return nil
}

// inC returns a copy in C memory, which the caller of the C function frees.
func inC[T any](v []T) rt.Address {
	p := rt.Malloc(len(v) * int(unsafe.Sizeof(*new(T))))
	copy(unsafe.Slice((*T)(p), len(v)), v)
	return rt.Address(uintptr(p))
}

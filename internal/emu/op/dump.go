package op

import (
	"unsafe"

	"github.com/goascend/cann/internal/emu/rt"
)

// Dump describes the tensor for a dump. A tensor in a private format is described by its storage
// shape.
func (t *Tensor) Dump(output bool) rt.DumpTensor {
	d := rt.DumpTensor{Name: t.Name, Output: output, DType: t.DType, Format: t.Format, Shape: t.Shape, Strides: t.Strides, First: t.Data}
	if IsPrivate(t.Format) && len(t.Storage) > 0 && t.Data != nil {
		d.First = unsafe.Add(t.Data, -t.Offset*int64(t.DType.Bits())/8)
		d.Shape, d.Strides = t.Storage, ContiguousStrides(t.Storage)
	}
	return d
}

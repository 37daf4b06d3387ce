package nn

import (
	"unsafe"

	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/rt/dump"
)

// dumped describes a tensor for a dump. A tensor in a private format is described by its storage
// shape.
func dumped(t *op.Tensor, output bool) dump.Tensor {
	d := dump.Tensor{Name: t.Name, Output: output, DType: t.DType, Format: t.Format, Shape: t.Shape, Strides: t.Strides, First: t.Data}
	if op.IsPrivate(t.Format) && len(t.Storage) > 0 && t.Data != nil {
		d.First = unsafe.Add(t.Data, -t.Offset*int64(t.DType.Bits())/8)
		d.Shape, d.Strides = t.Storage, op.ContiguousStrides(t.Storage)
	}
	return d
}

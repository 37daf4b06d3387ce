package op

import (
	"slices"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// PartTypes maps the complex element types to the types of their real and imaginary parts.
var PartTypes = map[dtype.Type]dtype.Type{dtype.Complex32: dtype.Float16, dtype.Complex64: dtype.Float32, dtype.Complex128: dtype.Float64}

// Parts returns views of the real and the imaginary parts of a complex tensor. It is valid inside
// Run only.
func (t *Tensor) Parts() (re, im kernel.View) {
	strides := slices.Clone(t.Strides)
	for i := range strides {
		strides[i] *= 2
	}
	re = kernel.View{Data: t.Data, DType: PartTypes[t.DType], Shape: t.Shape, Strides: strides}
	im = re
	if t.Data != nil {
		im.Data = unsafe.Add(t.Data, re.DType.Size())
	}
	return re, im
}

package op

import (
	"slices"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
)

// PartTypes maps the complex element types to the types of their real and imaginary parts.
var PartTypes = map[dtype.Type]dtype.Type{dtype.Complex32: dtype.Float16, dtype.Complex64: dtype.Float32, dtype.Complex128: dtype.Float64}

// Parts returns views of the real and the imaginary parts of a complex tensor. It is valid inside
// Run only.
func (t *Tensor) Parts() (re, im kernel.View) { return PartsOf(t.View()) }

// PartsOf returns views of the real and the imaginary parts of a complex view.
func PartsOf(v kernel.View) (re, im kernel.View) {
	strides := slices.Clone(v.Strides)
	for i := range strides {
		strides[i] *= 2
	}
	re = kernel.View{Data: v.Data, DType: PartTypes[v.DType], Shape: v.Shape, Strides: strides}
	im = re
	if v.Data != nil {
		im.Data = unsafe.Add(v.Data, re.DType.Size())
	}
	return re, im
}

// Numbers returns the elements, broadcast to a shape, in row-major order. It is valid inside Run only.
func (t *Tensor) Numbers(shape []int64) ([]complex128, error) {
	values := make([]complex128, Count(shape))
	if len(values) == 0 {
		return values, nil
	}
	re, im := t.View(), kernel.View{}
	if t.DType.IsComplex() {
		re, im = t.Parts()
	}
	part, release := kernel.TemporaryOf(dtype.Float64, shape...)
	defer release()
	reals := unsafe.Slice((*float64)(part.Data), len(values))
	if err := elementwise.Map(elementwise.Identity, dtype.Float64, part, []elementwise.Input{elementwise.Of(re)}); err != nil {
		return nil, err
	}
	for i, v := range reals {
		values[i] = complex(v, 0)
	}
	if im.Data == nil {
		return values, nil
	}
	err := elementwise.Map(elementwise.Identity, dtype.Float64, part, []elementwise.Input{elementwise.Of(im)})
	for i, v := range reals {
		values[i] += complex(0, v)
	}
	return values, err
}

// SetNumbers sets the elements in row-major order, of bool tensors to whether a number is not 0, and of other
// tensors that are not complex to the real parts. It overwrites values, and is valid inside Run only.
func (t *Tensor) SetNumbers(values []complex128) error {
	if len(values) == 0 {
		return nil
	}
	re, im := t.View(), kernel.View{}
	if t.DType.IsComplex() {
		re, im = t.Parts()
	}
	if t.DType == dtype.Bool {
		for i, x := range values {
			values[i] = 0
			if x != 0 {
				values[i] = 1
			}
		}
	}
	return SetParts(re, im, values)
}

// SetParts writes the real parts of numbers to re and the imaginary parts to im, which may have no data.
func SetParts(re, im kernel.View, values []complex128) error {
	err := elementwise.SetBy(re, func(y []float64) {
		for i, x := range values {
			y[i] = real(x)
		}
	})
	if err != nil || im.Data == nil {
		return err
	}
	return elementwise.SetBy(im, func(y []float64) {
		for i, x := range values {
			y[i] = imag(x)
		}
	})
}

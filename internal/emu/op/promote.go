package op

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
)

// Category ranks the kinds of element types: bool, integer, float, complex. The result of an
// operation has the highest category of its operands.
func Category(d dtype.Type) int {
	switch {
	case d == dtype.Bool:
		return 0
	case d.IsInteger():
		return 1
	case d.IsFloat():
		return 2
	}
	return 3
}

// Promote returns the element type that holds the values of both a and b. A signed and an unsigned
// integer promote to the next wider signed type (float32 for uint64), two different 16-bit floats
// to float32, and complex with real to the complex type of the wider part.
func Promote(a, b dtype.Type) dtype.Type {
	if Category(a) < Category(b) {
		a, b = b, a
	}
	ca, cb := Category(a), Category(b)
	switch {
	case a == b || ca > cb && ca < 3:
		return a
	case ca == 3:
		if part(b) > part(a) {
			return complexOf[part(b)]
		}
		return a
	case ca == 2:
		if a.Bits() == b.Bits() {
			return dtype.Float32
		}
	case Unsigned(a) != Unsigned(b):
		if Unsigned(a) {
			a, b = b, a
		}
		if a.Bits() > b.Bits() {
			return a
		}
		return wider[b.Bits()]
	}
	if a.Bits() >= b.Bits() {
		return a
	}
	return b
}

var (
	complexOf = map[int]dtype.Type{16: dtype.Complex32, 32: dtype.Complex64, 64: dtype.Complex128}
	// wider maps the width of an unsigned type to the next wider signed type. There is none for 64
	// bits, which promote to float32.
	wider = map[int]dtype.Type{8: dtype.Int16, 16: dtype.Int32, 32: dtype.Int64, 64: dtype.Float32}
)

// part returns the bits of one part of a complex type, or the bits that a real type needs in a
// complex result: 0 for integers.
func part(d dtype.Type) int {
	switch {
	case d.IsComplex():
		return d.Bits() / 2
	case d == dtype.Float64:
		return 64
	case d == dtype.Float16:
		return 16
	case d.IsFloat():
		return 32
	}
	return 0
}

// Unsigned reports whether d is an unsigned integer type.
func Unsigned(d dtype.Type) bool {
	return slices.Contains([]dtype.Type{dtype.Uint8, dtype.Uint16, dtype.Uint32, dtype.Uint64}, d)
}

// PromoteScalar returns the result type of a tensor of type d combined with a scalar: the tensor's
// type, unless the scalar has a higher category.
func PromoteScalar(d, scalar dtype.Type) dtype.Type {
	if Category(scalar) <= Category(d) {
		return d
	}
	switch Category(scalar) {
	case 1:
		return dtype.Int64
	case 2:
		return dtype.Float32
	}
	if part(d) == 64 {
		return dtype.Complex128
	}
	return dtype.Complex64
}

// Castable reports whether CANN allows storing a result of type from as type to. The category of to
// must not be lower.
func Castable(from, to dtype.Type) bool { return Category(from) <= Category(to) }

package nn

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
)

// category orders the kinds of element types: a result has the highest of its operands.
func category(d dtype.Type) int {
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

// promote is the element type that holds values of both a and b. Signed and unsigned
// integers meet in the next wider signed type (float32 for uint64), different 16-bit floats in float32, complex
// and real in the complex type of the wider part.
func promote(a, b dtype.Type) dtype.Type {
	if category(a) < category(b) {
		a, b = b, a
	}
	ca, cb := category(a), category(b)
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
	case unsigned(a) != unsigned(b):
		if unsigned(a) {
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
	// wider holds the signed type above an unsigned one; uint64 has none.
	wider = map[int]dtype.Type{8: dtype.Int16, 16: dtype.Int32, 32: dtype.Int64, 64: dtype.Float32}
)

// part is the width of one part of a complex type, or of the float a real type promotes to.
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

func unsigned(d dtype.Type) bool {
	return slices.Contains([]dtype.Type{dtype.Uint8, dtype.Uint16, dtype.Uint32, dtype.Uint64}, d)
}

// promoteScalar is the type of a tensor of type d combined with a scalar: the tensor's,
// unless the scalar is of a higher category.
func promoteScalar(d, scalar dtype.Type) dtype.Type {
	if category(scalar) <= category(d) {
		return d
	}
	switch category(scalar) {
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

// castable reports whether CANN lets a result of type from be stored as to: to no lower
// category.
func castable(from, to dtype.Type) bool { return category(from) <= category(to) }

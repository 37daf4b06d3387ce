package op

import "github.com/goascend/cann/internal/dtype"

// Element types that many operators take.
var (
	// FloatTypes are the floating-point types of the cube unit and of most transformer operators.
	FloatTypes = []dtype.Type{dtype.Float32, dtype.Float16, dtype.BFloat16}
	// HalfTypes are the 16-bit floating-point types.
	HalfTypes = []dtype.Type{dtype.Float16, dtype.BFloat16}
	// RealTypes are the floating-point types of the vector unit.
	RealTypes = []dtype.Type{dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Float64}
	// IndexTypes are the element types of indices.
	IndexTypes = []dtype.Type{dtype.Int64, dtype.Int32}
)

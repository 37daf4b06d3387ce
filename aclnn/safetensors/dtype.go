package safetensors

import (
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/safetensors"
)

// DType is an element type: the same Go type as aclnn.DType. It has the methods String, Size
// (bytes of an element), Bits, Bytes, IsFloat, IsInteger and IsComplex.
type DType = dtype.Type

// The element types that the format shares with CANN.
const (
	Bool       = dtype.Bool
	Uint8      = dtype.Uint8
	Uint16     = dtype.Uint16
	Uint32     = dtype.Uint32
	Uint64     = dtype.Uint64
	Int8       = dtype.Int8
	Int16      = dtype.Int16
	Int32      = dtype.Int32
	Int64      = dtype.Int64
	Float8E5M2 = dtype.Float8E5M2
	Float8E4M3 = dtype.Float8E4M3
	Float8E8M0 = dtype.Float8E8M0
	Float16    = dtype.Float16
	BFloat16   = dtype.BFloat16
	Float32    = dtype.Float32
	Float64    = dtype.Float64
	Complex64  = dtype.Complex64
)

// Has reports whether the format has an element type.
func Has(t DType) bool { return safetensors.Has(t) }

// Element is a Go type whose values have an element type of the format, the underlying type's:
// bool, the integers, float32, float64, complex64; half.Float16 and half.BFloat16 have those of
// 16 bits.
type Element = safetensors.Element

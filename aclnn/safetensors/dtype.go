package safetensors

import "github.com/goascend/cann/internal/dtype"

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

// formatNames are their names in the format. Types that put several elements into a byte are
// left out.
var formatNames = map[DType]string{
	Bool: "BOOL", Uint8: "U8", Int8: "I8", Float8E5M2: "F8_E5M2", Float8E4M3: "F8_E4M3", Float8E8M0: "F8_E8M0",
	Int16: "I16", Uint16: "U16", Float16: "F16", BFloat16: "BF16", Int32: "I32", Uint32: "U32", Float32: "F32",
	Int64: "I64", Uint64: "U64", Float64: "F64", Complex64: "C64",
}

var typesByName = func() map[string]DType {
	m := make(map[string]DType, len(formatNames))
	for t, name := range formatNames {
		m[name] = t
	}
	return m
}()

// Has reports whether the format has an element type.
func Has(t DType) bool {
	_, ok := formatNames[t]
	return ok
}

// Element is a Go type whose values have an element type of the format, the underlying type's;
// half.Float16 and half.BFloat16 have those of 16 bits.
type Element interface {
	~bool | ~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64 |
		~float32 | ~float64 | ~complex64
}

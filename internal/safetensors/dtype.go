package safetensors

import "github.com/goascend/cann/internal/dtype"

// formatNames are their names in the format. Types that put several elements into a byte are
// left out.
var formatNames = map[dtype.Type]string{
	dtype.Bool: "BOOL", dtype.Uint8: "U8", dtype.Int8: "I8", dtype.Float8E5M2: "F8_E5M2", dtype.Float8E4M3: "F8_E4M3", dtype.Float8E8M0: "F8_E8M0",
	dtype.Int16: "I16", dtype.Uint16: "U16", dtype.Float16: "F16", dtype.BFloat16: "BF16", dtype.Int32: "I32", dtype.Uint32: "U32", dtype.Float32: "F32",
	dtype.Int64: "I64", dtype.Uint64: "U64", dtype.Float64: "F64", dtype.Complex64: "C64",
}

var typesByName = func() map[string]dtype.Type {
	m := make(map[string]dtype.Type, len(formatNames))
	for t, name := range formatNames {
		m[name] = t
	}
	return m
}()

// Has reports whether the format has an element type.
func Has(t dtype.Type) bool {
	_, ok := formatNames[t]
	return ok
}

// Element is a Go type whose values have an element type of the format, the underlying type's;
// half.Float16 and half.BFloat16 have those of 16 bits.
type Element interface {
	~bool | ~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64 |
		~float32 | ~float64 | ~complex64
}

package dtype

import (
	"fmt"
	"math"
)

// Type is an element type; its value is the C enum aclDataType.
type Type int32

// Element types, with the values of aclDataType.
const (
	Undefined  Type = -1
	Float32    Type = 0
	Float16    Type = 1
	Int8       Type = 2
	Int32      Type = 3
	Uint8      Type = 4
	Int16      Type = 6
	Uint16     Type = 7
	Uint32     Type = 8
	Int64      Type = 9
	Uint64     Type = 10
	Float64    Type = 11
	Bool       Type = 12
	String     Type = 13
	Complex64  Type = 16
	Complex128 Type = 17
	BFloat16   Type = 27
	Int4       Type = 29
	Uint1      Type = 30
	Complex32  Type = 33
	HiFloat8   Type = 34
	Float8E5M2 Type = 35
	Float8E4M3 Type = 36
	Float8E8M0 Type = 37
	Float6E3M2 Type = 38
	Float6E2M3 Type = 39
	Float4E2M1 Type = 40
	Float4E1M2 Type = 41
)

var names = map[Type]string{
	Undefined: "undefined", Float32: "float32", Float16: "float16", Int8: "int8", Int32: "int32",
	Uint8: "uint8", Int16: "int16", Uint16: "uint16", Uint32: "uint32", Int64: "int64",
	Uint64: "uint64", Float64: "float64", Bool: "bool", String: "string", Complex64: "complex64",
	Complex128: "complex128", BFloat16: "bfloat16", Int4: "int4", Uint1: "uint1", Complex32: "complex32",
	HiFloat8: "hifloat8", Float8E5M2: "float8_e5m2", Float8E4M3: "float8_e4m3fn", Float8E8M0: "float8_e8m0",
	Float6E3M2: "float6_e3m2", Float6E2M3: "float6_e2m3", Float4E2M1: "float4_e2m1", Float4E1M2: "float4_e1m2",
}

// String returns the name used in messages, such as "bfloat16".
func (t Type) String() string {
	if s, ok := names[t]; ok {
		return s
	}
	return fmt.Sprintf("dtype(%d)", int32(t))
}

// Valid reports whether t is a type of CANN other than Undefined.
func (t Type) Valid() bool {
	_, ok := names[t]
	return ok && t != Undefined
}

// Bits returns the size of one element in bits, or 0 for Undefined and String.
func (t Type) Bits() int {
	switch t {
	case Uint1:
		return 1
	case Int4, Float4E2M1, Float4E1M2:
		return 4
	case Float6E3M2, Float6E2M3:
		return 6
	case Int8, Uint8, Bool, HiFloat8, Float8E5M2, Float8E4M3, Float8E8M0:
		return 8
	case Float16, BFloat16, Int16, Uint16:
		return 16
	case Float32, Int32, Uint32, Complex32:
		return 32
	case Int64, Uint64, Float64, Complex64:
		return 64
	case Complex128:
		return 128
	}
	return 0
}

// Size returns the size of one element in bytes, or 0 for types smaller than a byte.
func (t Type) Size() int {
	if b := t.Bits(); b%8 == 0 {
		return b / 8
	}
	return 0
}

// Bytes returns the size in bytes of n consecutive elements, rounded up.
func (t Type) Bytes(n int) int { return (n*t.Bits() + 7) / 8 }

// IsFloat reports whether t is a floating-point type (complex excluded).
func (t Type) IsFloat() bool {
	switch t {
	case Float32, Float16, BFloat16, Float64, HiFloat8, Float8E5M2, Float8E4M3, Float8E8M0,
		Float6E3M2, Float6E2M3, Float4E2M1, Float4E1M2:
		return true
	}
	return false
}

// IsInteger reports whether t is an integer type; Bool is not one.
func (t Type) IsInteger() bool {
	switch t {
	case Int8, Int16, Int32, Int64, Uint8, Uint16, Uint32, Uint64, Int4, Uint1:
		return true
	}
	return false
}

// IsComplex reports whether t is a complex type.
func (t Type) IsComplex() bool { return t == Complex32 || t == Complex64 || t == Complex128 }

// Range returns the least and the largest finite number of an integer type, of Float16, BFloat16, Float32 or Float64, as the nearest float64; it
// returns infinities for other types.
func (t Type) Range() (least, most float64) {
	switch most = math.Inf(1); t {
	case Uint1, Uint8, Uint16, Uint32, Uint64:
		return 0, math.Ldexp(1, t.Bits()) - 1
	case Int4, Int8, Int16, Int32, Int64:
		half := math.Ldexp(1, t.Bits()-1)
		return -half, half - 1
	case Float16:
		most = 65504
	case BFloat16:
		most = 0x1.fep127
	case Float32:
		most = math.MaxFloat32
	case Float64:
		most = math.MaxFloat64
	}
	return -most, most
}

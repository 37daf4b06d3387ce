package abi

import (
	"fmt"
	"strings"
)

// Class is the way in which a value of a C type is passed. It decides the Go form in a binding and
// the kind of register.
type Class uint8

// Classes of parameters. The first seven are aclnn objects.
const (
	Tensor Class = iota + 1
	TensorList
	Scalar
	ScalarList
	IntArray
	FloatArray
	BoolArray
	String // char *, NUL-terminated, read only
	Int    // signed integers
	Uint   // unsigned integers
	Enum   // a C enum: int
	DType  // the enum aclDataType
	Bool
	Double
	Float
	Pointer   // any other pointer, and handles that are typedefs of a pointer
	ByValue   // a struct or union passed by value
	FuncPtr   // pointer to a function
	classStop // one past the last
)

var classNames = [...]string{
	Tensor: "tensor", TensorList: "tensor list", Scalar: "scalar", ScalarList: "scalar list",
	IntArray: "int array", FloatArray: "float array", BoolArray: "bool array", String: "string",
	Int: "int", Uint: "uint", Enum: "enum", DType: "dtype", Bool: "bool", Double: "double", Float: "float",
	Pointer: "pointer", ByValue: "by value", FuncPtr: "function pointer",
}

// String returns the class in words.
func (c Class) String() string {
	if c > 0 && c < classStop {
		return classNames[c]
	}
	return fmt.Sprintf("class(%d)", uint8(c))
}

var classOfType = map[string]Class{
	"aclTensor *": Tensor, "aclTensorList *": TensorList, "aclScalar *": Scalar, "aclScalarList *": ScalarList,
	"aclIntArray *": IntArray, "aclFloatArray *": FloatArray, "aclBoolArray *": BoolArray, "char *": String,
	"char": Int, "int8_t": Int, "int16_t": Int, "int32_t": Int, "int64_t": Int, "int": Int,
	"uint8_t": Uint, "uint16_t": Uint, "uint32_t": Uint, "uint64_t": Uint, "size_t": Uint, "unsigned int": Uint,
	"unsigned char": Uint, "unsigned long long": Uint, "unsigned long": Uint,
	"bool": Bool, "double": Double, "float": Float, "aclDataType": DType,
}

// Class returns the class of a C type; it follows the typedefs of the table.
func (t *Table) Class(ctype string) (Class, error) {
	for range 8 { // deeper chains of typedefs do not exist
		if strings.Contains(ctype, "( *)(") {
			return FuncPtr, nil
		}
		bare := strings.TrimPrefix(ctype, "const ")
		if c, ok := classOfType[bare]; ok {
			return c, nil
		}
		if strings.ContainsAny(bare, "*") {
			return Pointer, nil
		}
		bare = strings.TrimPrefix(strings.TrimPrefix(bare, "struct "), "union ")
		switch {
		case t.enums[bare]:
			return Enum, nil
		}
		if _, ok := t.records[bare]; ok {
			return ByValue, nil
		}
		target, ok := t.typedefs[bare]
		if !ok || target == bare {
			return 0, fmt.Errorf("type %q is neither basic, enum, record nor typedef of one", ctype)
		}
		ctype = target
	}
	return 0, fmt.Errorf("typedefs of %q do not end", ctype)
}

// isOptional reports whether a parameter's name indicates that null is allowed.
func isOptional(name string) bool {
	return strings.HasPrefix(name, "optional") || strings.Contains(name, "Optional")
}

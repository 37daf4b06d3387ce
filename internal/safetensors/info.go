package safetensors

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/goascend/cann/internal/dtype"
)

// Info describes one tensor: what the header holds of it.
type Info struct {
	Name  string
	DType dtype.Type
	Shape []int // empty for a scalar
}

// Len is the number of elements.
func (i Info) Len() int {
	n := 1
	for _, d := range i.Shape {
		n *= d
	}
	return n
}

// Size is the number of bytes the elements take.
func (i Info) Size() int64 { return int64(i.Len()) * int64(i.DType.Size()) }

// check refuses what has no place in a file; after it Len and Size cannot overflow.
func (i Info) check() error {
	if !Has(i.DType) {
		return &Error{Tensor: i.Name, Err: ErrDType, Detail: i.DType.String()}
	}
	size := uint64(i.DType.Size())
	for _, d := range i.Shape {
		if d < 0 {
			return &Error{Tensor: i.Name, Err: ErrShape, Detail: fmt.Sprintf("%v has a negative dimension", i.Shape)}
		}
		var high uint64
		if high, size = bits.Mul64(size, uint64(d)); high != 0 || size > math.MaxInt64 {
			return &Error{Tensor: i.Name, Err: ErrShape, Detail: fmt.Sprintf("%v of %v takes more than 2^63 bytes", i.Shape, i.DType)}
		}
	}
	return nil
}

// Has reports whether the format has an element type.
func Has(t dtype.Type) bool {
	_, ok := formatNames[t]
	return ok
}

// formatNames are the format's names of the element types it shares with CANN; the types that
// pack several elements into a byte are left out.
var formatNames = map[dtype.Type]string{
	dtype.Bool: "BOOL", dtype.Uint8: "U8", dtype.Int8: "I8",
	dtype.Float8E5M2: "F8_E5M2", dtype.Float8E4M3: "F8_E4M3", dtype.Float8E8M0: "F8_E8M0",
	dtype.Int16: "I16", dtype.Uint16: "U16", dtype.Float16: "F16", dtype.BFloat16: "BF16",
	dtype.Int32: "I32", dtype.Uint32: "U32", dtype.Float32: "F32",
	dtype.Int64: "I64", dtype.Uint64: "U64", dtype.Float64: "F64", dtype.Complex64: "C64",
}

var typesByName = func() map[string]dtype.Type {
	m := make(map[string]dtype.Type, len(formatNames))
	for t, name := range formatNames {
		m[name] = t
	}
	return m
}()

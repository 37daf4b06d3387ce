package element

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/half"
)

// RangeError reports a value that the target dtype cannot represent.
type RangeError struct {
	Index int    // index of the element
	Value string // in decimal
	To    dtype.Type
}

// Error returns a text with the element, its value and the dtype.
func (e *RangeError) Error() string {
	return fmt.Sprintf("element %d, %s, exceeds %v", e.Index, e.Value, e.To)
}

// class groups the dtypes between which values can be converted.
type class uint8

const (
	none class = iota
	float
	integer
	boolean
	complexes
)

func classOf(t dtype.Type) class {
	switch t {
	case dtype.Float64, dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Float8E5M2, dtype.Float8E4M3, dtype.Float8E8M0:
		return float
	case dtype.Int8, dtype.Int16, dtype.Int32, dtype.Int64, dtype.Uint8, dtype.Uint16, dtype.Uint32, dtype.Uint64:
		return integer
	case dtype.Bool:
		return boolean
	case dtype.Complex64, dtype.Complex128:
		return complexes
	}
	return none
}

// Convertible reports whether Convert supports the two dtypes: equal dtypes of whole bytes;
// floating-point to floating-point, where 8-bit types can only be the source; integers and bool to
// integers; complex64 and complex128 to each other.
func Convertible(to, from dtype.Type) bool {
	a, b := classOf(to), classOf(from)
	switch {
	case to == from:
		return to.Size() > 0
	case a == float:
		return b == float && to.Size() > 1
	case a == integer:
		return b == integer || b == boolean
	}
	return a == complexes && b == complexes
}

// Convert converts all elements of src to another dtype and writes them to dst. The dtypes must be
// Convertible, dst must be large enough, and the two must not overlap. A value that does not fit
// the integer type is a *RangeError; a finite number beyond the range of the floating-point type
// becomes infinite; a nonzero bool becomes one.
func Convert(dst []byte, to dtype.Type, src []byte, from dtype.Type) error {
	n := len(src) / from.Size()
	dst = dst[:n*to.Size()]
	switch {
	case from == dtype.Bool:
		return convertBools(dst, to, src)
	case to == from:
		copy(dst, src)
		return nil
	case convert32(dst, to, src, from):
		return nil
	}
	switch classOf(to) {
	case float:
		convertFloats(dst, to, src, from)
		return nil
	case integer:
		return convertIntegers(dst, to, src, from)
	}
	convertComplex(dst, to, src)
	return nil
}

// convertBools writes bools as 0 and 1 of an integer type or as normalised bools, since a Go bool
// must not hold any other byte.
func convertBools(dst []byte, to dtype.Type, src []byte) error {
	clear(dst)
	size := to.Size()
	for i, b := range src {
		dst[i*size] = min(b, 1)
	}
	return nil
}

// convert32 performs the conversions between float32 and the 16-bit types, which dominate reading
// and writing of weights. It returns false for other dtypes.
func convert32(dst []byte, to dtype.Type, src []byte, from dtype.Type) bool {
	le := binary.LittleEndian
	switch {
	case to == dtype.Float32 && from == dtype.BFloat16:
		for len(src) >= 8 && len(dst) >= 16 { // four at a time
			v := le.Uint64(src)
			le.PutUint64(dst, v<<16&0xffff0000|v>>16<<48)
			le.PutUint64(dst[8:], v>>16&0xffff0000|v>>48<<48)
			dst, src = dst[16:], src[8:]
		}
		for len(src) >= 2 && len(dst) >= 4 {
			le.PutUint32(dst, uint32(le.Uint16(src))<<16)
			dst, src = dst[4:], src[2:]
		}
	case to == dtype.Float32 && from == dtype.Float16:
		for len(src) >= 2 && len(dst) >= 4 {
			le.PutUint32(dst, math.Float32bits(half.Float16(le.Uint16(src)).Float32()))
			dst, src = dst[4:], src[2:]
		}
	case to == dtype.BFloat16 && from == dtype.Float32:
		for len(src) >= 4 && len(dst) >= 2 {
			le.PutUint16(dst, uint16(half.BFloat16FromFloat32(math.Float32frombits(le.Uint32(src)))))
			dst, src = dst[2:], src[4:]
		}
	case to == dtype.Float16 && from == dtype.Float32:
		for len(src) >= 4 && len(dst) >= 2 {
			le.PutUint16(dst, uint16(half.Float16FromFloat32(math.Float32frombits(le.Uint32(src)))))
			dst, src = dst[2:], src[4:]
		}
	default:
		return false
	}
	return true
}

func convertComplex(dst []byte, to dtype.Type, src []byte) {
	part := map[dtype.Type]dtype.Type{dtype.Complex64: dtype.Float32, dtype.Complex128: dtype.Float64}
	from := dtype.Complex64
	if to == from {
		from = dtype.Complex128
	}
	convertFloats(dst, part[to], src, part[from])
}

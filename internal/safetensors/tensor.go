package safetensors

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/half"
)

// Tensor is one tensor of an open File. Its elements stay in the file until they are read.
type Tensor struct {
	Info
	path string
	r    io.ReaderAt
	at   int64
}

// ReadInto fills dst, which must be Size bytes long, with the elements as they are in the
// file: row-major, little-endian.
func (t Tensor) ReadInto(dst []byte) error {
	if int64(len(dst)) != t.Size() {
		return &Error{Path: t.path, Tensor: t.Name, Err: ErrSize, Detail: fmt.Sprintf("%v%v takes %d bytes, the buffer has %d", t.DType, t.Shape, t.Size(), len(dst))}
	}
	if err := readAt(t.r, dst, t.at); err != nil {
		return withPath(err, t.path)
	}
	return nil
}

// Bytes reads the elements as they are in the file: row-major, little-endian.
func (t Tensor) Bytes() ([]byte, error) {
	raw := make([]byte, t.Size())
	return raw, t.ReadInto(raw)
}

// Float32s reads the elements of any floating-point type as float32. Only Float64 is rounded,
// to nearest even; the others fit. Integers are refused with ErrDType: see Int64s.
func (t Tensor) Float32s() ([]float32, error) {
	switch t.DType {
	case dtype.Float32:
		return decode(t, func(b []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b)) })
	case dtype.Float16:
		return decode(t, func(b []byte) float32 { return half.Float16(binary.LittleEndian.Uint16(b)).Float32() })
	case dtype.BFloat16:
		return decode(t, func(b []byte) float32 { return half.BFloat16(binary.LittleEndian.Uint16(b)).Float32() })
	case dtype.Float64:
		return decode(t, func(b []byte) float32 { return float32(math.Float64frombits(binary.LittleEndian.Uint64(b))) })
	case dtype.Float8E5M2:
		// Float8E5M2 is the upper byte of a Float16.
		return decode(t, func(b []byte) float32 { return half.Float16(uint16(b[0]) << 8).Float32() })
	case dtype.Float8E4M3:
		return decode(t, func(b []byte) float32 { return float8E4M3(b[0]) })
	case dtype.Float8E8M0:
		return decode(t, func(b []byte) float32 { return float8E8M0(b[0]) })
	}
	return nil, t.mistyped("float32")
}

// Int64s reads the elements of any integer type, or of Bool as 0 and 1. A Uint64 above the
// largest int64 is an error, a floating-point type ErrDType: see Float32s.
func (t Tensor) Int64s() ([]int64, error) {
	switch t.DType {
	case dtype.Int64:
		return decode(t, func(b []byte) int64 { return int64(binary.LittleEndian.Uint64(b)) })
	case dtype.Uint64:
		list, err := decode(t, func(b []byte) int64 { return int64(binary.LittleEndian.Uint64(b)) })
		for i, v := range list {
			if v < 0 {
				return nil, &Error{Path: t.path, Tensor: t.Name, Err: ErrDType, Detail: fmt.Sprintf("element %d, %d, exceeds int64", i, uint64(v))}
			}
		}
		return list, err
	case dtype.Int32:
		return decode(t, func(b []byte) int64 { return int64(int32(binary.LittleEndian.Uint32(b))) })
	case dtype.Uint32:
		return decode(t, func(b []byte) int64 { return int64(binary.LittleEndian.Uint32(b)) })
	case dtype.Int16:
		return decode(t, func(b []byte) int64 { return int64(int16(binary.LittleEndian.Uint16(b))) })
	case dtype.Uint16:
		return decode(t, func(b []byte) int64 { return int64(binary.LittleEndian.Uint16(b)) })
	case dtype.Int8:
		return decode(t, func(b []byte) int64 { return int64(int8(b[0])) })
	case dtype.Uint8:
		return decode(t, func(b []byte) int64 { return int64(b[0]) })
	case dtype.Bool:
		return decode(t, func(b []byte) int64 { return int64(min(b[0], 1)) })
	}
	return nil, t.mistyped("int64")
}

func (t Tensor) mistyped(want string) error {
	return &Error{Path: t.path, Tensor: t.Name, Err: ErrDType, Detail: fmt.Sprintf("%v cannot be read as %s", t.DType, want)}
}

// decode reads the tensor and converts it element by element.
func decode[T any](t Tensor, element func([]byte) T) ([]T, error) {
	raw, err := t.Bytes()
	if err != nil {
		return nil, err
	}
	size := t.DType.Size()
	list := make([]T, t.Len())
	for i := range list {
		list[i] = element(raw[i*size:])
	}
	return list, nil
}

// float8E4M3 is the "fn" variety: bias 7, no infinities, the all-ones pattern is NaN.
func float8E4M3(b byte) float32 {
	exp, frac := int(b>>3&0xf), float64(b&7)
	var v float64
	switch {
	case b&0x7f == 0x7f:
		v = math.NaN()
	case exp == 0:
		v = math.Ldexp(frac, -9)
	default:
		v = math.Ldexp(8+frac, exp-10)
	}
	if b&0x80 != 0 {
		v = math.Copysign(v, -1)
	}
	return float32(v)
}

// float8E8M0 is a power of two with bias 127; 255 is NaN.
func float8E8M0(b byte) float32 {
	if b == 0xff {
		return float32(math.NaN())
	}
	return float32(math.Ldexp(1, int(b)-127))
}
